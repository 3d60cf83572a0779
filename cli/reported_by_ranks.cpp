#include "cli/reported_by_ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "cli/launch.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/point/outcome.h"
#include "engine/point/point.h"
#include "engine/process/process.h"
#include "sweeps/launch/hopeless_launch.h"
#include "sweeps/run/failure.h"
#include "sweeps/store/session_folder.h"

namespace mbench::cli {
namespace {

constexpr std::string_view kReported = "{\"reported\": ";

sweeps::Command command_of(const RankJob& job, const sweeps::Launcher& launcher,
                           const std::vector<std::string>& program) {
  Point ranks;  // as many of them as a layout of data parallelism has
  ranks.dp = job.ranks;
  ranks.device = job.device;
  try {
    return sweeps::command_for(launcher, ranks, program);
  } catch (const Error& e) {  // for a sweep it is the outcome of a point; here what was asked for cannot be
    if (e.kind() != ErrorKind::launch_failed) throw;
    const std::string text = e.what();  // "[where] what"
    const std::size_t end = text.find("] ");
    throw Error(ErrorKind::bad_input, text.substr(1, end - 1), text.substr(end + 2));
  }
}

}  // namespace

void check_ranks_can_start(const RankJob& job, const sweeps::Launcher& launcher) {
  command_of(job, launcher, {this_program()});
}

nlohmann::ordered_json reported_by_ranks(const RankJob& job, const sweeps::Launcher& launcher) {
  std::vector<std::string> program = {this_program(), job.command};
  program.insert(program.end(), job.arguments.begin(), job.arguments.end());
  std::optional<sweeps::SessionFolder> session;
  if (sweeps::keeps_session_here(launcher)) session = sweeps::SessionFolder::make();
  if (session) program.insert(program.end(), {"--end-with", session->path()});
  const sweeps::Command command = command_of(job, launcher, program);
  std::optional<nlohmann::ordered_json> reported;
  sweeps::HopelessLaunch launch;
  process::ProcessRequest process;
  process.argv = command.argv;
  process.env = command.env;
  if (session) process.env.merge(sweeps::session_variables(session->path(), {}));
  process.timeout_s = job.timeout_s;
  process.interrupt = job.interrupt;
  process.on_line = [&](std::string_view line) {
    if (!line.starts_with(kReported)) return launch.take(line), false;
    reported = parse_json(line, "mbench " + job.command).at("reported");
    return true;
  };
  process.on_error_line = [&](std::string_view line) { return launch.take(line), false; };
  process.give_up = [&] { return launch.look(); };
  const process::ProcessEnd end = process::run_process(process);
  if (reported && end.how == process::ProcessEnd::How::exited && end.code == 0) return std::move(*reported);
  if (end.how == process::ProcessEnd::How::interrupted)
    fail(ErrorKind::launch_failed, job.command, "{}", job.if_interrupted);
  const sweeps::Failure failure = sweeps::explain_failure(end, launcher, "", job.timeout_s);
  fail(failure.outcome == Outcome::timeout ? ErrorKind::timed_out : ErrorKind::launch_failed, job.command,
       "{}; got it from: {}", failure.reason, sweeps::shell_text(command));
}

void tell_as_rank(const nlohmann::ordered_json& found) {
  fmt::print("{}{}}}\n", kReported, found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace mbench::cli
