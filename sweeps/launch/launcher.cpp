#include "sweeps/launch/launcher.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/base/controls.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/wait_policy.h"
#include "engine/point/point.h"
#include "engine/point/processes.h"

namespace mbench::sweeps {
namespace {

// Beyond this many ranks on a core a machine starts to swap rather than to compute.
constexpr std::int64_t kRanksPerCore = 32;

constexpr std::array kKinds = {LauncherKind::mpirun, LauncherKind::mpiexec, LauncherKind::srun, LauncherKind::flux,
                               LauncherKind::local};

constexpr std::string_view kForwardedPrefixes[] = {"NCCL_", "UCX_", "FI_", "CUDA_", "OPENBLAS_"};
constexpr std::string_view kForwardedNames[] = {"LD_LIBRARY_PATH", "PATH"};

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// What of this process's environment the launcher does not bring to other nodes by itself.
Words names_to_forward(const Launcher& launcher, const Command& command) {
  Words names;
  for (const auto& [name, value] : command.env) names.push_back(name);
  for (const std::string& name : launcher.forwarded)
    if (!command.env.contains(name)) names.push_back(name);
  return names;
}

Words open_mpi_words(const Launcher& launcher, std::int64_t ranks, const Spread& spread, const Command& command) {
  Words words = {launcher.program, "-np", std::to_string(ranks), "--bind-to", "none"};
  if (!launcher.hostfile.empty()) append(words, {"--hostfile", launcher.hostfile});
  if (spread.reported) append(words, {"--map-by", fmt::format("ppr:{}:node", spread.per_node)});
  if (!launcher.allocated) words.push_back("--oversubscribe");
  if (launcher.root) words.push_back("--allow-run-as-root");
  if (spread.per_node > launcher.cores) append(words, {"--mca", "mpi_yield_when_idle", "1"});
  for (const std::string& name : names_to_forward(launcher, command)) append(words, {"-x", name});
  return words;
}

Words hydra_words(const Launcher& launcher, std::int64_t ranks, const Spread& spread, const Command& command) {
  Words words = {launcher.program, "-n", std::to_string(ranks)};
  if (!launcher.hostfile.empty()) append(words, {"-f", launcher.hostfile});
  if (spread.reported) append(words, {"-ppn", std::to_string(spread.per_node)});
  for (const auto& [name, value] : command.env) append(words, {"-genv", name, value});
  std::string list;
  for (const std::string& name : launcher.forwarded)
    if (!command.env.contains(name)) list += (list.empty() ? "" : ",") + name;
  if (!list.empty()) append(words, {"-genvlist", list});
  return words;
}

Words srun_words(const Launcher& launcher, std::int64_t ranks, const Spread& spread) {
  Words words = {launcher.program, "-n", std::to_string(ranks)};
  if (spread.reported)
    append(words, {"-N", std::to_string(spread.nodes), fmt::format("--ntasks-per-node={}", spread.per_node)});
  append(words, {"--kill-on-bad-exit=1", "--export=ALL"});
  return words;
}

Words flux_words(const Launcher& launcher, std::int64_t ranks, const Spread& spread) {
  Words words = {launcher.program, "run", "-n", std::to_string(ranks)};
  if (spread.reported) append(words, {"-N", std::to_string(spread.nodes)});
  append(words, {"-o", "cpu-affinity=off", "-o", "exit-on-error"});
  return words;
}

// One thread pool of cores / ranks each. Ranks share the cores: each takes its part and pins nothing. Where they outnumber the
// cores, threads sleep as they wait; where the machine is not the job's own, they look a while before: a thread that spins keeps a
// neighbour's core from the one that it waits for, one that sleeps at once pays for its way back at every small op.
std::map<std::string, std::string> thread_variables(const Launcher& launcher, const Spread& spread,
                                                    const std::map<std::string, std::string>& asked) {
  const std::string threads = std::to_string(std::max<std::int64_t>(1, launcher.cores / spread.per_node));
  std::map<std::string, std::string> env = {
      {"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}, {"OMP_PROC_BIND", "false"}};
  if (spread.per_node > launcher.cores)
    env["OMP_WAIT_POLICY"] = "passive";
  else if (!launcher.allocated && !asked.contains("OMP_WAIT_POLICY"))  // whose word a count of looks would take
    env.insert(kLookThenSleep.begin(), kLookThenSleep.end());
  for (const auto& [name, value] : asked) env[name] = value;
  return env;
}

Command assemble(const Launcher& launcher, std::int64_t ranks, const Spread& spread,
                 std::map<std::string, std::string> env, const Words& program) {
  Command command;
  command.env = std::move(env);
  switch (launcher.kind) {
    case LauncherKind::local:
      break;
    case LauncherKind::srun:
      command.argv = srun_words(launcher, ranks, spread);
      break;
    case LauncherKind::flux:
      command.argv = flux_words(launcher, ranks, spread);
      break;
    case LauncherKind::mpirun:
    case LauncherKind::mpiexec:
      command.argv = launcher.flavour == MpiFlavour::mpich ? hydra_words(launcher, ranks, spread, command)
                                                           : open_mpi_words(launcher, ranks, spread, command);
      break;
  }
  append(command.argv, launcher.needed);
  append(command.argv, launcher.more);
  append(command.argv, program);
  return command;
}

}  // namespace

std::string_view name_of(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::mpirun:
      return "mpirun";
    case LauncherKind::mpiexec:
      return "mpiexec";
    case LauncherKind::srun:
      return "srun";
    case LauncherKind::flux:
      return "flux";
    case LauncherKind::local:
      return "local";
  }
  return "?";
}

LauncherKind read_launcher(const std::string& name, const std::string& where) {
  const std::string file = name.substr(name.find_last_of('/') + 1);
  const std::string stem = file.substr(0, file.find('.'));
  Words names;
  for (const LauncherKind kind : kKinds) {
    if (stem == name_of(kind) && (kind != LauncherKind::local || name == "local")) return kind;
    names.emplace_back(name_of(kind));
  }
  fail(ErrorKind::bad_input, where, "no such launcher, got \"{}\", {}", name, nearest_choice(stem, names));
}

std::string Launcher::describe() const {
  if (kind == LauncherKind::local) return "local (one rank, no launcher)";
  return fmt::format("{} ({})", program, version.empty() ? "not found" : version);
}

Spread spread_of(const Launcher& launcher, const Point& point) {
  const std::int64_t ranks = processes_of(point);
  if (const std::int64_t asked = point.ranks_per_node; asked > 0) {
    if (ranks % asked != 0)
      fail(ErrorKind::launch_failed, "ranks_per_node", "{} ranks cannot be {} on each node, need {}", ranks, asked,
           nearest_divisors(asked, ranks));
    const std::int64_t nodes = ranks / asked;
    if (nodes > launcher.nodes)
      fail(ErrorKind::launch_failed, "ranks_per_node", "{} ranks, {} on each node, got {} node{}, need {}", ranks,
           asked, launcher.nodes, launcher.nodes == 1 ? "" : "s", nodes);
    return {nodes, asked, launcher.nodes > 1};
  }
  if (launcher.nodes <= 1) return {1, ranks, false};
  const std::int64_t room = point.device == "cuda" && launcher.gpus > 0 ? launcher.gpus
                            : launcher.ranks_per_node > 0               ? launcher.ranks_per_node
                                                                        : launcher.cores;
  const std::int64_t nodes = std::min<std::int64_t>(launcher.nodes, (ranks + room - 1) / room);
  return {nodes, (ranks + nodes - 1) / nodes, true};
}

Command command_for(const Launcher& launcher, const Point& point, const Words& program) {
  const std::int64_t ranks = processes_of(point);
  if (launcher.kind == LauncherKind::local && ranks > 1)
    fail(ErrorKind::launch_failed, "local", "starts one rank, got {}, need --launcher mpirun or srun", ranks);
  if (!launcher.allocated && ranks > kRanksPerCore * launcher.cores)
    fail(ErrorKind::launch_failed, launcher.program,
         "{} ranks on {} cores, need at most {} a core: more machines, or --on sim", ranks, launcher.cores,
         kRanksPerCore);
  const Spread spread = spread_of(launcher, point);
  return assemble(launcher, ranks, spread, thread_variables(launcher, spread, point.env), program);
}

Command command_on_nodes(const Launcher& launcher, const Words& program) {
  return assemble(launcher, launcher.nodes, {launcher.nodes, 1, launcher.nodes > 1}, {{"OMP_NUM_THREADS", "1"}},
                  program);
}

std::string shell_text(const Command& command) {
  const auto quote = [](const std::string& text) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\'') out += "'\\'";  // ends the quotes, a quote, and begins them again
      const std::size_t control = control_length(text, i);
      if (control > 0) {  // '...'$'\x1b''...'
        out += "'$'";
        for (std::size_t k = 0; k < control; ++k)
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
        out += "''";
        i += control - 1;
      } else {
        out += text[i];
      }
    }
    return fmt::format("'{}'", out);
  };
  std::string text;
  for (const auto& [name, value] : command.env) text += name + "=" + quote(value) + " ";
  for (std::size_t i = 0; i < command.argv.size(); ++i) text.append(i ? " " : "").append(quote(command.argv[i]));
  return text;
}

Words split_words(std::string_view text, const std::string& where) {
  Words words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) fail(ErrorKind::bad_input, where, "a quote is not closed, got {}", text);
  if (in_word) words.push_back(word);
  return words;
}

bool is_forwarded(std::string_view name) {
  return std::any_of(std::begin(kForwardedPrefixes), std::end(kForwardedPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kForwardedNames), std::end(kForwardedNames), name) != std::end(kForwardedNames);
}

std::string pmi_for(std::string_view list, std::string_view mpi) {
  // The words of the list that name a type: "pmix", "pmix_v4", "pmi2", "none".
  Words types;
  std::string word;
  for (const char c : std::string(list) + "\n") {
    const bool part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (part)
      word += c;
    else if (!word.empty())
      types.push_back(std::exchange(word, {}));
  }
  const auto first = [&](std::initializer_list<std::string_view> wanted) -> std::string {
    for (const std::string_view type : wanted)
      for (const std::string& there : types)
        if (there == type || (type == "pmix" && there.starts_with("pmix_v"))) return there;
    return "";
  };
  return mpi.find("Open MPI") != std::string_view::npos ? first({"pmix"}) : first({"pmi2", "pmix"});
}

}  // namespace mbench::sweeps
