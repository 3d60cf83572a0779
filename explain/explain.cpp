#include "explain/explain.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/point/framework_spec.h"

namespace mbench::explain {
namespace {

constexpr double kOtherStep = 0.05;  // of the step: a trace of steps that are further off is of another pace

std::string ms_text(double ms) {
  return std::abs(ms) >= 1000 ? fmt::format("{:.0f}", ms) : fmt::format("{:.4g}", ms);
}

std::string percent(double ratio) {
  return fmt::format("{:+.1f} %", (ratio - 1) * 100);
}

std::string memory_row(const Run& run) {
  if (!run.measured.peak_memory_mib || !run.expected.peak_memory_mib) return "";
  const double measured = *run.measured.peak_memory_mib, expected = *run.expected.peak_memory_mib;
  return fmt::format("| Peak memory (MiB), allocated | {:.0f} | {:.0f} | | {:+.0f} ({}) |\n", measured, expected,
                     measured - expected, percent(measured / expected));
}

std::string mfu_row(const Run& run) {
  if (!run.expected.mfu) return "";
  const double expected = *run.expected.mfu,
               measured = expected * run.expected.iteration_ms->mean / run.measured.iteration_ms->mean;
  return fmt::format("| MFU | {:.1f} % | {:.1f} % | | {:+.1f} points |\n", measured * 100, expected * 100,
                     (measured - expected) * 100);
}

std::string interval_text(const RatioInterval& interval) {
  const std::string of = interval.share < 1
                             ? fmt::format("{:.0f} % of {} published steps", interval.share * 100, interval.rows)
                             : fmt::format("All of {} published steps", interval.rows);
  return fmt::format("The interval: {} of {} are {} to {} from their simulated time (configs/published/modern).\n", of,
                     interval.about, percent(interval.low), percent(interval.high));
}

std::string verdict(const Run& run, const RatioInterval& interval) {
  const double measured = run.measured.iteration_ms->mean, expected = run.expected.iteration_ms->mean;
  if (measured > expected * interval.high)
    return fmt::format(
        "**Slower than expected**: {} ms of the step are beyond the interval, {} ms beyond the expected time.",
        ms_text(measured - expected * interval.high), ms_text(run.gap_ms()));
  if (measured < expected * interval.low)
    return fmt::format("**Faster than expected**, by {} ms: the spec, the machine or the forecast is not this run's.",
                       ms_text(-run.gap_ms()));
  return "**As expected**: the step is within the interval. What follows could hold the rest, or none of it does.";
}

std::string parts_text(const Run& run) {
  if (!run.parts || !run.expected.time_anatomy_ms) return "";
  std::string text = fmt::format(
      "\n## The gap by part\n\nMeasured by {}.\n\n| Part of the step | Measured (ms) | Expected (ms) | Gap (ms) |\n| "
      "--- | ---: | ---: | ---: |\n",
      run.parts->source);
  for (const PartGroup& group : run.parts->groups) {
    const double expected = expected_ms(group, *run.expected.time_anatomy_ms);
    if (group.ms == 0 && expected == 0) continue;
    text += fmt::format("| {} | {} | {} | {}{} |\n", name_of(group), ms_text(group.ms), ms_text(expected),
                        group.ms >= expected ? "+" : "", ms_text(group.ms - expected));
  }
  text += fmt::format("| together | {} | {} | {}{} |\n", ms_text(run.parts->step_ms),
                      ms_text(run.expected.iteration_ms->mean),
                      run.parts->step_ms >= run.expected.iteration_ms->mean ? "+" : "",
                      ms_text(run.parts->step_ms - run.expected.iteration_ms->mean));
  if (std::abs(run.parts->step_ms / run.measured.iteration_ms->mean - 1) > kOtherStep)
    text += fmt::format(
        "\nThese steps take {} ms and those of the run {} ms: a profiler slows a step down, or they are other steps.\n",
        ms_text(run.parts->step_ms), ms_text(run.measured.iteration_ms->mean));
  return text;
}

std::string suspect_text(const Suspect& suspect, std::size_t number) {
  std::string text = fmt::format("{}. **{}**", number, suspect.what);
  if (suspect.ms) text += fmt::format(": {}{} ms", *suspect.ms > 0 ? "+" : "", ms_text(*suspect.ms));
  if (!suspect.shown.empty()) text += fmt::format("{}{}", suspect.ms ? ", " : ": ", suspect.shown);
  return text + fmt::format(".\n   To confirm: {}.\n", suspect.confirm);
}

std::string suspects_text(const std::vector<Suspect>& suspects) {
  if (suspects.empty()) return "";
  std::string text = "\n## What could hold it, most likely first\n";
  const auto heading = [](Suspect::By by) {
    return by == Suspect::By::figures ? "\nShown by the run's own figures:\n\n"
           : by == Suspect::By::simulation
               ? "\nSimulated, the nearest to the measured step first. Each is one change by itself:\n\n"
               : "\nNot to be seen from here:\n\n";
  };
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    if (i == 0 || suspects[i].by != suspects[i - 1].by) text += heading(suspects[i].by);
    text += suspect_text(suspects[i], i + 1);
  }
  return text;
}

}  // namespace

std::string explain(const Run& run, const RatioInterval& interval, const std::string& measured_where,
                    const Simulate& simulate) {
  const PointResult& expected = run.expected;
  const double measured_ms = run.measured.iteration_ms->mean, expected_ms = expected.iteration_ms->mean;
  const std::size_t samples = run.measured.iteration_ms->samples.size();
  std::string text =
      fmt::format("# {}: measured and expected\n\nMeasured: {}{}. Expected: simulated on {}, framework {}.\n\n",
                  expected.point.model.name, measured_where,
                  samples > 0 ? fmt::format(", mean of {} sample{}", samples, samples == 1 ? "" : "s") : "",
                  expected.point.device, mbench::name_of(expected.point.framework));
  text += "| | Measured | Expected | Interval | Gap |\n| --- | ---: | ---: | :---: | ---: |\n";
  text += fmt::format("| Step (ms) | {} | {} | {} to {} | {}{} ({}) |\n", ms_text(measured_ms), ms_text(expected_ms),
                      ms_text(expected_ms * interval.low), ms_text(expected_ms * interval.high),
                      run.gap_ms() >= 0 ? "+" : "", ms_text(run.gap_ms()), percent(measured_ms / expected_ms));
  text += mfu_row(run) + memory_row(run) + "\n" + verdict(run, interval) + "\n" + interval_text(interval);
  return text + parts_text(run) + suspects_text(suspects_of(run, simulate));
}

}  // namespace mbench::explain
