// mbench: assembles the commands, and is the one place that turns an Error into an exit code.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>

#include "cli/cli.h"
#include "cli/cpu_check.h"
#include "cli/environment.h"
#include "cli/resource_limits.h"
#include "engine/base/atomic_file.h"
#include "engine/base/text.h"

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

bool write_or_print(const std::string& path, const std::string& text, bool printed) {
  try {
    write_file_atomically(path, text);
    return true;
  } catch (const Error& e) {
    if (!printed) std::cout << text << std::flush;
    fmt::print(stderr, "mbench: {}\n", printable(e.what()));
    return false;
  }
}

namespace {

constexpr const char* kMainAbout =
    "mbench measures what a training step of a transformer costs on this machine: time, peak memory and throughput,\n"
    "for every way of cutting the model up. It proves that each of them computes the same step.";

constexpr const char* kMainFooter =
    "Exit codes: 0 done; 1 regression found (compare) or outlier (check); 2 bad usage or bad input; 3 a crash, a "
    "hang,\n"
    "a wrong loss or an interrupted sweep. An OOM or an infeasible layout is an outcome, not a failure.\n"
    "\n"
    "First steps:  mbench sweep quickstart";

// Why what was printed has not arrived, such as a full disk behind `>`; empty if it has. A reader that has gone (`| head`)
// has seen what it wanted.
std::string why_not_printed() {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  int error = errno;
  if (flushed && !std::ferror(stdout) && std::cout.good()) return "";
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR)) return "";
  // What was lost before the end left no reason: one more byte has it.
  if (error == 0 && ::write(STDOUT_FILENO, "\n", 1) < 0) error = errno;
  return fmt::format("[standard output] could not be written{}{}, need a place for all of it", error ? ": " : "",
                     error ? std::strerror(error) : "");
}

void complain(const std::string& message) {
  fmt::print(stderr, "mbench: {}\n", printable(message));
}

// A first word that is no command: CLI11 would say only that one is required.
void refuse_other_commands(CLI::App& app, int argc, char** argv) {
  if (argc < 2 || *argv[1] == '-' || *argv[1] == 0) return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return;
    names.push_back(command->get_name());
  }
  fail(ErrorKind::bad_input, "mbench", "no such command, got \"{}\", {}", argv[1], nearest_choice(argv[1], names));
}

int run(int argc, char** argv) {
  // A file size limit shall fail the write, which is then reported, not kill the program.
  std::signal(SIGXFSZ, SIG_IGN);
  Exit exit;
  CLI::App app(kMainAbout, "mbench");
  app.footer(kMainFooter);
  app.set_version_flag("--version", describe_version,
                       "Print the version, its revision, compiler and libraries, and exit");
  app.require_subcommand(1);
  add_sweep(app, exit);
  add_run(app, exit);
  add_plan(app, exit);
  add_search(app, exit);
  add_import(app, exit);
  add_export(app, exit);
  add_cost(app, exit);
  add_import_log(app, exit);
  add_explain(app, exit);
  add_report(app, exit);
  add_compare(app, exit);
  add_baseline(app, exit);
  add_trend(app, exit);
  add_devices(app, exit);
  add_calibrate(app, exit);
  add_hosts(app, exit);
  add_check(app, exit);
  add_accept(app, exit);
  add_documents(app, exit);
  add_help(app, exit);
  try {
    refuse_other_commands(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream reported;  // with what was typed in it
    const bool done = app.exit(e, std::cout, reported) == 0;
    std::cerr << printable(reported.str());
    return done ? Exit::kDone : Exit::kBadInput;
  } catch (const Error& e) {
    complain(e.what());
    return exit_code_of(e.kind());
  } catch (const std::filesystem::filesystem_error& e) {
    complain(fmt::format("[{}] {}", e.path1().string(), e.code().message()));
    return Exit::kBadInput;
  } catch (const std::system_error& e) {
    if (!std::ferror(stdout)) complain(fmt::format("[internal] {}", e.what()));
    return Exit::kFailed;
  } catch (const std::exception& e) {
    complain(fmt::format("[internal] {}", e.what()));
    return Exit::kFailed;
  }
  return exit.code;
}

// The loader runs what stands here before it initialises the libraries. Not under an address sanitizer, whose own library must be
// the first.
#if defined(__SANITIZE_ADDRESS__)
#define MBENCH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MBENCH_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef MBENCH_ADDRESS_SANITIZER
[[gnu::section(".preinit_array"), gnu::used]] void (*check_first[])(int, char**, char**) = {check_cpu,
                                                                                            check_resource_limits};
#endif

}  // namespace
}  // namespace mbench::cli

int main(int argc, char** argv) {
  // Streams of one of a GPU's hardware queues wait for each other, and a rank has more than the 8 that CUDA takes by itself: a message
  // that is waited for would hold up the one that it waits for.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // Otherwise NCCL exports the memory of what is captured to other ranks, which the driver refuses of an arena that grows in mapped pieces.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  const int code = mbench::cli::run(argc, argv);
  const std::string lost = mbench::cli::why_not_printed();
  if (lost.empty()) return code;
  mbench::cli::complain(lost);
  return code == mbench::cli::Exit::kDone ? mbench::cli::Exit::kFailed : code;
}
