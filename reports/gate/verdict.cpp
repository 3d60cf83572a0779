#include "reports/gate/verdict.h"

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench::reports {

void set_threshold(Thresholds& thresholds, const std::string& text, const std::string& option) {
  const std::size_t equal = text.find('=');
  const std::string name = text.substr(0, equal);
  const std::vector<std::string>& names = comparable_metrics();
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail(ErrorKind::bad_input, option, "unknown metric, got \"{}\", {}", text, nearest_choice(name, names));
  const std::string number = equal == std::string::npos ? "" : text.substr(equal + 1);
  double percent = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (error != std::errc{} || std::string(end) != "%" || !(percent >= 0 && percent < 1000))
    fail(ErrorKind::bad_input, option, "not a percentage, got \"{}\", need {}=5%", text, name);
  (name == "time"     ? thresholds.time
   : name == "memory" ? thresholds.memory
   : name == "energy" ? thresholds.energy
                      : thresholds.loss.emplace()) = percent / 100;
}

const std::vector<std::string>& compared_metrics() {
  static const std::vector<std::string> names = {"time", "memory", "loss"};
  return names;
}

const std::vector<std::string>& comparable_metrics() {
  static const std::vector<std::string> names = {"time", "memory", "loss", "energy"};
  return names;
}

bool CompareOptions::has(const std::string& metric) const {
  return std::find(metrics.begin(), metrics.end(), metric) != metrics.end();
}

bool CompareOptions::fails(Verdict verdict) const {
  return is_regression(verdict) || std::find(fail_on.begin(), fail_on.end(), verdict) != fail_on.end();
}

Verdict verdict_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Verdict verdict : kVerdicts) {
    if (name_of(verdict) == name) return verdict;
    names.push_back(name_of(verdict));
  }
  fail(ErrorKind::bad_input, where, "no such verdict, got \"{}\", {}", name, nearest_choice(name, names));
}

void check_metrics(const std::vector<std::string>& metrics) {
  for (const std::string& metric : metrics)
    if (std::find(comparable_metrics().begin(), comparable_metrics().end(), metric) == comparable_metrics().end())
      fail(ErrorKind::bad_input, "--metric", "unknown metric, got \"{}\", {}", metric,
           nearest_choice(metric, comparable_metrics()));
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

}  // namespace mbench::reports
