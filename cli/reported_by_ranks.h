// A job of this program whose ranks measure for a command that is no sweep (check, calibrate). Rank 0 reports what they found in one
// line.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sweeps/launch/launcher.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::cli {

struct RankJob {
  std::string command;                 // of this program, check or calibrate; also who complains
  std::vector<std::string> arguments;  // what follows it; --end-with FOLDER may be put behind them
  std::string device = "cpu";
  int ranks = 1;
  double timeout_s = 600;
  process::Interrupt* interrupt = nullptr;
  std::string if_interrupted = "interrupted";  // what is said then
};

// Throws bad_input where the launcher cannot start so many.
void check_ranks_can_start(const RankJob& job, const sweeps::Launcher& launcher);

// Starts the ranks as a sweep starts those of a point, with a separate folder for the files of their MPI. Returns what `tell_as_rank`
// printed. Throws launch_failed or timed_out, with the reason and the command, where nothing was printed or the ranks did not end well.
nlohmann::ordered_json reported_by_ranks(const RankJob& job, const sweeps::Launcher& launcher);

// Called by rank 0, once.
void tell_as_rank(const nlohmann::ordered_json& found);

}  // namespace mbench::cli
