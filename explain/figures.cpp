// Suspects that the run's own figures show: stalls, drift, a slow rank, a busy host, throttled devices, memory of another run, parts that take longer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/changes.h"
#include "explain/suspects.h"
#include "reports/gate/pattern.h"
#include "reports/records/slow_steps.h"
#include "reports/records/stragglers.h"

namespace mbench::explain {
namespace {

constexpr double kWorth = 0.05;  // of the gap: a part that takes less more is not named

void add_stalls(const Run& run, std::vector<Suspect>& suspects) {
  const std::vector<double>& samples = run.measured.iteration_ms->samples;
  if (samples.size() < kFewSamples) return;
  const reports::SlowSteps slow = reports::slow_steps(samples);
  const double cost = run.measured.iteration_ms->mean - slow.body;
  if (!slow.at.empty() && !slow.is_level() && cost > 0)
    suspects.push_back({Suspect::By::figures, "stalls: " + reports::slow_pattern(slow), cost, "by the samples",
                        "what runs at these steps: checkpoints, evaluation, logging, Python's garbage collector "
                        "(gc.freeze, --manual-gc), a loader that runs dry"});
  else if (const std::string pattern = reports::pattern_of(samples, slow); !pattern.empty())
    suspects.push_back(
        {Suspect::By::figures, "the step changes within the run: " + pattern, std::nullopt, "by the samples",
         "nvidia-smi -q -d CLOCK,PERFORMANCE over the run: heat; growing memory or logs; other jobs on the network"});
}

void add_ranks(const Run& run, std::vector<Suspect>& suspects) {
  const std::string text = reports::straggler_text(run.measured);
  if (text.empty()) return;
  double worst = 0;
  for (const reports::RankTimes& rank : reports::rank_times(run.measured))
    if (rank.straggler) worst = std::max(worst, rank.compute_ms * (1 - 1 / rank.against_peers));
  suspects.push_back({Suspect::By::figures, text, worst, "by the ranks' own times",
                      "mbench check over all ranks; the same run without that device or host"});
}

void add_devices(const Run& run, std::vector<Suspect>& suspects) {
  const PointResult& r = run.measured;
  if (!r.throttle_reasons.empty() && r.throttle_reasons != "none")
    suspects.push_back({Suspect::By::figures, fmt::format("clocks were held down: {}", r.throttle_reasons),
                        std::nullopt, "by the devices' sensors",
                        "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER: the power cap and the temperature"});
  if (!r.cpu_share_by_rank.empty())
    if (const double least = *std::min_element(r.cpu_share_by_rank.begin(), r.cpu_share_by_rank.end()); least < 0.9)
      suspects.push_back({Suspect::By::figures,
                          fmt::format("a rank had a core for only {:.0f} % of its time", least * 100),
                          (1 - least) * r.iteration_ms->mean, "by its threads' CPU time",
                          "top during the run; fewer threads or ranks on the host"});
  if (r.expert_imbalance && *r.expert_imbalance > 1.1)
    suspects.push_back({Suspect::By::figures,
                        fmt::format("the fullest expert has {:.2f} times the mean tokens", *r.expert_imbalance),
                        std::nullopt, "by the router", "router balanced for a run"});
}

void add_memory(const Run& run, std::vector<Suspect>& suspects) {
  if (!run.measured.peak_memory_mib || !run.expected.peak_memory_mib) return;
  const double error = *run.measured.peak_memory_mib / *run.expected.peak_memory_mib - 1;
  if (std::abs(error) < kOtherMemory) return;
  suspects.push_back(
      {Suspect::By::figures,
       fmt::format(
           "the spec is not this run: its peak memory is {:+.1f} % from the forecast, which is right to 1 % on average",
           error * 100),
       std::nullopt, "by its memory",
       "recompute, zero, micro_batch, sequence_parallel and the framework's options, against the run's own arguments"});
}

void add_parts(const Run& run, std::vector<Suspect>& suspects) {
  if (!run.parts || !run.expected.time_anatomy_ms) return;
  for (const PartGroup& group : run.parts->groups) {
    const double ms = group.ms - expected_ms(group, *run.expected.time_anatomy_ms);
    if (ms * run.gap_ms() <= 0 || std::abs(ms) < kWorth * std::abs(run.gap_ms())) continue;
    std::string confirm;
    for (const TimePart part : group.parts)
      if (const auto known = changes().confirm_part.find(std::string(mbench::name_of(part)));
          known != changes().confirm_part.end() && confirm.find(known->second) == std::string::npos)
        confirm += (confirm.empty() ? "" : "; ") + known->second;
    suspects.push_back({Suspect::By::figures,
                        fmt::format("{} took {} than expected", name_of(group), ms > 0 ? "longer" : "less"), ms,
                        "by " + run.parts->source, confirm});
  }
}

}  // namespace

std::vector<Suspect> shown_by_figures(const Run& run) {
  std::vector<Suspect> suspects;
  add_memory(run, suspects);
  if (run.gap_ms() > 0) {
    add_stalls(run, suspects);
    add_ranks(run, suspects);
    add_devices(run, suspects);
  }
  add_parts(run, suspects);
  return suspects;
}

}  // namespace mbench::explain
