#include "cli/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/mebibyte.h"
#include "engine/base/atomic_file.h"
#include "engine/base/pickle.h"
#include "engine/base/text.h"
#include "engine/sim/recording/memory_log.h"
#include "engine/sim/run/step_costs.h"
#include "search/less_memory.h"

namespace mbench::cli {
namespace {

constexpr std::size_t kTensors = 15;  // that are printed; the others are summed

std::string table_of(const sim::PeakByTensor& peak, const sim::RankClasses::Class& ranks, std::uint64_t libraries) {
  std::string text = fmt::format(
      "  tensors      at the peak of rank {}{}: {} MiB{}\n", ranks.rank,
      peak.during.empty() ? "" : ", in " + peak.during, mib(static_cast<double>(peak.total)),
      libraries > 0 ? fmt::format(" and {} of the framework's libraries", mib(static_cast<double>(libraries))) : "");
  text += fmt::format("    {:>10} {:>7} {:>7}  {:<14} {:<52} {:<22} {}\n", "MiB", "share", "tensors", "category",
                      "tensor", "where", "made in");
  std::size_t left = peak.total;
  int others = 0;
  for (std::size_t i = 0; i < peak.tensors.size(); ++i) {
    const sim::TensorsAtPeak& t = peak.tensors[i];
    if (i >= kTensors) {
      others += t.count;
      continue;
    }
    left -= t.bytes;
    text += fmt::format("    {:>10} {:>6.1f}% {:>7}  {:<14} {:<52} {:<22} {}\n", mib(static_cast<double>(t.bytes)),
                        100.0 * static_cast<double>(t.bytes) / static_cast<double>(peak.total), t.count,
                        name_of(t.category), fmt::format("{} {} {}", t.what, t.shape, t.dtype),
                        t.where.empty() ? "-" : t.where, t.made_by.empty() ? "-" : t.made_by);
  }
  if (others > 0)
    text += fmt::format("    {:>10} {:>6.1f}% {:>7}  {}\n", mib(static_cast<double>(left)),
                        100.0 * static_cast<double>(left) / static_cast<double>(peak.total), others, "all others");
  return text;
}

std::string table_of(const std::vector<search::LessMemory>& changes, bool simulated) {
  if (changes.empty()) return "  less memory  by no single change that was tried\n";
  std::size_t width = 24;
  for (const search::LessMemory& less : changes) width = std::max(width, less.change.size());
  std::string text =
      fmt::format("  less memory  {:<{}} {:>12} {:>12}\n", "change", width, "frees MiB", simulated ? "step time" : "");
  for (const search::LessMemory& less : changes) {
    const std::string time = !simulated       ? ""
                             : !less.fits     ? "does not fit"
                             : less.more_time ? fmt::format("{:+.1f} %", *less.more_time * 100)
                                              : "fits";
    text += fmt::format("               {:<{}} {:>12.1f} {:>12}\n", less.change, width, less.freed_mib, time);
  }
  return text;
}

}  // namespace

Fullest fullest_of(const Point& point, const Plan& plan, api::PointSimulator& simulator) {
  const sim::Machine* machine = point.simulated() ? &simulator.machine_of(point) : nullptr;
  Fullest fullest{machine != nullptr
                      ? sim::record(sim::plan_for(plan, *machine), machine->node.devices, nullptr, nullptr)
                      : sim::record(plan, 0, nullptr, nullptr)};
  const auto peaks = sim::count_memory(plan, fullest.recording);
  const auto most = std::max_element(peaks.begin(), peaks.end(),
                                     [](const MemoryUse& a, const MemoryUse& b) { return a.total < b.total; });
  fullest.ranks = &fullest.recording.classes.classes[static_cast<std::size_t>(most - peaks.begin())];
  return fullest;
}

std::string memory_by_tensor(const Point& point, const Plan& plan, api::PointSimulator& simulator) {
  const Fullest fullest = fullest_of(point, plan, simulator);
  const auto caching = sim::caching_of(plan, point.env);
  std::string text = table_of(sim::peak_by_tensor(plan, fullest.recording, *fullest.ranks, caching), *fullest.ranks,
                              sim::library_memory(plan));
  std::optional<double> now_ms;
  if (point.simulated()) {
    const sim::Simulation now = simulator.attempt(point);
    if (now.result.outcome == Outcome::ok) now_ms = now.result.iteration_ms->mean;
  }
  // Without a machine memory is counted alone.
  const search::Simulate simulate = [&](const Point& other) {
    if (point.simulated()) return simulator.simulate(other);
    sim::Simulation counted;
    counted.result.iteration_ms.emplace();
    return counted;
  };
  return text + table_of(search::less_memory(point, now_ms, simulate), point.simulated());
}

std::string write_memory_snapshot(const std::string& path, const Point& point, const Plan& plan,
                                  api::PointSimulator& simulator) {
  const Fullest fullest = fullest_of(point, plan, simulator);
  const nlohmann::json snapshot =
      sim::memory_snapshot(plan, fullest.recording, *fullest.ranks, sim::caching_of(plan, point.env));
  write_file_atomically(path, path.ends_with(".json") ? snapshot.dump() : to_pickle(snapshot));
  std::size_t reserved = 0;
  for (const auto& segment : snapshot.at("segments")) reserved += segment.at("total_size").get<std::size_t>();
  return fmt::format("{}: a step of rank {}, {} events, {} segments of {} MiB", path, fullest.ranks->rank,
                     snapshot.at("device_traces").at(0).size(), snapshot.at("segments").size(),
                     mib(static_cast<double>(reserved)));
}

}  // namespace mbench::cli
