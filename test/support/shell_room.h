// A folder of its own in which shell lines run, with the built binary as $M: what tests of a command line stand in.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/base/json_reader.h"
#include "engine/process/process.h"
#include "test/support/temporary_folder.h"

namespace mbench::test {

// What became of a line. Code -1: a signal ended it, or its time was over.
struct Run {
  int code = -1;
  std::string out, err;
};

struct ShellRoom : TemporaryFolder {
  void put(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }

  // Runs a line in the folder, by this shell; $ROOM is the folder.
  Run run_by(const std::string& shell, const std::string& line, double timeout_s) const {
    Run run;
    process::ProcessRequest request;
    request.argv = {shell, "-c", "cd \"$ROOM\" || exit 99; " + line};
    // The GPUs that a machine may have are not for these tests: sweeps would run on them unasked.
    request.env = {{"ROOM", path.string()}, {"M", MBENCH_BINARY}, {"CUDA_VISIBLE_DEVICES", ""}};
    request.log = *this / "stderr";
    request.timeout_s = timeout_s;
    request.on_line = [&](std::string_view text) {
      run.out += std::string(text) + "\n";
      return true;
    };
    const process::ProcessEnd end = process::run_process(request);
    run.code = end.how == process::ProcessEnd::How::exited ? end.code : -1;
    run.err = read_text_file(*this / "stderr");
    return run;
  }
};

}  // namespace mbench::test
