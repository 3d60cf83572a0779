// What starts ranks here, asked once at the start of a sweep.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/process/process.h"
#include "sweeps/launch/host_lines.h"
#include "sweeps/launch/launcher.h"

namespace mbench::sweeps {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

struct Answer {
  bool ok = false;   // it ended with exit code 0
  std::string text;  // what it printed, on either stream
};
Answer ask(const std::vector<std::string>& argv) {
  Answer answer;
  process::ProcessRequest request;
  request.argv = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
  request.argv.insert(request.argv.end(), argv.begin(), argv.end());
  request.timeout_s = 20;
  request.on_line = [&](std::string_view line) {
    answer.text += std::string(line) + "\n";
    return true;
  };
  const process::ProcessEnd end = process::run_process(request);
  answer.ok = end.how == process::ProcessEnd::How::exited && end.code == 0;
  return answer;
}

// What a program prints; empty if it cannot be started or fails.
std::string said_by(const std::vector<std::string>& argv) {
  const Answer answer = ask(argv);
  return answer.ok ? answer.text : "";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// "mpirun (Open MPI) 4.1.4", "mpiexec (OpenRTE) 4.1.4" (the same program by any other name) or "HYDRA build details:\n    Version:
// 4.0.2"
void read_version(const std::string& said, Launcher& launcher) {
  const auto rest_of = [&](std::size_t at) { return said.substr(at, said.find('\n', at) - at); };
  const std::size_t hydra = said.find("Version:");
  std::size_t open_mpi = std::string::npos;
  for (const std::string_view name : {"(Open MPI) ", "(OpenRTE) "})
    if (const std::size_t at = said.find(name); at != std::string::npos) open_mpi = at + name.size();
  if (open_mpi != std::string::npos) {
    launcher.version = "Open MPI " + rest_of(open_mpi);
  } else if (said.find("prterun") != std::string::npos || said.find("PRRTE") != std::string::npos) {
    launcher.version = first_line(said);
  } else if (hydra != std::string::npos) {
    launcher.flavour = MpiFlavour::mpich;
    launcher.version = "MPICH " + rest_of(said.find_first_not_of(' ', hydra + 8));
  } else if (!said.empty()) {
    launcher.flavour = MpiFlavour::mpich;  // Hydra's options are the ones that others share
    launcher.version = first_line(said);
  }
}

bool is_open_mpi(std::string_view library) {
  return library.find("Open MPI") != std::string_view::npos;
}

// mpirun of another MPI starts as many jobs of one rank.
void check_flavour(const Launcher& launcher, const LauncherOptions& options) {
  if (launcher.version.empty() || options.mpi.empty()) return;
  if (is_open_mpi(options.mpi) == (launcher.flavour == MpiFlavour::open_mpi)) return;
  const bool elsewhere = !options.mpiexec.empty() && options.mpiexec != launcher.program;
  fail(ErrorKind::bad_input, options.name.empty() ? launcher.program : "--launcher " + options.name,
       "starts programs of another MPI, got {} of {}, this program is built with {}; need --launcher {}",
       launcher.program, launcher.version, first_line(options.mpi),
       elsewhere                  ? options.mpiexec
       : is_open_mpi(options.mpi) ? "mpirun.openmpi or the path of Open MPI's mpirun"
                                  : "mpiexec.hydra or the path of MPICH's mpiexec");
}

// "slurm 22.05.8" -> {22, 5}
std::pair<int, int> slurm_version(const std::string& version) {
  int major = 0, minor = 0;
  const std::size_t at = version.find_first_of("0123456789");
  if (at != std::string::npos) std::sscanf(version.c_str() + at, "%d.%d", &major, &minor);
  return {major, minor};
}

// srun --mpi=list names plugins whose library may be missing: Debian 12's slurm-wlm has pmix and opens a libpmix.so that only
// libpmix-dev brings. Loading is tried without a step. Why it fails, as Slurm says it; empty where it loads, or where srun fails
// for another reason, which the first point will tell.
std::string why_not_loaded(const std::string& srun, const std::string& pmi) {
  const Answer answer = ask({srun, "--mpi=" + pmi, "--test-only", "-n", "1", "true"});
  if (answer.ok || answer.text.find("Invalid MPI type") == std::string::npos) return "";
  return printable(first_line(answer.text), 200);
}

// What srun needs here; the reason where it cannot start this program.
std::string prepare_srun(Launcher& launcher, const LauncherOptions& options) {
  launcher.needed = {"--cpu-bind=none"};  // ranks share the cores of a node as they do under mpirun
  if (is_set("SLURM_STEP_ID") && slurm_version(launcher.version) >= std::pair(20, 11))
    launcher.needed.push_back("--overlap");  // the step that this is holds its node
  if (options.mpi.empty() || is_set("SLURM_MPI_TYPE")) return "";
  const std::string list = said_by({launcher.program, "--mpi=list"});
  if (list.empty()) return "";
  const std::string pmi = pmi_for(list, options.mpi);
  if (pmi.empty())
    return fmt::format("Slurm has no PMI for {}, got \"{}\" of srun --mpi=list", first_line(options.mpi),
                       printable(list, 200));
  if (const std::string why = why_not_loaded(launcher.program, pmi); !why.empty())
    return fmt::format("Slurm's {} for {} does not load, got \"{}\"", pmi, first_line(options.mpi), why);
  launcher.needed.push_back("--mpi=" + pmi);
  return "";
}

std::vector<std::string> forwarded_names() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (const auto name = text.substr(0, text.find('=')); is_forwarded(name)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void take_allocation(Launcher& launcher, const std::string& hostfile) {
  const Allocation a = find_allocation(hostfile, [](const char* name) -> const char* { return std::getenv(name); });
  launcher.allocated = !a.source.empty() || launcher.kind == LauncherKind::srun || launcher.kind == LauncherKind::flux;
  launcher.nodes = a.nodes;
  launcher.ranks_per_node = a.ranks_per_node;
  launcher.hostfile = a.hostfile;
}

bool runs_mpi(LauncherKind kind) {
  return kind == LauncherKind::mpirun || kind == LauncherKind::mpiexec;
}

}  // namespace

Launcher find_launcher(const LauncherOptions& options) {
  Launcher launcher;
  launcher.cores = usable_cores();
  launcher.root = ::geteuid() == 0;
  launcher.more = split_words(options.arguments, "--launcher-args");
  std::string why_not_srun;
  if (options.name.empty() && options.hostfile.empty() && is_set("SLURM_JOB_ID")) {
    launcher.kind = LauncherKind::srun;
    launcher.program = "srun";
    launcher.version = first_line(said_by({"srun", "--version"}));
    if (!launcher.version.empty()) why_not_srun = prepare_srun(launcher, options);
    if (launcher.version.empty() || !why_not_srun.empty()) {
      launcher.kind = LauncherKind::mpirun;
      launcher.needed.clear();
    }
  } else {
    launcher.kind = options.name.empty() ? LauncherKind::mpirun : read_launcher(options.name, "--launcher");
  }
  if (launcher.kind == LauncherKind::local) {
    if (!options.hostfile.empty() || !launcher.more.empty())
      fail(ErrorKind::bad_input, "--launcher local", "starts nothing that takes a host file or arguments, need mpirun");
    return launcher;
  }
  if (!runs_mpi(launcher.kind) && !options.hostfile.empty())
    fail(ErrorKind::bad_input, "--hostfile",
         "{} has its hosts from the batch system, need --launcher mpirun or mpiexec", name_of(launcher.kind));
  take_allocation(launcher, options.hostfile);
  launcher.program = options.name.empty() ? std::string(name_of(launcher.kind)) : options.name;
  if (launcher.allocated) launcher.forwarded = forwarded_names();
  if (launcher.kind == LauncherKind::srun) {
    if (options.name.empty()) return launcher;  // asked above
    launcher.version = first_line(said_by({launcher.program, "--version"}));
    if (launcher.version.empty()) return launcher;
    if (const std::string why = prepare_srun(launcher, options); !why.empty())
      fail(ErrorKind::bad_input, "--launcher srun", "{}, need --launcher mpirun", why);
    return launcher;
  }
  if (launcher.kind == LauncherKind::flux) {
    launcher.version = first_line(said_by({launcher.program, "version"}));
    return launcher;
  }
  read_version(said_by({launcher.program, "--version"}), launcher);
  check_flavour(launcher, options);
  put_hosts_in_own_words(launcher);
  // Inside a step (srun -n1 --pty bash) Open MPI takes the step's tasks, mostly one, for the slots of the node.
  if (launcher.flavour == MpiFlavour::open_mpi && launcher.allocated && is_set("SLURM_STEP_ID"))
    launcher.needed = {"--oversubscribe"};
  return launcher;
}

}  // namespace mbench::sweeps
