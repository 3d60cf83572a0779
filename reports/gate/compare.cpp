#include "reports/gate/compare.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/point/point_builder.h"
#include "engine/point/result_file.h"
#include "engine/point/tolerance.h"
#include "reports/gate/comparable.h"
#include "reports/gate/time_verdict.h"
#include "reports/gate/turns_verdict.h"
#include "reports/records/flags.h"
#include "reports/records/record.h"
#include "reports/records/stragglers.h"
#include "reports/tables/build_table.h"

namespace mbench::reports {
namespace {

std::string reported(const PointResult& point) {
  return outcome_text(point.outcome) + (point.reason.empty() ? "" : ": " + point.reason);
}

std::optional<MetricComparison> compare_outcomes(const PointResult& now, const PointResult& base) {
  if (now.outcome == Outcome::ok && base.outcome == Outcome::ok) return std::nullopt;
  MetricComparison c;
  c.metric = "point";
  if (now.outcome == Outcome::ok) {
    c.verdict = Verdict::fixed;
    c.reason = "was " + reported(base);
  } else if (base.outcome == Outcome::ok || (is_failure(now.outcome) && !is_failure(base.outcome))) {
    c.verdict = Verdict::failed;
    c.reason = fmt::format("was {}, now {}", outcome_text(base.outcome), reported(now));
  } else {
    c.verdict = Verdict::same;
    c.reason = now.outcome == base.outcome ? "still " + reported(now)
                                           : fmt::format("was {}, now {}", outcome_text(base.outcome), reported(now));
  }
  return c;
}

// For what has no noise: a change of the threshold or more counts; any at all where that is 0.
void judge_exactly(MetricComparison& c, double threshold, Verdict more, Verdict less) {
  constexpr double kRounding = 1e-12;  // of the product
  c.ratio = *c.now / *c.baseline;
  if (*c.now == *c.baseline) return;
  if (*c.now >= *c.baseline * (1 + threshold) * (1 - kRounding))
    c.verdict = more;
  else if (*c.now * (1 + threshold) * (1 - kRounding) <= *c.baseline)
    c.verdict = less;
  else
    c.reason = "changed by less than the threshold";
}

std::optional<MetricComparison> compare_memory(const PointResult& now, const PointResult& base, double threshold) {
  if (!now.peak_memory_mib || !base.peak_memory_mib || *base.peak_memory_mib <= 0) return std::nullopt;
  MetricComparison c;
  c.metric = "memory";
  c.baseline = base.peak_memory_mib;
  c.now = now.peak_memory_mib;
  judge_exactly(c, threshold, Verdict::larger, Verdict::smaller);
  c.parts = changed_memory_parts(now, base);
  return c;
}

std::optional<MetricComparison> compare_energy(const PointResult& now, const PointResult& base, double threshold) {
  if (!now.energy_joules || !base.energy_joules || *base.energy_joules <= 0) return std::nullopt;
  MetricComparison c;
  c.metric = "energy";
  c.baseline = base.energy_joules;
  c.now = now.energy_joules;
  judge_exactly(c, threshold, Verdict::larger, Verdict::smaller);
  if (now.simulated) return c;
  if (now.energy_source != base.energy_source) {
    c.verdict = Verdict::ambiguous;
    c.reason = fmt::format("counted by {}, the baseline by {}", now.energy_source, base.energy_source);
  } else if (c.verdict != Verdict::same && std::abs(std::log(*c.ratio)) < 2 * std::log1p(threshold)) {
    c.verdict = Verdict::ambiguous;
    c.reason = "one figure a run has no spread: up to twice the threshold is not decided";
  }
  return c;
}

// Whether the same layout does the same sums in the same order in both: it does on one CPU with one compiler and the same
// libraries.
bool same_build(const nlohmann::ordered_json& now, const nlohmann::ordered_json& base) {
  for (const char* key : {"cpu", "cores", "compiler", "blas", "mpi"}) {
    const bool known = now.is_object() && base.is_object() && now.contains(key) && base.contains(key);
    if (!known || now.at(key).is_null() || now.at(key) != base.at(key)) return false;
  }
  return true;
}

// Of two losses that are infinitely far apart.
std::string which_is_not_finite(double now, double base) {
  if (std::isfinite(now) && std::isfinite(base))
    return "is so far from the baseline's that their difference is no number";
  return std::isfinite(base) ? "is not a finite number, the baseline's is"
                             : "is a finite number, the baseline's is not";
}

std::optional<MetricComparison> compare_losses(const PointResult& now, const PointResult& base,
                                               std::optional<double> threshold, bool repeated) {
  const std::size_t steps = std::min(now.losses.size(), base.losses.size());
  if (steps == 0) return std::nullopt;
  const auto tolerance = [&](std::size_t step) {
    const Precision precision = tolerance_of(now.point);
    return threshold.value_or(repeated ? repeated_loss_tolerance(precision, step) : loss_tolerance(precision, step));
  };
  const auto apart = [&](std::size_t step) { return relative_difference(now.losses[step], base.losses[step]); };
  MetricComparison c;
  c.metric = "loss";
  const auto excess = [&](std::size_t step) {
    return tolerance(step) > 0 ? apart(step) / tolerance(step) : apart(step);
  };
  std::size_t at = 0;  // the step that leaves its tolerance furthest behind
  for (std::size_t i = 1; i < steps; ++i)
    if (excess(i) > excess(at)) at = i;
  c.baseline = base.losses[at];
  c.now = now.losses[at];
  if (std::isfinite(*c.now / *c.baseline)) c.ratio = *c.now / *c.baseline;
  if (now.losses.size() != base.losses.size())
    c.reason = fmt::format("of {} steps here and {} in the baseline the first {} are compared", now.losses.size(),
                           base.losses.size(), steps);
  if (apart(at) > tolerance(at)) {
    c.verdict = Verdict::changed;
    c.reason = std::isfinite(apart(at)) ? fmt::format("step {} of {} differs by {:.2g} %, tolerance {:.2g} %", at + 1,
                                                      steps, apart(at) * 100, tolerance(at) * 100)
                                        : fmt::format("the loss of step {} of {} {}", at + 1, steps,
                                                      which_is_not_finite(*c.now, *c.baseline));
  }
  return c;
}

// Whether a point that ran has what a metric compares.
bool has_metric(const PointResult& point, const std::string& metric) {
  if (metric == "time") return point.iteration_ms.has_value() && !point.iteration_ms->samples.empty();
  if (metric == "memory") return point.peak_memory_mib.value_or(0) > 0;
  if (metric == "energy") return point.energy_joules.value_or(0) > 0;
  return !point.losses.empty();
}

// What the baseline has and the new result lacks passes no gate in silence.
std::vector<MetricComparison> lost_metrics(const PointResult& now, const PointResult& base,
                                           const CompareOptions& options) {
  std::vector<MetricComparison> lost;
  for (const std::string& metric : options.metrics) {
    if (!has_metric(base, metric) || has_metric(now, metric)) continue;
    MetricComparison c;
    c.metric = metric;
    c.verdict = Verdict::missing;
    c.reason = fmt::format("the baseline has its {}, the new result has none", metric);
    lost.push_back(std::move(c));
  }
  return lost;
}

// Why none of the metrics can be compared.
std::string nothing_to_compare(const std::vector<MetricComparison>& lost, const PointResult& now,
                               const CompareOptions& options) {
  if (!lost.empty()) return lost.front().reason;
  std::vector<std::string> here;
  for (const std::string& metric : options.metrics)
    if (has_metric(now, metric)) here.push_back(metric);
  const auto any = fmt::format("{}", fmt::join(here.empty() ? options.metrics : here, " or "));
  return here.empty() ? "neither side has " + any : "the baseline has no " + any;
}

// One time comparison that waits for the correction by the number of all.
struct Waiting {
  std::size_t point, metric;  // where it stands in the comparison
  TimeEvidence evidence;
  std::optional<TurnsEvidence> turns;  // in its place
};

Verdict verdict_of(TimeVerdict verdict) {
  switch (verdict) {
    case TimeVerdict::same:
      return Verdict::same;
    case TimeVerdict::faster:
      return Verdict::faster;
    case TimeVerdict::slower:
      return Verdict::slower;
    case TimeVerdict::ambiguous:
      return Verdict::ambiguous;
  }
  return Verdict::ambiguous;
}

class Comparer {
 public:
  // `same_build`: of the two files' programs, as above.
  Comparer(const CompareOptions& options, Comparability comparability, bool same_build, const std::vector<Round>& again)
      : options_(options), comparability_(std::move(comparability)), same_build_(same_build), again_(again) {
    comparison_.options = options;
  }

  void add(const PointResult& now, const PointResult& base, PointComparison point) {
    if (const std::string reason = comparability_.why_not(now, base); !reason.empty()) {
      add_remark(std::move(point), Verdict::not_comparable, reason);
      return;
    }
    if (auto c = compare_outcomes(now, base)) {
      point.metrics.push_back(std::move(*c));
    } else {
      point.communication = changed_communication(now, base);
      point.tensors = changed_tensors(now, base);
      point.memory_of_ranks = changed_memory_of_ranks(now, base);
      if (!now.simulated) point.ranks = changed_ranks(now, base, options_.thresholds.time);
      if (options_.has("time") && has_metric(now, "time") && has_metric(base, "time")) {
        point.metrics.push_back(compare_time(now, base, point.metrics.size()));
        point.metrics.back().parts = changed_time_parts(now, base, options_.thresholds.time);
        if (!now.simulated) point.flags = flags_of_both(now, base);
      }
      if (options_.has("memory"))
        if (auto m = compare_memory(now, base, options_.thresholds.memory)) point.metrics.push_back(std::move(*m));
      if (options_.has("energy"))
        if (auto e = compare_energy(now, base, options_.thresholds.energy)) point.metrics.push_back(std::move(*e));
      if (options_.has("loss"))
        if (auto l = compare_losses(now, base, options_.thresholds.loss, same_build_ && now.id == base.id))
          point.metrics.push_back(std::move(*l));
      std::vector<MetricComparison> lost = lost_metrics(now, base, options_);
      const std::string why = point.metrics.empty() ? nothing_to_compare(lost, now, options_) : "";
      if (!why.empty()) nothing_.push_back(fmt::format("{}: {}", point.label, why));
      for (MetricComparison& each : lost) point.metrics.push_back(std::move(each));
      if (point.metrics.empty()) {
        add_remark(std::move(point), Verdict::not_comparable, why);
        return;
      }
    }
    comparison_.points.push_back(std::move(point));
  }

  void add_remark(PointComparison point, Verdict verdict, const std::string& reason) {
    MetricComparison c;
    c.metric = "point";
    c.verdict = verdict;
    c.reason = reason;
    point.metrics.push_back(std::move(c));
    comparison_.points.push_back(std::move(point));
  }

  // Refuses files of which no point has anything to compare.
  Comparison finish() {
    if (!nothing_.empty() && nothing_.size() == comparison_.points.size())
      fail(ErrorKind::bad_input, "--metric", "nothing to compare, got {}{}", nothing_.front(),
           nothing_.size() > 1 ? fmt::format(", and as much of {} more", nothing_.size() - 1) : "");
    std::vector<double> p_values;
    for (const Waiting& test : waiting_) p_values.push_back(test.evidence.p_value);
    for (const Waiting& test : waiting_)  // two tests of one point
      if (test.turns) p_values.push_back(test.turns->cpu.p_value);
    std::size_t of_cpu = waiting_.size();
    const std::vector<double> corrected = holm(p_values), corrected_means = holm(p_values_of_means());
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      MetricComparison& c = comparison_.points[waiting_[i].point].metrics[waiting_[i].metric];
      c.p_value = corrected[i];
      TimeJudgement judgement =
          waiting_[i].turns
              ? judge_turns(*waiting_[i].turns, corrected[i], corrected[of_cpu++], options_.thresholds.time)
              : judge_time(waiting_[i].evidence, corrected[i], corrected_means[i], options_.thresholds.time);
      if (c.mean) c.mean->p_value = corrected_means[i];
      c.verdict = verdict_of(judgement.verdict);
      c.reason = std::move(judgement.reason);
      // Of a step that did not change a part's small change is noise.
      if (c.verdict == Verdict::same)
        std::erase_if(c.parts, [&](const PartChange& part) {
          return std::abs(part.now - part.baseline) < options_.thresholds.time * *c.baseline;
        });
    }
    return std::move(comparison_);
  }

 private:
  std::vector<double> p_values_of_means() const {
    std::vector<double> p_values;
    for (const Waiting& test : waiting_) p_values.push_back(test.evidence.mean ? test.evidence.mean->all.p_value : 1);
    return p_values;
  }

  MetricComparison compare_time(const PointResult& now, const PointResult& base, std::size_t metric) {
    MetricComparison c;
    c.metric = "time";
    const std::vector<double>&x = now.iteration_ms->samples, &y = base.iteration_ms->samples;
    if (x.empty() || y.empty() || *std::min_element(x.begin(), x.end()) <= 0 ||
        *std::min_element(y.begin(), y.end()) <= 0) {
      c.verdict = Verdict::ambiguous;
      c.reason = "no samples to compare";
      return c;
    }
    if (now.simulated || std::min(x.size(), y.size()) < TimeEvidence::kLeastSamples) {
      c.now = now.simulated ? mean_of(x).mean : median_of(x);
      c.baseline = now.simulated ? mean_of(y).mean : median_of(y);
      if (now.simulated) {
        judge_exactly(c, options_.thresholds.time, Verdict::slower, Verdict::faster);
        return c;
      }
      c.ratio = *c.now / *c.baseline;
      c.verdict = Verdict::ambiguous;
      c.reason =
          fmt::format("{} and {} samples, need {} on either side", y.size(), x.size(), TimeEvidence::kLeastSamples);
      return c;
    }
    Waiting test{comparison_.points.size(), metric, {}, turns_of(now, base)};
    c.of_all_rounds = test.turns && !again_.empty();
    test.evidence = test.turns ? test.turns->clock : time_.weigh(x, y, paid_of(now), paid_of(base));
    if (test.evidence.mean) c.mean = test.evidence.mean->all;
    c.now = test.evidence.now;
    c.baseline = test.evidence.baseline;
    c.ratio = test.evidence.ratio;
    c.interval = test.evidence.interval;
    waiting_.push_back(std::move(test));
    return c;
  }

  // What its user paid for each sample: of a soak the mean steps of its windows, whose medians are its samples.
  static std::vector<double> paid_of(const PointResult& result) {
    std::vector<double> paid;
    if (!result.soak) return result.iteration_ms->samples;
    for (const SoakWindow& window : result.soak->windows)
      if (window.samples_per_s > 0)
        paid.push_back(static_cast<double>(result.point.global_batch) / window.samples_per_s * 1e3);
    return paid.size() == result.iteration_ms->samples.size() ? paid : result.iteration_ms->samples;
  }

  // What all rounds say of a point whose sides took turns in each.
  std::optional<TurnsEvidence> turns_of(const PointResult& now, const PointResult& base) const {
    std::vector<const PointResult*> news = {&now}, olds = {&base};
    for (const Round& round : again_) {
      news.push_back(row_of(*round.now, now.id));
      olds.push_back(row_of(*round.baseline, base.id));
    }
    for (std::size_t i = 0; i < news.size(); ++i)
      if (!news[i] || !olds[i] || !took_turns(*news[i], *olds[i])) return std::nullopt;
    return TurnsTest::weigh(news, olds);
  }
  static const PointResult* row_of(const ResultFile& file, const std::string& id) {
    const auto found =
        std::find_if(file.points.begin(), file.points.end(), [&](const PointResult& p) { return p.id == id; });
    return found == file.points.end() ? nullptr : &*found;
  }

  static std::vector<std::string> flags_of_both(const PointResult& now, const PointResult& base) {
    std::vector<std::string> flags;
    const auto add = [&](const std::string& side, const PointResult& result) {
      for (const Flag flag : flags_of(result.iteration_ms->samples)) flags.push_back(side + text_of(flag));
      if (const std::string starved = starved_text(result.cpu_share_by_rank); !starved.empty())
        flags.push_back(side + starved);
      if (const std::string faulty = faulty_text(result); !faulty.empty()) flags.push_back(side + faulty);
      if (const std::string straggler = straggler_text(result); !straggler.empty()) flags.push_back(side + straggler);
    };
    add("new: ", now);
    add("baseline: ", base);
    return flags;
  }

  const CompareOptions& options_;
  Comparability comparability_;
  bool same_build_;
  const std::vector<Round>& again_;
  Comparison comparison_;
  std::vector<Waiting> waiting_;
  std::vector<std::string> nothing_;  // points of which neither side has what is compared
  TimeTest time_;
};

// Labels by the fields in which the points of NEW and those missing from it differ.
class PointLabels {
 public:
  PointLabels(const ResultFile& now, const ResultFile& baseline, const std::vector<std::size_t>& missing) {
    records_.reserve(now.points.size() + missing.size());
    for (const PointResult& p : now.points) add(p);
    for (const std::size_t i : missing) add(baseline.points[i]);
    std::vector<const Record*> all;
    for (const Record& record : records_) all.push_back(&record);
    fields_ = swept_fields(now.spec, all);
    if (fields_.empty()) fields_ = {"model"};
  }
  // The i-th point of NEW, followed by those missing, with nothing compared yet.
  PointComparison of(std::size_t i) const {
    PointComparison point;
    point.id = records_[i].id();
    for (const std::string& field : fields_)
      point.terms.push_back(fmt::format("{} {}", field, records_[i].text(field)));
    point.label = fmt::format("{}", fmt::join(point.terms, ", "));
    return point;
  }

 private:
  void add(const PointResult& p) {
    PointResult bare;  // samples would only cost time
    bare.point = p.point;
    bare.id = p.id;
    records_.emplace_back(bare);
  }
  std::vector<Record> records_;
  std::vector<std::string> fields_;
};

}  // namespace

namespace {

std::string environment_text(const ResultFile& file, const char* key) {
  const nlohmann::ordered_json& e = file.environment;
  return e.is_object() && e.contains(key) && e[key].is_string() ? e[key].get<std::string>() : std::string();
}

// "V100 x 8"; of CPUs their name and cores; of simulated results the machine.
std::string machine_text(const ResultFile& file) {
  const PointResult& first = file.points.front();
  if (first.simulated) return first.point.device;
  const std::string device = environment_text(file, "device"), cpu = environment_text(file, "cpu");
  if (!device.empty() && device != "cpu") return device;
  const bool knows_cores = file.environment.is_object() && file.environment.contains("cores");
  return cpu.empty() || !knows_cores ? cpu : fmt::format("{}, {} cores", cpu, file.environment["cores"].dump());
}

// "env: NCCL_ALGO=Tree, was none, as --allow-different has it", each once.
std::vector<std::string> allowed_changes(const ResultFile& now, const Matches& matches,
                                         const std::vector<std::string>& fields) {
  std::vector<std::string> changes;
  for (const std::string& field : fields)
    for (std::size_t i = 0; i < now.points.size(); ++i) {
      if (!matches.same[i]) continue;
      const std::string here = text_of(point_field(now.points[i].point, field)),
                        there = text_of(point_field(matches.same[i]->point, field));
      const std::string change = fmt::format("{}: {}, was {}, as --allow-different has it", field, here, there);
      if (here != there && std::find(changes.begin(), changes.end(), change) == changes.end())
        changes.push_back(change);
    }
  return changes;
}

}  // namespace

bool Comparison::has(Verdict verdict) const {
  return std::any_of(points.begin(), points.end(), [&](const PointComparison& point) {
    return std::any_of(point.metrics.begin(), point.metrics.end(),
                       [&](const MetricComparison& c) { return c.verdict == verdict; });
  });
}

bool Comparison::regression() const {
  return std::any_of(std::begin(kVerdicts), std::end(kVerdicts),
                     [&](Verdict verdict) { return is_regression(verdict) && has(verdict); });
}

bool Comparison::fails() const {
  return std::any_of(std::begin(kVerdicts), std::end(kVerdicts),
                     [&](Verdict verdict) { return options.fails(verdict) && has(verdict); });
}

Comparison compare_results(const ResultFile& now, const ResultFile& baseline, const CompareOptions& options,
                           const std::vector<Round>& again) {
  const Matches matches = match_points(now, baseline, options.allow_different);
  const Comparability comparability(now.environment, baseline.environment, options.needs_same_machine());
  refuse_unlike_files(now, baseline, matches, comparability);
  const PointLabels labels(now, baseline, matches.missing);
  Comparer comparer(options, comparability, same_build(now.environment, baseline.environment), again);
  for (std::size_t i = 0; i < now.points.size(); ++i) {
    const PointResult& point = now.points[i];
    if (const PointResult* base = matches.same[i] ? matches.same[i] : matches.alike[i])
      comparer.add(point, *base, labels.of(i));
    else
      comparer.add_remark(labels.of(i), Verdict::added, "not in the baseline");
  }
  for (std::size_t k = 0; k < matches.missing.size(); ++k) {
    const PointResult& base = baseline.points[matches.missing[k]];
    comparer.add_remark(labels.of(now.points.size() + k), Verdict::missing,
                        fmt::format("in the baseline ({}), not in the new results", outcome_text(base.outcome)));
  }
  Comparison comparison = comparer.finish();
  comparison.environment_changes = environment_changes(now, baseline);
  for (const std::string& change : allowed_changes(now, matches, options.allow_different))
    comparison.environment_changes.push_back(change);
  comparison.machine = machine_text(now);
  comparison.now_revision = environment_text(now, "git_revision");
  comparison.baseline_revision = environment_text(baseline, "git_revision");
  return comparison;
}

Comparison confirmed(Comparison first, const Comparison& again) {
  std::unordered_set<std::string> slower;  // in the second measurement
  for (const PointComparison& point : again.points)
    for (const MetricComparison& c : point.metrics)
      if (c.verdict == Verdict::slower) slower.insert(point.id);
  for (PointComparison& point : first.points)
    for (MetricComparison& c : point.metrics)
      if (c.verdict == Verdict::slower && !c.of_all_rounds && !slower.contains(point.id)) {
        c.verdict = Verdict::ambiguous;
        c.reason = "slower once, not when it was measured again";
      }
  return first;
}

}  // namespace mbench::reports
