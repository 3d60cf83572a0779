// A line of the table of faults: what is done to the built binary, and the exit code and words that it must end with.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "engine/point/result_file.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/room.h"

namespace mbench::test {

struct Fault {
  std::string line;  // a shell line; $M is the binary
  int code;
  std::string says;  // in what is printed, on either stream
};

// Spinning threads would make these tests as slow as the machine's other work.
inline const std::string kOneThread = "export OMP_NUM_THREADS=1; ";
inline const std::string kSimulated = " --on sim:1xcpu --quiet";

// Does each, in order, in the room. None may print at length or what a terminal obeys, or leave a process.
inline void hold(const Room& room, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    const Run run = room.shell(kOneThread + fault.line, 60);
    INFO(fault.line << "\n" << run.out.substr(0, 2000) << run.err.substr(0, 2000));
    CHECK(run.code == fault.code);
    CHECK_THAT(run.out + run.err, Catch::Contains(fault.says));
    CHECK(run.err.size() < 20000);
    for (const std::string control : {"\x1b", "\xC2\x9B"})
      CHECK((run.out + run.err).find(control) == std::string::npos);
    CHECK(process::live_descendants(0).empty());
  }
}

// The rows of a sweep's folder in the room.
inline std::vector<PointResult> rows_of(const Room& room, const std::string& out = "o") {
  return read_result_file(room / (out + "/results.json")).points;
}

// A room with a simulated result of the tiny sweep, and a folder of baselines made of it.
struct RoomWithResult : Room {
  RoomWithResult() {
    const Run run =
        shell("$M sweep tiny.json --set tp=1 --out r" + kSimulated + " && $M baseline add r --dir baselines");
    REQUIRE(run.code == 0);
  }
};

// Whether this user may mount what no other process sees.
inline bool can_mount(const Room& room) {
  if (room.shell("unshare -m sh -c 'mkdir m && mount -t tmpfs none m'; code=$?; rmdir m; exit $code").code == 0)
    return true;
  WARN("not tried, since this user cannot mount: disks that are full or cannot be written");
  return false;
}

// Where a test draws what it does: --rng-seed, or one that no run had before.
inline unsigned seed_of_draws() {
#if __has_include(<catch2/catch_all.hpp>)
  const unsigned given = Catch::getSeed();
#else
  const unsigned given = Catch::rngSeed();
#endif
  return given != 0 ? given : std::random_device()();
}

}  // namespace mbench::test
