// mbench: assembles the commands, and is the one place that turns an Error into an exit code.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/cli.h"

namespace mbench::cli {

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
    case ErrorKind::infeasible:
    case ErrorKind::unsupported:
      return Exit::kBadInput;
    case ErrorKind::out_of_memory:
    case ErrorKind::launch_failed:
    case ErrorKind::timed_out:
    case ErrorKind::wrong:
    case ErrorKind::internal:
      return Exit::kFailed;
  }
  return Exit::kFailed;
}

namespace {

constexpr const char* kAbout =
    "mbench measures what a training step of a transformer costs on this machine: time, peak memory and\n"
    "throughput for every way of cutting the model up, with a proof that each of them computes the same "
    "step.";

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 regression found (compare); 2 bad usage or bad input; 3 some point crashed, hung "
    "or\n"
    "gave a wrong loss, or a sweep was interrupted. An OOM or an infeasible layout is an outcome, not a "
    "failure.\n"
    "\n"
    "First steps:  mbench sweep configs/quickstart.json";

int run(int argc, char** argv) {
  // A file size limit shall fail the write, which is then reported, not kill the program.
  std::signal(SIGXFSZ, SIG_IGN);
  Exit exit;
  CLI::App app(kAbout, "mbench");
  app.footer(kFooter);
  app.set_version_flag("--version", "mbench " MBENCH_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  add_sweep(app, exit);
  add_run(app, exit);
  add_plan(app, exit);
  add_report(app, exit);
  add_compare(app, exit);
  add_baseline(app, exit);
  add_trend(app, exit);
  add_devices(app, exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? Exit::kDone : Exit::kBadInput;
  } catch (const Error& e) {
    fmt::print(stderr, "mbench: {}\n", e.what());
    return exit_code_of(e.kind());
  } catch (const std::exception& e) {
    fmt::print(stderr, "mbench: [internal] {}\n", e.what());
    return Exit::kFailed;
  }
  return exit.code;
}

}  // namespace
}  // namespace mbench::cli

int main(int argc, char** argv) {
  return mbench::cli::run(argc, argv);
}
