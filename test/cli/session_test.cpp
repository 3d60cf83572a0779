// What is left of ranks, and of the files of their MPI, where the sweep or its mpirun are killed. Of the built binary.
#include <filesystem>

#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

// A sweep of two ranks that goes on until it is ended, and shell functions to meet it by.
struct LongSweep : Room {
  LongSweep() {
    put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "tp": 2, "dropout": 0, "warmup": 0,
                      "iterations": 10000000, "env": {"OMP_NUM_THREADS": 1}})");
    put("functions.sh", R"SH(
ranks() {  # the process ids of the ranks that were started in this folder
  for p in /proc/[0-9]*; do
    [ "$(readlink $p/cwd)" = "$PWD" ] || continue
    tr '\0' '\n' 2>/dev/null <$p/environ | grep -q '^OMPI_COMM_WORLD_RANK=' && echo ${p#/proc/}
  done
}
mpirun() { awk '{ print $4 }' /proc/$(ranks | head -1)/stat; }
session() { readlink /proc/$sweep/fd/* | grep /dev/shm/mbench-; }
begin() {  # returns within the first steps
  $M sweep s.json --launcher mpirun --quiet --out o >said 2>&1 &
  sweep=$!
  until [ "$(ls $(session)/*segment* 2>/dev/null | wc -l)" = 2 ]; do
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

}  // namespace

TEST_CASE("session: ranks whose sweep is killed while their mpirun is stopped end, and leave no file") {
  const LongSweep room;
  const Run run = room.with_functions(
      "begin; folder=$(session); echo inside: $(ls $folder); kill -STOP $(mpirun); kill -9 $sweep; until_no_rank; sleep 1; "
      "echo left: $(ls $folder)");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("inside: ompi.") && Contains("vader_segment."));
  CHECK_THAT(run.out, Contains("no rank after "));
  CHECK_THAT(run.out, !Contains("no rank after 8 s"));
  CHECK(live_descendants(0).empty());
}

TEST_CASE("session: what a killed mpirun and sweep leave is gone after the next start, a living sweep's folder is not") {
  const LongSweep room, other;
  const Run killed = room.with_functions(
      "begin; echo folder: $(session); kill -9 $(mpirun) $sweep; until_no_rank; "
      "sed -i 's/10000000/2/' s.json; exec $M sweep s.json --launcher mpirun --quiet --out p");
  INFO(killed.out << killed.err);
  CHECK(killed.code == 0);
  CHECK_THAT(killed.out, Contains("no rank after "));
  const std::size_t begin = killed.out.find("folder: ") + 8;
  const std::string folder = killed.out.substr(begin, killed.out.find('\n', begin) - begin);
  REQUIRE(folder.starts_with("/dev/shm/mbench-"));
  CHECK_FALSE(fs::exists(folder));

  // A sweep that begins beside a living one, and ends, leaves that one's folder alone. That one removes its own, though its
  // mpirun is killed.
  const Run beside = other.with_functions(
      "begin; folder=$(session); sed 's/10000000/2/' s.json >t.json; $M sweep t.json --launcher mpirun --quiet --out p; "
      "echo code $?; ls -d $folder; kill -9 $(mpirun); wait $sweep; echo code $?; ls -d $folder");
  INFO(beside.out << beside.err);
  CHECK_THAT(beside.out, Contains("code 0\n/dev/shm/mbench-"));
  CHECK_THAT(beside.out, Contains("code 3"));
  CHECK_THAT(beside.err, Contains("No such file"));
  CHECK(live_descendants(0).empty());
}
