// What the tests of the sweep's runner share: a runner of the stand-in program of fixture.h, in a folder of its own.
#pragma once
#include <sstream>

#include "sweeps/run/runner.h"
#include "test/sweeps/fixture.h"

namespace sweeps_test {

using namespace mbench;
using namespace mbench::sweeps;

struct Runner {
  Folder folder;
  std::ostringstream progress, tables;
  RunnerOptions options;

  Runner() {
    options.program = fake_program(folder);
    options.out = folder / "out";
    options.launcher = local_launcher();
    options.timeout_s = 20;
    options.resume_command = "mbench sweep ... --resume";
    options.environment = {{"host", "here"}, {"cpu", "a cpu"}, {"cores", 2}};
    options.render_tables = [](const ResultFile& file) {
      std::string text = "table of " + std::to_string(file.points.size()) + "\n";
      for (const PointResult& r : file.points) text += std::string(name_of(r.outcome)) + "\n";
      return text;
    };
    options.progress = &progress;
    options.tables = &tables;
  }
  // One point for each object of environment variables.
  Spec spec(const std::string& envs, const std::string& more = "\"global_batch\": 4") const {
    return spec_of(folder, more + R"(, "sweep": {"env": [)" + envs + "]}");
  }
  SweepEnd run(const Spec& s) { return run_sweep(s, options); }
  PointResult one(const std::string& env) { return run(spec(env)).file.points.at(0); }
};

}  // namespace sweeps_test
