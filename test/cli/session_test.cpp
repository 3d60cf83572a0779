// What is left of ranks, and of the files of their MPI, where the sweep or its mpirun are killed. Of the built binary.
#include <filesystem>

#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/long_sweep.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("session: ranks whose sweep is killed while their mpirun is stopped end, and leave no file") {
  const LongSweep room;
  const Run run = room.with_functions(
      "begin --quiet; folder=$(session); echo inside: $(ls $folder); kill -STOP $(mpirun); kill -9 $sweep; "
      "until_no_rank; sleep 1; "
      "echo left: $(ls $folder)");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("inside: ompi.") && Contains("vader_segment."));
  CHECK_THAT(run.out, Contains("no rank left"));
  CHECK(live_descendants(0).empty());
}

TEST_CASE(
    "session: what a killed mpirun and sweep leave is gone after the next start, a living sweep's folder is not") {
  const LongSweep room, other;
  const Run killed = room.with_functions(
      "begin --quiet; echo folder: $(session); kill -9 $(mpirun) $sweep; until_no_rank; "
      "sed -i 's/10000000/2/' s.json; exec $M sweep s.json --launcher mpirun --quiet --out p");
  INFO(killed.out << killed.err);
  CHECK(killed.code == 0);
  CHECK_THAT(killed.out, Contains("no rank left"));
  const std::size_t begin = killed.out.find("folder: ") + 8;
  const std::string folder = killed.out.substr(begin, killed.out.find('\n', begin) - begin);
  REQUIRE(folder.starts_with("/dev/shm/mbench-"));
  CHECK_FALSE(fs::exists(folder));

  // A sweep that begins beside a living one, and ends, leaves that one's folder alone. That one removes its own, though its
  // mpirun is killed.
  const Run beside = other.with_functions(
      "begin --quiet; folder=$(session); sed 's/10000000/2/' s.json >t.json; $M sweep t.json --launcher mpirun --quiet "
      "--out p; "
      "echo code $?; ls -d $folder; kill -9 $(mpirun); wait $sweep; echo code $?; ls -d $folder");
  INFO(beside.out << beside.err);
  CHECK_THAT(beside.out, Contains("code 0\n/dev/shm/mbench-"));
  CHECK_THAT(beside.out, Contains("code 3"));
  CHECK_THAT(beside.err, Contains("No such file"));
  CHECK(live_descendants(0).empty());
}
