// mbench devices: what this machine has to run on.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/environment.h"
#include "engine/base/text.h"
#include "engine/train/registry.h"

namespace mbench::cli {
namespace {

constexpr const char* kHelp =
    "Lists the devices of this machine, their measured peak, and the libraries in use.";

void print_devices() {
  const auto e = describe_environment("cpu");
  const auto text = [&](const char* key) { return e.at(key).get<std::string>(); };
  fmt::print("host      {}\n", text("host"));
  fmt::print("cpu       {}, {} cores, {} of memory ({} available)\n", text("cpu"), e.at("cores").get<int>(),
             format_bytes(physical_memory()), format_bytes(available_memory()));
  fmt::print("          {:.1f} GFLOP/s on an f32 matrix product, measured now on all cores\n",
             measured_peak_flops("cpu", 1.0) * 1e-9);
  fmt::print("cuda      none: this binary has no CUDA device\n");
  fmt::print("mpi       {}\n", text("mpi"));
  fmt::print("blas      {}\n", text("blas"));
  fmt::print("mbench    {} ({}), {}\n", text("mbench_version"), text("git_revision"), text("compiler"));
}

}  // namespace

void add_devices(CLI::App& app, Exit&) {
  app.add_subcommand("devices", kHelp)->callback(print_devices);
}

}  // namespace mbench::cli
