// mbench devices: what this machine has to run on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/find_spec.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/machine_memory.h"
#include "engine/base/text.h"
#include "engine/platform/registry.h"
#include "engine/point/outcome.h"
#include "engine/sim/machine/machine.h"

namespace mbench::cli {
namespace {

constexpr const char* kDevicesHelp =
    "Lists the devices of this machine, their measured peak, the libraries in use, and the machines that "
    "can\n"
    "be simulated (--on sim:<N>x<MACHINE>).";

// Text of several lines, indented but for the first.
void print_lines(const char* head, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); head = "") fmt::print("{:<10}{}\n", head, line);
}

void print_gpus() {
  const std::vector<Gpu> all = platform::gpus();
  if (all.empty()) fmt::print("cuda      none: {}\n", platform::why_no_gpu());
  for (const Gpu& g : all)
    fmt::print("cuda      {} {}, {}, {} multiprocessors of compute capability {}.{}, at {}\n", g.ordinal, g.name,
               format_bytes(g.memory_bytes), g.multiprocessors, g.major, g.minor, g.pci);
  if (const std::string libraries = platform::cuda_libraries(); !libraries.empty())
    fmt::print("          {}\n", libraries);
  print_lines("nvml", platform::describe_gpus());
}

std::string or_none(double value, const char* format) {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : "-";
}

// One line for each machine that is built in, below 100 columns; what a file says of it in words is in --on.
void print_machines() {
  const auto names = sim::machine_names();
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  const auto row = [&](const std::string& name, const std::array<std::string, 7>& cells) {
    fmt::print("  {:<{}}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}\n", name, width, cells[0], cells[1], cells[2],
               cells[3], cells[4], cells[5], cells[6]);
  };
  fmt::print("\nmachines to simulate, --on sim:<N>x<MACHINE>; mbench devices --on sim:<N>x<MACHINE> has all of one\n");
  row("", {"devices", "memory", "16 bits", "FP8", "memory", "links", "network"});
  row("", {"a node", "GiB", "TFLOP/s", "TFLOP/s", "GB/s", "GB/s", "GB/s"});
  for (const std::string& name : names) {
    const sim::Machine m = sim::find_machine(name, "devices");
    const auto peak = [&](Precision p) { return m.device.peak_flops[static_cast<std::size_t>(p)] * 1e-12; };
    row(name, {fmt::format("{}", m.node.devices),
               fmt::format("{:.0f}", static_cast<double>(m.device.memory_bytes) / (1ull << 30)),
               or_none(std::max(peak(Precision::bf16), peak(Precision::fp16)), "{:.4g}"),
               or_none(peak(Precision::fp8), "{:.4g}"), fmt::format("{:.4g}", m.device.memory_bandwidth * 1e-9),
               fmt::format("{:.4g}", m.node.links.back().bandwidth * 1e-9),
               fmt::format("{:.3g}", m.network.bandwidth * 1e-9)});
  }
  fmt::print(
      "  Peaks are dense. Links: bus bandwidth of collectives over all devices of a node. Network: a device's "
      "share.\n");
}

void print_devices() {
  const auto e = describe_environment("cpu");
  const auto text = [&](const char* key) { return e.at(key).get<std::string>(); };
  fmt::print("host      {}\n", text("host"));
  const auto group = group_memory();
  fmt::print("cpu       {}, {} cores, {} of memory ({} available{})\n", text("cpu"), e.at("cores").get<int>(),
             format_bytes(physical_memory()), format_bytes(available_memory()),
             group ? " within " + text_of(*group) : "");
  if (const auto cores = cpu_quota()) fmt::print("          {}\n", cpu_quota_text(*cores));
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16})
    fmt::print("          {:.1f} GFLOP/s on {} {} GEMM, measured now on all cores\n",
               platform::measured_peak_flops(precision, 0.5) * 1e-9, precision == Precision::f32 ? "an" : "a",
               name_of(precision));
  fmt::print("          bf16 GEMMs: {}\n", platform::bf16_arithmetic());
  fmt::print("          fp8 GEMMs: the values of e4m3 and e5m2, exactly, multiplied in f32\n");
  print_gpus();
  fmt::print("mpi       {}\n", text("mpi"));
  fmt::print("blas      {}\n", text("blas"));
  fmt::print("mbench    {} ({}), {}\n", text("mbench_version"), text("git_revision"), text("compiler"));
  print_machines();
  const auto programs = framework_names();
  std::size_t width = 0;
  for (const std::string& name : programs) width = std::max(width, name.size());
  fmt::print("frameworks as whose program a step runs, the field \"framework\"\n");
  for (const std::string& name : programs)
    fmt::print("  {:<{}}  {}\n", name, width, find_framework(name, "devices").description);
}

// A machine to simulate: what it has, and how its devices reach each other.
void print_simulated(const std::string& device) {
  const sim::SimulatedDevices asked = sim::parse_simulated(device, "--on");
  const sim::Machine m = sim::find_machine(asked.machine, "--on " + device);
  const int nodes = (asked.count + m.node.devices - 1) / m.node.devices;
  fmt::print("{}: {}\n", m.name, m.description);
  fmt::print("devices   {} on {} node{} of up to {}, {} of memory each\n", asked.count, nodes, nodes == 1 ? "" : "s",
             m.node.devices, format_bytes(m.device.memory_bytes));
  std::string peaks;
  for (int i = 0; i < sim::kPrecisionCount; ++i)
    if (const double peak = m.device.peak_flops[static_cast<std::size_t>(i)]; peak > 0)
      peaks += fmt::format("{}{} {:.4g}", peaks.empty() ? "" : ", ", name_of(static_cast<Precision>(i)), peak * 1e-12);
  fmt::print("          dense peak, TFLOP/s: {}; memory {:.4g} GB/s\n", peaks, m.device.memory_bandwidth * 1e-9);
  for (const sim::Link& link : m.node.links)
    fmt::print("{:<10}up to {} devices: {}, {:.4g} GB/s bus bandwidth, {:.3g} us a step\n",
               &link == &m.node.links.front() ? "node" : "", link.ranks, link.name, link.bandwidth * 1e-9,
               link.latency * 1e6);
  fmt::print("          two devices {:.4g} GB/s; through the host {:.4g} GB/s\n", m.node.p2p_bandwidth * 1e-9,
             m.node.pcie.bandwidth * 1e-9);
  fmt::print("network   {:.4g} GB/s a device, {:.3g} us a step\n", m.network.bandwidth * 1e-9, m.network.latency * 1e6);
  if (const sim::MachineTiers& tiers = m.network.tiers; tiers.nodes > 0)
    fmt::print("          {} nodes to a leaf{}, 1:{:.3g} above it\n", tiers.nodes,
               tiers.rails > 1 ? fmt::format(" on {} rails", tiers.rails) : "", tiers.oversubscription);
  if (m.node.topology.empty()) return fmt::print("links     n/a: the machine's file has no node.topology\n");
  LinkMatrix shown = m.node.topology;
  shown.resize(static_cast<std::size_t>(std::min(asked.count, m.node.devices)));
  for (auto& row : shown) row.resize(shown.size());
  fmt::print("{}", describe(shown));
}

}  // namespace

void add_devices(CLI::App& app, Exit&) {
  CLI::App* command = app.add_subcommand("devices", kDevicesHelp);
  auto file = std::make_shared<std::string>(), on = std::make_shared<std::string>();
  CLI::Option* gone = command->add_option("--calibrate", *file, "")->expected(0, 1)->group("");  // in no help
  CLI::Option* simulated =
      command
          ->add_option("--on", *on,
                       "A machine to simulate, sim:<N>x<MACHINE>: its figures, and the matrix of links of a node")
          ->type_name("DEVICE");
  command->callback([file, on, gone, simulated] {
    if (gone->count() > 0)
      fail(ErrorKind::bad_input, "devices --calibrate", "no such option any more, need mbench calibrate {}",
           file->empty() ? "cpu.json" : *file);
    if (simulated->count() > 0) return print_simulated(device_asked(*on));
    print_devices();
  });
}

}  // namespace mbench::cli
