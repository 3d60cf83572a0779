#include "sweeps/run/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <regex>

#include "engine/base/text.h"
#include "engine/point/outcome.h"

namespace mbench::sweeps {
namespace {

using Lines = std::vector<std::string>;

// Lines by which a launcher says that it could not start the ranks: Open MPI, MPICH, Slurm.
constexpr std::array kNotLaunched = {
    "There are not enough slots available",
    "All nodes which are allocated for this job are already filled",
    "unable to find the specified executable",
    "was unable to launch the specified application",
    "could not find an executable",
    "was unable to reliably start one or more daemons",
    "mpirun has detected an attempt to run as root",
    "execvp error on file",
    "unable to connect to",
    "Unable to create step",
    "Unable to allocate resources",
    "More processors requested than permitted",
    "Requested node configuration is not available",
    "task launch for",
    "Task launch for",
    "Application launch failed",
    "Unable to confirm allocation",
    "Invalid MPI plugin",
    "Couldn't find the specified plugin name for mpi",
    "invalid MPI type",
    "OMPI was not built with SLURM",
    "PMI server was not found",
    "PMIX ERROR: UNREACH",
    "error: execve()",
    "(ulimit -",
};

// Lines that name the host or the daemon that was lost, whether or not ranks had spoken: ssh, Open MPI, Slurm, Hydra.
constexpr std::array kHostLost = {
    "ssh: connect to host",
    "ssh: Could not resolve hostname",
    "Host key verification failed",
    "Permission denied (publickey",
    "Node failure on",
    "An ORTE daemon has unexpectedly failed",
    "PRTE has lost communication with a remote daemon",
    "ORTE has lost communication with a remote daemon",
    "  Remote daemon: [[",
    "HYDU_sock_connect",
    "unable to get host address",
};

// What launchers print around the ranks' own words.
constexpr std::array kBoilerplate = {
    "Primary job ",
    "a non-zero exit code. Per user-direction",
    "mpirun detected that one or more processes",
    "non-zero status, thus causing the job",
    "Process name: [[",
    "Exit code: ",
    "mpirun noticed that process",
    "with errorcode",
    "NOTE: invoking MPI_ABORT",
    "You may or may not see output",
    "exactly when Open MPI kills",
    "MPI_ABORT was invoked",
    "BAD TERMINATION OF ONE",
    "CLEANING UP REMAINING",
    "YOU CAN IGNORE THE BELOW",
    "prterun noticed that process",
    "srun: Job step aborted",
    "srun: Terminating StepId",
};

// Of srun's lines those that tell of single tasks are read by rank_end; the others are its own reasons.
bool is_task_line(const std::string& line) {
  static const std::regex task(R"(srun: error: .*tasks? [\d,\-]+: )");
  return std::regex_search(line, task);
}

template <std::size_t N>
bool mentions(const std::string& line, const std::array<const char*, N>& phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return line.find(phrase) != std::string::npos; });
}

bool is_ruler(const std::string& line) {
  return line.find_first_not_of("-=| \t\r") == std::string::npos;
}

std::string signal_text(int number) {
  const char* name = ::strsignal(number);
  return fmt::format("killed by signal {} ({})", number, name ? name : "unknown");
}

std::optional<std::smatch> match(const std::string& line, const std::regex& pattern) {
  std::smatch found;
  return std::regex_search(line, found, pattern) ? std::optional(found) : std::nullopt;
}

// "rank 1 killed by signal 9 (Killed)", as the launcher tells it; empty if it tells nothing.
std::string rank_end(const Lines& lines, const std::vector<Host>& hosts) {
  static const std::regex open_mpi_signal(R"(process rank (\d+) with PID .* exited on signal (\d{1,3}))");
  // Open MPI 5 breaks the line behind "exited on".
  static const std::regex open_mpi_rank(R"(process rank (\d+) with PID .* exited on\s*$)");
  static const std::regex open_mpi_next(R"(^\s*signal (\d{1,3}))");
  static const std::regex abort(R"(MPI_ABORT was invoked on rank (\d+))");
  static const std::regex open_mpi_name(R"(Process name: \[\[\d+,\d+\],(\d+)\])");
  static const std::regex exit_code(R"(Exit code:\s+(\d+))");
  static const std::regex hydra_string(R"(EXIT STRING: .*\(signal (\d{1,3})\))");
  static const std::regex hydra_code(R"(EXIT CODE: (\d+))");
  static const std::regex slurm(R"(srun: error: .*tasks? ([\d,\-]+): (.+))");
  std::string rank, text;
  const auto named = [&](const std::string& number) {
    return number.size() < 10 && number.find_first_not_of("0123456789") == std::string::npos
               ? rank_text(std::stoll(number), hosts)
               : "rank " + number;
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (const auto m = match(line, open_mpi_signal))
      return fmt::format("{} {}", named((*m)[1]), signal_text(std::stoi((*m)[2])));
    if (const auto m = match(line, open_mpi_rank); m && i + 1 < lines.size())
      if (const auto next = match(lines[i + 1], open_mpi_next))
        return fmt::format("{} {}", named((*m)[1]), signal_text(std::stoi((*next)[1])));
    if (const auto m = match(line, hydra_string)) return "a rank was " + signal_text(std::stoi((*m)[1]));
    if (const auto m = match(line, abort)) text = fmt::format("{} called MPI_Abort", named((*m)[1]));
    if (const auto m = match(line, slurm)) text = fmt::format("{}: {}", named((*m)[1]), (*m)[2].str());
    if (const auto m = match(line, open_mpi_name)) rank = (*m)[1];
    if (const auto m = match(line, exit_code); m && text.empty())
      text = rank.empty() ? fmt::format("a rank exited with code {}", (*m)[1].str())
                          : fmt::format("{} exited with code {}", named(rank), (*m)[1].str());
    if (const auto m = match(line, hydra_code); m && text.empty())
      text = fmt::format("a rank exited with code {}", (*m)[1].str());
  }
  return text;
}

// Open MPI names the node of a daemon that it lost some lines below the sentence that says so.
std::string daemon_end(const Lines& lines) {
  static const std::regex node(R"(Remote daemon: \[\[.*\] on node (\S+))");
  for (const std::string& line : lines)
    if (const auto m = match(line, node))
      return fmt::format("a host was lost: the launcher's daemon on {} has ended, or cannot be reached",
                         printable(std::string((*m)[1])));
  return "";
}

// The last words of the ranks: mbench's own message if there is one, else the last three lines.
std::string last_words(const Lines& lines) {
  static const std::regex own_message(R"(mbench: (\[.*\] .*))");
  // Open MPI's reason stands above what it concludes from it.
  static const std::regex mpi_reason(R"re(--> Returned (?:value )?"?([^"(]+?)"? \(-?\d+\) instead of)re");
  Lines words;
  for (const std::string& line : lines)
    if (const auto m = match(line, mpi_reason)) return "MPI did not start: " + printable(std::string((*m)[1]));
  for (const std::string& line : lines) {
    if (const auto m = match(line, own_message)) return printable(std::string((*m)[1]));
    if (!is_ruler(line) && !mentions(line, kBoilerplate) && !is_task_line(line)) words.push_back(line);
  }
  std::string text;
  for (std::size_t i = words.size() > 3 ? words.size() - 3 : 0; i < words.size(); ++i) {
    const std::size_t first = words[i].find_first_not_of(" \t");
    text += (text.empty() ? "" : " | ") + printable(words[i].substr(first == std::string::npos ? 0 : first));
  }
  return text.size() > 400 ? "..." + text.substr(text.size() - 397) : text;
}

std::string with_words(std::string reason, const Lines& lines) {
  const std::string words = last_words(lines);
  return words.empty() ? reason : reason + "; last output: " + words;
}

}  // namespace

bool names_lost_host(const std::string& line) {
  return mentions(line, kHostLost);
}

Failure explain_failure(const process::ProcessEnd& end, const Launcher& launcher, const std::string& progress,
                        double timeout_s, const std::vector<Host>& hosts) {
  const std::string reached = progress.empty() ? "before its first sign of life" : "after " + progress;
  switch (end.how) {
    case process::ProcessEnd::How::not_started:
      return {Outcome::launch_failed,
              fmt::format("{} could not be started: {}", launcher.program.empty() ? "the program" : launcher.program,
                          std::strerror(end.code))};
    case process::ProcessEnd::How::timed_out:
      return {
          Outcome::timeout,
          with_words(fmt::format("killed by the time-out of {}, {}", format_duration(timeout_s), reached), end.tail)};
    case process::ProcessEnd::How::given_up: {
      // What the launcher has said of the host tells more than its silence.
      const auto lost = std::find_if(end.tail.begin(), end.tail.end(),
                                     [](const std::string& line) { return mentions(line, kHostLost); });
      const std::string reported = lost == end.tail.end() ? "" : "; " + printable(*lost);
      const std::string why = fmt::format("{}, {}{}", end.why, reached, reported);
      // Where no rank has spoken, what their launcher has said is all that is known.
      const Outcome outcome = mentions(end.why, kNotLaunched) ? Outcome::launch_failed : Outcome::timeout;
      return {outcome, progress.empty() && reported.empty() ? with_words(why, end.tail) : why};
    }
    case process::ProcessEnd::How::interrupted:
      return {Outcome::crashed, "interrupted"};
    case process::ProcessEnd::How::signalled:
    case process::ProcessEnd::How::exited:
      break;
  }
  if (progress.empty()) {
    // The line that names a host tells more than what the launcher concludes from it.
    const auto lost = std::find_if(end.tail.begin(), end.tail.end(),
                                   [](const std::string& line) { return mentions(line, kHostLost); });
    if (lost != end.tail.end()) return {Outcome::launch_failed, printable(*lost)};
    const auto reported = std::find_if(end.tail.begin(), end.tail.end(),
                                       [](const std::string& line) { return mentions(line, kNotLaunched); });
    if (reported != end.tail.end()) {
      // The sentence may run on over the lines that follow, and after a colon beyond an empty one.
      std::string reason;
      for (auto line = reported; line != end.tail.end() && line->find("----") != 0 && reason.size() < 300; ++line) {
        if (line != reported && *line == *reported) break;  // every rank says so
        const std::size_t first = line->find_first_not_of(" \t\r");
        if (first != std::string::npos)
          reason += (reason.empty() ? "" : " ") + line->substr(first);
        else if (!reason.ends_with(':'))
          break;
      }
      if (reported->find("OMPI was not built with SLURM") != std::string::npos)
        reason += "; need --mpi=pmix (SLURM_MPI_TYPE=pmix), or --launcher mpirun";
      return {Outcome::launch_failed, printable(reason)};
    }
  }
  std::string how = rank_end(end.tail, hosts);
  if (how.empty()) how = daemon_end(end.tail);
  if (how.empty())
    for (const std::string& line : end.tail)
      if (how.empty() && mentions(line, kHostLost)) how = "a host was lost: " + printable(line);
  const bool signalled = end.how == process::ProcessEnd::How::signalled;
  if (how.empty() && signalled) how = signal_text(end.code);
  // The ranks may die by a signal and a shell between them and the launcher may say it as a code above 128.
  if (how.empty() && end.code > 128 && end.code < 128 + 65) how = signal_text(end.code - 128);
  if (how.empty() && end.code != 0) how = fmt::format("exited with code {}", end.code);
  if (how.empty()) how = "ended without a result";
  if (how.find("signal 9 ") != std::string::npos) how += ", which is also how the kernel ends what fills the memory";
  return {Outcome::crashed, with_words(fmt::format("{}, {}", how, reached), end.tail)};
}

}  // namespace mbench::sweeps
