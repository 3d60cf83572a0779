// The built binary in a folder of its own: what the tests of the commands share.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/base/json_reader.h"
#include "engine/process/process.h"
#include "test/support/temporary_folder.h"

namespace mbench::test {

// What became of a command.
struct Run {
  int code = -1;
  std::string out, err;
};

// A folder of its own, in which the commands are started.
struct Room : TemporaryFolder {
  Room() {
    put("tiny.json",
        R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "iterations": 3, "warmup": 1,
                         "sweep": {"tp": [1, 2], "strategy": ["baseline", "full"]}})");
  }
  void put(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }

  // Runs a shell line in the folder; $M is the binary.
  Run shell(const std::string& line, double timeout_s = 120) const {
    Run run;
    ProcessRequest request;
    request.argv = {"/bin/sh", "-c", "cd \"$ROOM\" || exit 99; " + line};
    // The GPUs that a machine may have are not for these tests: sweeps would run on them unasked.
    request.env = {{"ROOM", path.string()}, {"M", MBENCH_BINARY}, {"CUDA_VISIBLE_DEVICES", ""}};
    request.log = *this / "stderr";
    request.timeout_s = timeout_s;
    request.on_line = [&](std::string_view text) {
      run.out += std::string(text) + "\n";
      return true;
    };
    const ProcessEnd end = run_process(request);
    run.code = end.how == ProcessEnd::How::exited ? end.code : -1;
    run.err = read_text_file(*this / "stderr");
    return run;
  }
};

}  // namespace mbench::test
