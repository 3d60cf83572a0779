// A sweep of two ranks under mpirun that goes on until it is ended, and shell functions to meet its processes by.
#pragma once
#include <string>

#include "test/cli/room.h"

namespace mbench::test {

struct LongSweep : Room {
  // `iterations`: of its points, as JSON.
  explicit LongSweep(const std::string& iterations = "10000000") {
    put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "tp": 2, "dropout": 0, "warmup": 0,
                      "env": {"OMP_NUM_THREADS": 1}, "sweep": {"iterations": [)" + iterations + "]}}");
    put("functions.sh", R"SH(
ranks() {  # the process ids of the ranks that were started in this folder, or of rank $1
  for p in /proc/[0-9]*; do
    [ "$(readlink $p/cwd)" = "$PWD" ] || continue
    tr '\0' '\n' 2>/dev/null <$p/environ | grep -q "^OMPI_COMM_WORLD_RANK=$1" && echo ${p#/proc/}
  done
}
mpirun() { awk '{ print $4 }' /proc/$(ranks | head -1)/stat; }
session() { readlink /proc/$sweep/fd/* | grep /dev/shm/mbench-; }
begin() {  # a sweep with these options; returns within the first steps of its long point
  $M sweep s.json --launcher mpirun --out o "$@" >said 2>&1 &
  sweep=$!
  until grep -qs '"iterations": 10000000' o/points/*.point.json && [ "$(ls $(session)/*segment* 2>/dev/null | wc -l)" = 2 ]; do
    kill -0 $sweep || { cat said; exit 9; }
    sleep 0.1
  done
  sleep 1
}
until_no_rank() {  # says after how many seconds, at most
  for second in 1 2 3 4 5 6 7 8; do
    sleep 1
    [ -z "$(ranks)" ] && { echo "no rank after $second s"; return; }
  done
  echo "ranks left:" $(ranks)
}
)SH");
  }
  Run with_functions(const std::string& line) const { return shell(". ./functions.sh; " + line, 60); }
};

}  // namespace mbench::test
