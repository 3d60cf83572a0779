#include "reports/compare.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "reports/build_table.h"
#include "reports/comparable.h"
#include "reports/record.h"

namespace mbench {
namespace {

constexpr std::size_t kLeastSamples = 5;
constexpr double kLevel = 1 - RatioBootstrap::kConfidence;

double loss_tolerance(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return 1e-3;
    case Precision::tf32:
    case Precision::fp16:
      return 1e-2;
    case Precision::bf16:
      return 2e-2;
    case Precision::fp8:
      return 5e-2;
  }
  return 0;
}

// A failure of the program, where oom, infeasible and unsupported are answers.
bool is_failure(Outcome outcome) {
  return outcome == Outcome::crashed || outcome == Outcome::timeout || outcome == Outcome::wrong ||
         outcome == Outcome::launch_failed;
}

std::string told(const PointResult& point) {
  return outcome_text(point.outcome) + (point.reason.empty() ? "" : ": " + point.reason);
}

std::optional<MetricComparison> compare_outcomes(const PointResult& now, const PointResult& base) {
  if (now.outcome == Outcome::ok && base.outcome == Outcome::ok) return std::nullopt;
  MetricComparison c;
  c.metric = "point";
  if (now.outcome == Outcome::ok) {
    c.verdict = Verdict::fixed;
    c.reason = "was " + told(base);
  } else if (base.outcome == Outcome::ok || (is_failure(now.outcome) && !is_failure(base.outcome))) {
    c.verdict = Verdict::failed;
    c.reason = fmt::format("was {}, now {}", outcome_text(base.outcome), told(now));
  } else {
    c.verdict = Verdict::same;
    c.reason = now.outcome == base.outcome
                   ? "still " + told(now)
                   : fmt::format("was {}, now {}", outcome_text(base.outcome), told(now));
  }
  return c;
}

// For what has no noise.
void judge_exactly(MetricComparison& c, double threshold, Verdict more, Verdict less) {
  c.ratio = *c.now / *c.baseline;
  if (*c.now > *c.baseline * (1 + threshold))
    c.verdict = more;
  else if (*c.now * (1 + threshold) < *c.baseline)
    c.verdict = less;
  else if (*c.now != *c.baseline)
    c.reason = "changed within the threshold";
}

std::optional<MetricComparison> compare_memory(const PointResult& now, const PointResult& base,
                                               double threshold) {
  if (!now.peak_memory_mib || !base.peak_memory_mib || *base.peak_memory_mib <= 0) return std::nullopt;
  MetricComparison c;
  c.metric = "memory";
  c.baseline = base.peak_memory_mib;
  c.now = now.peak_memory_mib;
  judge_exactly(c, threshold, Verdict::larger, Verdict::smaller);
  return c;
}

std::optional<MetricComparison> compare_losses(const PointResult& now, const PointResult& base,
                                               std::optional<double> threshold) {
  const std::size_t steps = std::min(now.losses.size(), base.losses.size());
  if (steps == 0) return std::nullopt;
  const double tolerance = threshold.value_or(loss_tolerance(now.point.precision));
  MetricComparison c;
  c.metric = "loss";
  double worst = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double a = now.losses[i], b = base.losses[i];
    double difference = std::abs(a - b) / std::max({std::abs(a), std::abs(b), 1e-12});
    if (std::isnan(a) && std::isnan(b)) difference = 0;
    if (std::isnan(difference)) difference = INFINITY;  // one of them is no number
    if (difference > worst) worst = difference, at = i;
  }
  c.baseline = base.losses[at];
  c.now = now.losses[at];
  if (std::isfinite(*c.now / *c.baseline)) c.ratio = *c.now / *c.baseline;
  if (worst > tolerance) {
    c.verdict = Verdict::changed;
    c.reason = fmt::format("step {} of {} differs by {:.2g} %, tolerance {:.2g} %", at + 1, steps,
                           worst * 100, tolerance * 100);
  }
  return c;
}

// One time comparison that waits for the correction by the number of all.
struct TimeTest {
  std::size_t point, metric;  // where it stands in the comparison
  double p, least_p;
};

std::vector<double> sorted(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

class Comparer {
 public:
  explicit Comparer(const Thresholds& thresholds) { comparison_.thresholds = thresholds; }

  void add(const PointResult& now, const PointResult& base, std::string label) {
    PointComparison point{now.id, std::move(label), {}};
    if (const std::string reason = why_points_not_comparable(now, base); !reason.empty()) {
      add_remark(std::move(point), Verdict::not_comparable, reason);
      return;
    }
    if (auto c = compare_outcomes(now, base)) {
      point.metrics.push_back(std::move(*c));
    } else {
      if (now.iteration_ms && base.iteration_ms)
        point.metrics.push_back(compare_time(now, base, point.metrics.size()));
      if (auto m = compare_memory(now, base, comparison_.thresholds.memory))
        point.metrics.push_back(std::move(*m));
      if (auto l = compare_losses(now, base, comparison_.thresholds.loss))
        point.metrics.push_back(std::move(*l));
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

  Comparison finish() {
    std::vector<double> p_values;
    for (const TimeTest& test : tests_) p_values.push_back(test.p);
    const std::vector<double> corrected = holm(p_values);
    for (std::size_t i = 0; i < tests_.size(); ++i) {
      MetricComparison& c = comparison_.points[tests_[i].point].metrics[tests_[i].metric];
      c.p_value = corrected[i];
      judge_time(c, tests_[i].least_p);
    }
    return std::move(comparison_);
  }

 private:
  MetricComparison compare_time(const PointResult& now, const PointResult& base, std::size_t metric) {
    MetricComparison c;
    c.metric = "time";
    const std::vector<double> x = sorted(now.iteration_ms->samples), y = sorted(base.iteration_ms->samples);
    if (x.empty() || y.empty() || y.front() <= 0) {
      c.verdict = Verdict::ambiguous;
      c.reason = "no samples to compare";
      return c;
    }
    c.now = median_of_sorted(x);
    c.baseline = median_of_sorted(y);
    c.ratio = *c.now / *c.baseline;
    if (now.simulated) {
      judge_exactly(c, comparison_.thresholds.time, Verdict::slower, Verdict::faster);
    } else if (std::min(x.size(), y.size()) < kLeastSamples) {
      c.verdict = Verdict::ambiguous;
      c.reason = fmt::format("{} and {} samples, need {} on either side", y.size(), x.size(), kLeastSamples);
    } else {
      c.interval = bootstrap_.interval(x, y);
      tests_.push_back({comparison_.points.size(), metric, ranks_.p_value(x, y),
                        ranks_.least_p_value(x.size(), y.size())});
    }
    return c;
  }

  void judge_time(MetricComparison& c, double least_p) const {
    const double high = 1 + comparison_.thresholds.time, low = 1 / high;
    const bool slower = c.interval->low > high, faster = c.interval->high < low;
    if (slower || faster) {
      c.verdict = *c.p_value < kLevel ? (slower ? Verdict::slower : Verdict::faster) : Verdict::ambiguous;
      if (c.verdict != Verdict::ambiguous) return;
      const bool hopeless = least_p * static_cast<double>(tests_.size()) >= kLevel;
      c.reason = fmt::format("the rank test is not sure (p = {:.2g} corrected for {} points{})", *c.p_value,
                             tests_.size(),
                             hopeless ? "; so few samples cannot do better, measure more iterations" : "");
    } else if (c.interval->low < low || c.interval->high > high) {
      c.verdict = Verdict::ambiguous;
      c.reason = "the interval crosses the threshold";
    }
  }

  Comparison comparison_;
  std::vector<TimeTest> tests_;
  RatioBootstrap bootstrap_;
  RankTest ranks_;
};

// Labels by the fields in which the points of both files differ.
class PointLabels {
 public:
  PointLabels(const ResultFile& now, const ResultFile& baseline) {
    for (const ResultFile* file : {&now, &baseline})
      for (const PointResult& p : file->points) {
        PointResult bare;  // samples would only cost time
        bare.point = p.point;
        bare.id = p.id;
        records_.emplace_back(bare);
      }
    std::vector<const Record*> all;
    for (const Record& record : records_) all.push_back(&record);
    fields_ = swept_fields(now.spec, all);
    if (fields_.empty()) fields_ = {"model"};
  }
  // The i-th point of NEW, followed by those of the baseline.
  std::string of(std::size_t i) const {
    std::string label;
    for (const std::string& field : fields_)
      label += fmt::format("{}{} {}", label.empty() ? "" : ", ", field, records_[i].text(field));
    return label;
  }

 private:
  std::vector<Record> records_;
  std::vector<std::string> fields_;
};

}  // namespace

void set_threshold(Thresholds& thresholds, const std::string& text) {
  const std::size_t equal = text.find('=');
  const std::string name = text.substr(0, equal);
  const std::vector<std::string> names = {"time", "memory", "loss"};
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail(ErrorKind::bad_input, "--threshold", "unknown metric, got \"{}\", {}", text,
         nearest_choice(name, names));
  const std::string number = equal == std::string::npos ? "" : text.substr(equal + 1);
  double percent = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (error != std::errc{} || std::string(end) != "%" || !(percent >= 0 && percent < 1000))
    fail(ErrorKind::bad_input, "--threshold", "not a percentage, got \"{}\", need {}=5%", text, name);
  (name == "time"     ? thresholds.time
   : name == "memory" ? thresholds.memory
                      : thresholds.loss.emplace()) = percent / 100;
}

std::string name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "same";
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::smaller:
      return "smaller";
    case Verdict::larger:
      return "larger";
    case Verdict::ambiguous:
      return "ambiguous";
    case Verdict::changed:
      return "loss changed";
    case Verdict::failed:
      return "failed";
    case Verdict::fixed:
      return "fixed";
    case Verdict::missing:
      return "missing";
    case Verdict::added:
      return "new";
    case Verdict::not_comparable:
      return "not comparable";
  }
  return "?";
}

bool is_regression(Verdict verdict) {
  return verdict == Verdict::slower || verdict == Verdict::larger || verdict == Verdict::changed ||
         verdict == Verdict::failed;
}

bool Comparison::regression() const {
  return std::any_of(points.begin(), points.end(), [](const PointComparison& point) {
    return std::any_of(point.metrics.begin(), point.metrics.end(),
                       [](const MetricComparison& c) { return is_regression(c.verdict); });
  });
}

Comparison compare_results(const ResultFile& now, const ResultFile& baseline, const Thresholds& thresholds) {
  const Matches matches = match_points(now, baseline);
  refuse_unlike_files(now, baseline, matches);
  const PointLabels labels(now, baseline);
  Comparer comparer(thresholds);
  for (std::size_t i = 0; i < now.points.size(); ++i) {
    const PointResult& point = now.points[i];
    if (matches.same[i])
      comparer.add(point, *matches.same[i], labels.of(i));
    else if (matches.alike[i])
      comparer.add_remark({point.id, labels.of(i), {}}, Verdict::not_comparable,
                          why_points_not_comparable(point, *matches.alike[i]));
    else
      comparer.add_remark({point.id, labels.of(i), {}}, Verdict::added, "not in the baseline");
  }
  for (const std::size_t i : matches.missing)
    comparer.add_remark({baseline.points[i].id, labels.of(now.points.size() + i), {}}, Verdict::missing,
                        fmt::format("in the baseline ({}), not in the new results",
                                    outcome_text(baseline.points[i].outcome)));
  Comparison comparison = comparer.finish();
  comparison.environment_changes = environment_changes(now, baseline);
  return comparison;
}

}  // namespace mbench
