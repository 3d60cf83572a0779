#include "cli/trace_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

#include "engine/base/atomic_file.h"
#include "engine/base/category.h"
#include "engine/base/json_reader.h"
#include "engine/base/thinned.h"
#include "engine/comm/gather.h"
#include "engine/run/trace.h"
#include "engine/sim/play/memory_over_time.h"
#include "engine/sim/run/step_costs.h"
#include "strategies/strategies.h"

namespace mbench::cli {

namespace fs = std::filesystem;

std::string trace_path(const std::string& file, const sweeps::Spec& spec, const Point& point) {
  if (spec.points.size() == 1) return file;
  const fs::path path(file);
  return (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), point_id(point), path.extension().string()))
      .string();
}

namespace {

// In lines that a reader of lines can hold, each of whole lines of the trace.
std::string tell(const std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.size();
    if (end - begin > kMost) {
      end = text.rfind('\n', begin + kMost);
      if (end == std::string::npos || end <= begin) end = std::min(text.find('\n', begin), text.size() - 1);
      ++end;
    }
    nlohmann::ordered_json line = {{"trace", text.substr(begin, end - begin)}};
    if (end < text.size()) line["more"] = true;
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    begin = end;
  }
  std::fflush(stdout);
  return "";
}

// A trace that cannot be written must not take the measurement with it.
std::string write_or_say_why(const std::string& path, const std::string& text) {
  if (path == "-") return tell(text);
  try {
    write_file_atomically(path, text);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// What the first rank of each stage holds over the step.
class MemoryOfStages {
 public:
  MemoryOfStages(const Point& point, const sim::Machine& machine)
      : plan_(sim::plan_for(strategies::make_plan(point), machine)),
        caching_(sim::caching_of(plan_, point.env)),
        recording_(sim::record(plan_, machine.node.devices, nullptr, nullptr)) {}

  std::vector<TraceCounter> of(int rank, const Timeline& timeline) const {
    const int number = recording_.classes.of_rank[static_cast<std::size_t>(rank)];
    const auto over =
        sim::over_time(sim::memory_over_step(plan_, recording_,
                                             recording_.classes.classes[static_cast<std::size_t>(number)], caching_),
                       timeline);
    if (!over) return {};
    using Moment = sim::MemoryOverStep::Moment;
    const auto total = [](const Moment& m) { return std::accumulate(m.bytes.begin(), m.bytes.end(), std::size_t{0}); };
    std::vector<TraceCounter> counters;
    for (const Moment& m : thinned(over->moments, kMostCounters, total)) {
      TraceCounter& counter = counters.emplace_back(TraceCounter{start_of(timeline) + m.at / 1e3, {}});
      for (std::size_t c = 0; c < m.bytes.size(); ++c)
        counter.mib.emplace_back(kCategoryNames[c], static_cast<double>(m.bytes[c]) / 1048576);
    }
    return counters;
  }

 private:
  static constexpr std::size_t kMostCounters = 4000;  // of a rank: a viewer draws no more on a screen
  Plan plan_;
  std::optional<sim::CachingSettings> caching_;
  sim::Recording recording_;
};

}  // namespace

TracedResult simulate_with_trace(api::PointSimulator& simulator, const Point& point, const std::string& path) {
  sim::Simulation simulation = simulator.attempt(point, {.trace = true});
  if (simulation.result.outcome != Outcome::ok) return {std::move(simulation.result), ""};
  simulator.name_loader(simulation);
  std::vector<RankTimeline> ranks;
  const int stages = static_cast<int>(simulation.timeline_by_stage.size());
  const int ranks_per_stage = static_cast<int>(point.world()) / stages;
  const MemoryOfStages memory(point, simulator.machine_of(point));
  for (int s = 0; s < stages; ++s) {
    const int first = s * ranks_per_stage;
    ranks.push_back({first,
                     ranks_per_stage == 1
                         ? fmt::format("rank {}, stage {}, simulated", first, s)
                         : fmt::format("ranks {}-{}, stage {}, simulated", first, first + ranks_per_stage - 1, s),
                     simulation.timeline_by_stage[static_cast<std::size_t>(s)],
                     memory.of(first, simulation.timeline_by_stage[static_cast<std::size_t>(s)])});
  }
  return {std::move(simulation.result), write_or_say_why(path, chrome_trace(ranks))};
}

std::string write_trace(const std::string& path, const Timeline& mine, int stage, comm::Group& all) {
  // Clocks of different nodes have nothing in common: each rank counts from the start of its own step, which
  // all began together, after a barrier.
  const std::string events =
      chrome_events({all.rank(), fmt::format("rank {}, stage {}", all.rank(), stage), mine}, start_of(mine));
  const std::vector<std::string> ranks = comm::gather_text(all, events, 0);
  return all.rank() == 0 ? write_or_say_why(path, chrome_file(ranks)) : "";
}

}  // namespace mbench::cli
