# Three hosts h1, h2, h3 of namespaces, and what the tests do to them; read by bash (`. hosts.sh`). $ROOM is the folder of the test, $M
# the program. Each host has its own network, name, shared memory and, in $ROOM/work, a folder that the others do not see; h3 has
# another CPU by its looks. Two links join them: ctl (10.9.0.N), by which the launcher speaks, and data (10.9.1.N), by which ranks do.

# The ranks of three hosts share the cores of one.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent=$ROOM/agent OMPI_MCA_oob_tcp_if_include=ctl OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=data

make_hosts() {
  printf '127.0.0.1 localhost\n10.9.0.1 h1\n10.9.0.2 h2\n10.9.0.3 h3\n' > "$ROOM/hosts"
  printf 'h1 slots=1\nh2 slots=1\nh3 slots=1\n' > "$ROOM/three.txt"
  sed 's/^\(model name[^:]*\):.*/\1: Another CPU/' /proc/cpuinfo > "$ROOM/cpuinfo"
  mkdir -p "$ROOM/work"
  # Starts a command on a host as ssh does, and says what ssh says where it cannot be reached: nobody listens on its port 22, so that
  # an answer is a refusal.
  cat > "$ROOM/agent" <<AGENT
#!/bin/bash
host=\$1; shift
said=\$(timeout 2 bash -c "exec 3<>/dev/tcp/\$host/22" 2>&1)
case "\$said" in
  *refused*) ;;
  *) echo "ssh: connect to host \$host port 22: Connection timed out" >&2; exit 255 ;;
esac
exec nsenter -t "\$(cat "$ROOM/\$host.pid")" -n -u -m sh -c "\$*"
AGENT
  chmod +x "$ROOM/agent"
  ip link set lo up
  for link in ctl data; do ip link add $link type bridge && ip link set $link up || return 1; done
  for i in 1 2 3; do
    setsid unshare --net --uts --mount sleep infinity < /dev/null > /dev/null 2>&1 &
    echo $! > "$ROOM/h$i.pid"
    until [ "$(readlink /proc/$!/ns/uts)" != "$(readlink /proc/self/ns/uts)" ]; do sleep 0.01; done
    for link in ctl data; do
      ip link add $link$i type veth peer name $link netns $! && ip link set $link$i master $link up || return 1
    done
    on h$i "hostname h$i; ip link set lo up
      ip addr add 10.9.0.$i/24 dev ctl; ip link set ctl up; ip addr add 10.9.1.$i/24 dev data; ip link set data up
      mount --bind $ROOM/hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm
      mount -t tmpfs tmpfs $ROOM/work
      [ $i = 3 ] && mount --bind $ROOM/cpuinfo /proc/cpuinfo" || [ $i != 3 ] || return 1
  done
}

# A shell line on a host.
on() {
  local host=$1
  shift
  nsenter -t "$(cat "$ROOM/$host.pid")" -n -u -m bash -c "cd $ROOM/work 2> /dev/null || cd $ROOM; $*"
}

# The processes of that name on a host.
pids() {
  local host=$1 name=$2 p
  local there
  there=$(readlink "/proc/$(cat "$ROOM/$host.pid")/ns/uts")
  for p in $(pgrep -x "$name"); do
    [ "$(readlink "/proc/$p/ns/uts" 2> /dev/null)" = "$there" ] && echo "$p"
  done
}

rank_on() {
  local p
  for p in $(pids "$1" mbench); do
    tr '\0' ' ' < "/proc/$p/cmdline" | grep -q 'mbench run' && echo "$p"
  done
}

# Until the sweep on h1 that keeps its metrics in that file of $ROOM/work has measured steps; false after 150 s, and once its process
# has ended.
in_mid_step() {
  local file=$1 sweep=$2 end=$((SECONDS + 150))
  while [ $SECONDS -lt $end ] && kill -0 "$sweep" 2> /dev/null; do
    on h1 "grep -q '^mbench_steps_total{[^}]*} [1-9]' $file 2> /dev/null" && return 0
    sleep 0.2
  done
  return 1
}

link_down() { ip link set "$1" down; }
link_up() { ip link set "$1" up; }

# Whether within 20 s nothing of a job is left on a host.
nothing_left() {
  local i host=$1
  for i in $(seq 200); do
    [ -z "$(pids "$host" mbench)$(pids "$host" orted)$(pids "$host" mpirun)" ] && return 0
    sleep 0.1
  done
  for i in mbench orted mpirun; do pids "$host" $i | while read -r p; do tr '\0' ' ' < "/proc/$p/cmdline"; echo; done; done 2> /dev/null
  return 1
}
