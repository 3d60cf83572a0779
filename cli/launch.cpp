#include "cli/launch.h"

#include <filesystem>

#include "engine/platform/registry.h"

namespace mbench::cli {

void LaunchOptions::add_to(CLI::App& command) {
  command
      .add_option(
          "--launcher", launcher,
          "mpirun, mpiexec, srun, flux, the path of one of them, or local (one rank, no launcher); default srun inside "
          "a Slurm job that can start this program, else mpirun")
      ->type_name("NAME");
  command
      .add_option(
          "--hostfile", hostfile,
          "The hosts that ranks are started on, a line each: HOST slots=N, HOST:N or HOST; for mpirun and mpiexec")
      ->type_name("FILE");
  command
      .add_option("--launcher-args", arguments,
                  "More options of the launcher, put before the program and split as a shell would")
      ->type_name("TEXT");
}

void LaunchOptions::append_to(std::vector<std::string>& argv) const {
  if (!launcher.empty()) argv.insert(argv.end(), {"--launcher", launcher});
  if (!hostfile.empty()) argv.insert(argv.end(), {"--hostfile", hostfile});
  if (!arguments.empty()) argv.push_back("--launcher-args=" + arguments);
}

sweeps::Launcher find_launcher(const LaunchOptions& options) {
  sweeps::LauncherOptions wanted;
  wanted.name = options.launcher;
  wanted.hostfile = options.hostfile;
  wanted.arguments = options.arguments;
  wanted.mpi = platform::mpi_library();
  wanted.mpiexec = MBENCH_MPIEXEC;
  return sweeps::find_launcher(wanted);
}

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace mbench::cli
