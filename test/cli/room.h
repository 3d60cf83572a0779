// The built binary in a folder of its own, with a small sweep in it: what the tests of the commands share.
#pragma once
#include "test/support/shell_room.h"

namespace mbench::test {

// A folder of its own, in which the commands are started.
struct Room : ShellRoom {
  Room() {
    put("tiny.json",
        R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "iterations": 3, "warmup": 1,
                         "sweep": {"tp": [1, 2], "strategy": ["baseline", "full"]}})");
  }

  // Runs a shell line in the folder; $M is the binary.
  Run shell(const std::string& line, double timeout_s = 120) const { return run_by("/bin/sh", line, timeout_s); }
};

}  // namespace mbench::test
