// A sweep of two ranks under mpirun that goes on until it is ended, and shell functions to meet its processes by.
#pragma once
#include <string>
#include <vector>

#include "test/cli/room.h"

namespace mbench::test {

// Its ranks let others have their core while they wait: several such sweeps may run side by side.
struct LongSweep : Room {
  // `iterations`: of its points, as JSON.
  explicit LongSweep(const std::string& iterations = "10000000") {
    put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "tp": 2, "dropout": 0, "warmup": 0,
                      "env": {"OMP_NUM_THREADS": 1, "OMPI_MCA_mpi_yield_when_idle": 1}, "sweep": {"iterations": [)" +
                      iterations + "]}}");
    put("functions.sh", R"SH(
ranks() {  # the process ids of the ranks that were started in this folder, or of rank $1
  ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n "s|.*/proc/\([0-9]*\)/cwd -> $PWD\$|\1|p" | while read -r p; do
    tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -q "^OMPI_COMM_WORLD_RANK=$1" && echo "$p"
  done
}
mpirun() {  # the process id of what has started them
  for rank in $(ranks | head -1); do awk '{ print $4 }' "/proc/$rank/stat"; done
}
session() { readlink /proc/$sweep/fd/* | grep /dev/shm/mbench-; }
begin() {  # a sweep with these options; returns when its long point has told of steps
  $M sweep s.json --launcher mpirun --out o --metrics m.prom "$@" >said 2>&1 &
  sweep=$!
  until grep -qs '"iterations": 10000000' o/points/*.point.json && grep -qs '^mbench_loss{' m.prom; do
    kill -0 $sweep || { cat said; exit 9; }
    sleep 0.1
  done
}
until_no_rank() {  # within seven seconds
  for i in 1 2 3 4 5 6 7; do
    for j in 1 2 3 4 5; do
      [ -z "$(ranks)" ] && { echo "no rank left"; return; }
      sleep 0.2
    done
  done
  echo "ranks left:" $(ranks)
}
)SH");
  }
  Run with_functions(const std::string& line) const { return shell(". ./functions.sh; " + line, 60); }

  // Runs each line in a folder of its own that begins as a copy of this one, side by side. Returns what each has printed. The folders
  // are called 0, 1, ...
  std::vector<std::string> side_by_side(const std::vector<std::string>& lines) const {
    std::string all;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string folder = std::to_string(i);
      put(folder + "/line.sh", ". ./functions.sh\n" + lines[i] + "\n");
      all +=
          "cp s.json functions.sh " + folder + "; (cd " + folder + " && exec sh line.sh >printed 2>&1 </dev/null) & ";
    }
    shell(all + "wait", 120);
    std::vector<std::string> printed;
    for (std::size_t i = 0; i < lines.size(); ++i)
      printed.push_back(read_text_file(*this / (std::to_string(i) + "/printed")));
    return printed;
  }
};

}  // namespace mbench::test
