#include "reports/gate/junit.h"

#include <fmt/format.h>

#include "engine/base/controls.h"
#include "reports/records/number_text.h"

namespace mbench::reports {
namespace {

enum class Result { passed, failed, skipped };

Result result_of(const Comparison& comparison, Verdict verdict) {
  if (comparison.options.fails(verdict)) return Result::failed;
  switch (verdict) {
    case Verdict::ambiguous:
    case Verdict::missing:
    case Verdict::added:
    case Verdict::not_comparable:
      return Result::skipped;
    default:
      return Result::passed;
  }
}

// "slower: +7.1 % (interval +6.0 % to +8.2 %); baseline 100 ms, new 107.1 ms".
std::string reported(const MetricComparison& c) {
  std::string text = name_of(c.verdict);
  const auto percent = [](double ratio) {
    const std::string far = beyond_percent(ratio);
    return far.empty() ? fmt::format("{:+.3g} %", (ratio - 1) * 100) : far;
  };
  const auto figure = [](double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "not finite"; };
  const auto interval = [&](const Interval& i) {
    return fmt::format(" (99 % interval {} to {})", percent(i.low), percent(i.high));
  };
  if (c.mean) text += ": mean " + percent(c.mean->ratio) + interval(c.mean->interval) + ", median ";
  if (c.ratio) text += (c.mean ? "" : ": ") + percent(*c.ratio);
  if (c.interval) text += interval(*c.interval);
  const bool memory = c.metric.starts_with("memory");
  const char* unit = c.metric.starts_with("time") ? " ms" : memory ? " MiB" : c.metric == "energy" ? " J" : "";
  if (c.baseline && c.now)
    text += fmt::format("; baseline {}{}, new {}{}", figure(*c.baseline), unit, figure(*c.now), unit);
  if (memory && c.baseline && c.now && *c.baseline != *c.now) text += ", " + byte_change(*c.now, *c.baseline);
  if (!c.reason.empty()) text += "; " + c.reason;
  if (const std::string parts = parts_text(c.parts, memory); !parts.empty()) text += "; " + parts;
  return text;
}

JunitCase test_case(const PointComparison& point, const MetricComparison& c, Result result) {
  JunitCase made;
  made.classname = "mbench." + c.metric;
  made.name = fmt::format("{} [{}]", point.label, point.id);
  const std::string text = reported(c);
  if (result == Result::failed) made.failures.push_back({name_of(c.verdict), text});
  if (result == Result::skipped) made.skipped = text;
  made.output = {text};
  if (const std::string sent = parts_text(point.communication, true); c.metric.starts_with("time") && !sent.empty())
    made.output.push_back("bytes communicated: " + sent);
  if (const std::string tensors = parts_text(point.tensors, true); c.metric.starts_with("memory") && !tensors.empty())
    made.output.push_back("by tensor: " + tensors);
  made.output.insert(made.output.end(), point.flags.begin(), point.flags.end());
  return made;
}

}  // namespace

std::string escape_xml(std::string_view given) {
  std::string out;
  const std::string plain = without_controls(given);
  const std::string_view text = plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // U+FFFE and U+FFFF are characters of UTF-8 and none of XML.
    if (const auto three = text.substr(i, 3); three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {
      out += "\xEF\xBF\xBD";
      i += 2;
      continue;
    }
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases,
                      const std::vector<std::string>& environment) {
  std::size_t failures = 0, skipped = 0;
  std::string text;
  for (const JunitCase& c : cases) {
    failures += !c.failures.empty();
    skipped += !c.skipped.empty();
    text += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\">\n", escape_xml(c.classname),
                        escape_xml(c.name));
    for (const JunitCase::Failure& f : c.failures)
      text += fmt::format("      <failure type=\"{}\" message=\"{}\"/>\n", escape_xml(f.type), escape_xml(f.message));
    if (!c.skipped.empty()) text += fmt::format("      <skipped message=\"{}\"/>\n", escape_xml(c.skipped));
    text += "      <system-out>";
    for (const std::string& line : c.output) text += escape_xml(line) + "\n";
    text += "      </system-out>\n    </testcase>\n";
  }
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"0\"", cases.size(), failures, skipped);
  const std::string name = escape_xml(suite);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out +=
      fmt::format("<testsuites name=\"{}\" {}>\n  <testsuite name=\"{}\" {} time=\"0\">\n", name, counts, name, counts);
  if (!environment.empty()) {
    out += "    <properties>\n";
    for (const std::string& change : environment)
      out += fmt::format("      <property name=\"environment\" value=\"{}\"/>\n", escape_xml(change));
    out += "    </properties>\n";
  }
  return out + text + "  </testsuite>\n</testsuites>\n";
}

std::string to_junit(const Comparison& comparison) {
  std::vector<JunitCase> cases;
  for (const PointComparison& point : comparison.points)
    for (const MetricComparison& c : point.metrics)
      cases.push_back(test_case(point, c, result_of(comparison, c.verdict)));
  return junit_xml("mbench compare", cases, comparison.environment_changes);
}

}  // namespace mbench::reports
