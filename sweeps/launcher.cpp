#include "sweeps/launcher.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/process/process.h"

namespace mbench::sweeps {
namespace {

// Beyond this many ranks on a core a machine starts to swap rather than to compute.
constexpr std::int64_t kRanksPerCore = 32;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

// The batch system's own description of the job: where it lets ranks run.
int allocated_nodes() {
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  return nodes ? std::max(1, std::atoi(nodes)) : 1;
}

bool is_allocated() {
  return is_set("SLURM_JOB_ID") || is_set("PBS_NODEFILE") || is_set("LSB_HOSTS") || is_set("PE_HOSTFILE") ||
         is_set("OMPI_MCA_orte_default_hostfile") || is_set("HYDRA_HOST_FILE");
}

std::string first_line_of(const std::vector<std::string>& argv) {
  std::string text;
  ProcessRequest request;
  request.argv = argv;
  request.timeout_s = 20;
  request.on_line = [&](std::string_view line) {
    text += std::string(line) + "\n";
    return true;
  };
  const ProcessEnd end = run_process(request);
  return end.how == ProcessEnd::How::exited ? text : "";
}

}  // namespace

std::string_view name_of(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::mpirun:
      return "mpirun";
    case LauncherKind::srun:
      return "srun";
    case LauncherKind::local:
      return "local";
  }
  return "?";
}

LauncherKind read_launcher(const std::string& name, const std::string& where) {
  for (const LauncherKind kind : {LauncherKind::mpirun, LauncherKind::srun, LauncherKind::local})
    if (name == name_of(kind)) return kind;
  fail(ErrorKind::bad_input, where, "no such launcher, got \"{}\", {}", name,
       nearest_choice(name, {"mpirun", "srun", "local"}));
}

std::string Launcher::describe() const {
  if (kind == LauncherKind::local) return "local (one rank, no launcher)";
  return fmt::format("{} ({})", program, version.empty() ? "not found" : version);
}

LauncherKind default_launcher() {
  if (is_set("SLURM_JOB_ID") && !first_line_of({"srun", "--version"}).empty()) return LauncherKind::srun;
  return LauncherKind::mpirun;
}

Launcher find_launcher(LauncherKind kind) {
  Launcher launcher;
  launcher.kind = kind;
  launcher.cores = usable_cores();
  launcher.root = ::geteuid() == 0;
  if (kind == LauncherKind::local) return launcher;
  launcher.program = name_of(kind);
  launcher.allocated = kind == LauncherKind::srun || is_allocated();
  launcher.nodes = allocated_nodes();
  const std::string said = first_line_of({launcher.program, "--version"});
  if (kind == LauncherKind::srun) {
    launcher.version = said.substr(0, said.find('\n'));
    return launcher;
  }
  // "mpirun (Open MPI) 4.1.4" or "HYDRA build details:\n    Version:   4.0.2"
  const std::size_t open_mpi = said.find("(Open MPI) "), hydra = said.find("Version:");
  if (open_mpi != std::string::npos) {
    launcher.version =
        fmt::format("Open MPI {}", said.substr(open_mpi + 11, said.find('\n', open_mpi) - open_mpi - 11));
  } else if (hydra != std::string::npos) {
    launcher.flavour = MpiFlavour::mpich;
    const std::size_t number = said.find_first_not_of(' ', hydra + 8);
    launcher.version = fmt::format("MPICH {}", said.substr(number, said.find('\n', number) - number));
  } else if (!said.empty()) {
    launcher.flavour = MpiFlavour::mpich;  // Hydra's options are the ones that others share
    launcher.version = said.substr(0, said.find('\n'));
  }
  return launcher;
}

Command command_for(const Launcher& launcher, const Point& point, const std::vector<std::string>& program) {
  const std::int64_t ranks = point.world();
  if (launcher.kind == LauncherKind::local && ranks > 1)
    fail(ErrorKind::launch_failed, "local",
         "starts one rank, the point has {}, need --launcher mpirun or srun", ranks);
  if (!launcher.allocated && ranks > kRanksPerCore * launcher.cores)
    fail(ErrorKind::launch_failed, launcher.program,
         "{} ranks on {} cores, need at most {} a core: more machines, or --on sim", ranks, launcher.cores,
         kRanksPerCore);
  const std::int64_t on_node = (ranks + launcher.nodes - 1) / launcher.nodes;
  const bool crowded = on_node > launcher.cores;
  const std::string threads = std::to_string(std::max<std::int64_t>(1, launcher.cores / on_node));

  Command command;
  // Ranks share the cores: each takes its part and pins nothing. Where they outnumber the cores, or the machine is not the
  // job's own, threads sleep as they wait: one that spins keeps a neighbour's core from the thread that it waits for. A step of
  // two threads took 30 ms so beside a busy neighbour, 109 ms with a bounded spin (GOMP_SPINCOUNT=10000), 790 ms with
  // libgomp's own.
  command.env = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}, {"OMP_PROC_BIND", "false"}};
  if (crowded || !launcher.allocated) command.env["OMP_WAIT_POLICY"] = "passive";
  for (const auto& [name, value] : point.env) command.env[name] = value;

  std::vector<std::string>& argv = command.argv;
  const std::string count = std::to_string(ranks);
  switch (launcher.kind) {
    case LauncherKind::local:
      break;
    case LauncherKind::srun:
      argv = {launcher.program, "-n", count, "--kill-on-bad-exit=1"};
      break;
    case LauncherKind::mpirun:
      if (launcher.flavour == MpiFlavour::mpich) {
        argv = {launcher.program, "-n", count};
        for (const auto& [name, value] : command.env) argv.insert(argv.end(), {"-genv", name, value});
        break;
      }
      argv = {launcher.program, "-np", count, "--bind-to", "none"};
      if (!launcher.allocated) argv.push_back("--oversubscribe");
      if (launcher.root) argv.push_back("--allow-run-as-root");
      if (crowded) argv.insert(argv.end(), {"--mca", "mpi_yield_when_idle", "1"});
      for (const auto& [name, value] : command.env) argv.insert(argv.end(), {"-x", name});
      break;
  }
  argv.insert(argv.end(), program.begin(), program.end());
  return command;
}

std::string shell_text(const Command& command) {
  const auto quote = [](const std::string& text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string out;
    for (const char c : text) {
      if (c == '\'') out += "'\\'";  // ends the quotes, a quote, and
      out += c;                      // begins them again
    }
    return fmt::format("'{}'", out);
  };
  std::string text;
  for (const auto& [name, value] : command.env) text += name + "=" + quote(value) + " ";
  for (std::size_t i = 0; i < command.argv.size(); ++i)
    text.append(i ? " " : "").append(quote(command.argv[i]));
  return text;
}

}  // namespace mbench::sweeps
