"""A Slurm of one node, for as long as a test takes: munged, slurmctld and slurmd as this user, on free ports, with files in a
folder of its own. As a stock one it has no PMI by default (MpiDefault=none)."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo")


def why_not():
    """Why it cannot be started here; empty if it can."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"no Slurm is installed here, got no {', '.join(missing)} (Debian: slurm-wlm munge)"
    if os.geteuid() != 0:
        return "slurmd starts steps as root alone"
    return ""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm:
    def __init__(self, cpus):
        self.cpus = cpus
        self.started = []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mbench-slurm-")
        self.room = pathlib.Path(self.folder.name)
        os.chmod(self.room, 0o755)
        for name in ("state", "spool"):
            (self.room / name).mkdir()
        name = socket.gethostname().split(".")[0]
        conf = self.room / "slurm.conf"
        conf.write_text(f"""ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.room}/munge.socket
StateSaveLocation={self.room}/state
SlurmdSpoolDir={self.room}/spool
SlurmctldPidFile={self.room}/slurmctld.pid
SlurmdPidFile={self.room}/slurmd.pid
SlurmctldLogFile={self.room}/slurmctld.log
SlurmdLogFile={self.room}/slurmd.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs={self.cpus} State=UNKNOWN
PartitionName=test Nodes={name} Default=YES MaxTime=INFINITE State=UP
""")
        self.env = {"SLURM_CONF": str(conf), "PATH": os.environ["PATH"]}
        key = self.room / "munge.key"
        key.write_bytes(os.urandom(128))
        os.chmod(key, 0o600)
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.room}/munge.socket",
                       f"--pid-file={self.room}/munged.pid", f"--log-file={self.room}/munged.log", f"--seed-file={self.room}/seed")
            self.wait("munged's socket", lambda: (self.room / "munge.socket").exists())
            self.start("slurmctld", "-D", "-f", conf)
            self.start("slurmd", "-D", "-f", conf, "-N", name)
            self.wait("an idle node", lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start(self, *command):
        log = open(self.room / f"{command[0]}.out", "w")
        self.started.append(subprocess.Popen(command, env={**os.environ, **self.env}, stdout=log, stderr=subprocess.STDOUT))

    def ask(self, *command):
        said = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=30)
        return said.stdout + said.stderr

    def wait(self, what, there):
        end = time.monotonic() + 60
        while not there():
            if time.monotonic() > end or any(one.poll() is not None for one in self.started):
                logs = "\n".join(f"{p.name}: {p.read_text(errors='replace')[-2000:]}" for p in sorted(self.room.glob("*.[lo][ou][gt]")))
                raise RuntimeError(f"waited for {what}, which did not come\n{logs}")
            time.sleep(0.2)

    def version(self):
        return self.ask("srun", "--version").strip()

    def __exit__(self, *_):
        for one in reversed(self.started):
            one.terminate()
        for one in reversed(self.started):
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self.folder.cleanup()
