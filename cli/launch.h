// The launcher of this machine's ranks, by the options of a command.
#pragma once
#include <string>

#include "cli/cli.h"
#include "sweeps/launch/launcher.h"
#include "sweeps/launch/probe.h"

namespace mbench::cli {

// The options --launcher, --hostfile and --launcher-args.
struct LaunchOptions {
  std::string launcher, hostfile, arguments;
  void add_to(CLI::App& command);
  // As they would be typed again.
  void append_to(std::vector<std::string>& argv) const;
};

// Throws bad_input where it cannot start this program.
sweeps::Launcher find_launcher(const LaunchOptions& options);

// The path of this program.
std::string this_program();

}  // namespace mbench::cli
