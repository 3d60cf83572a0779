#include "reports/gate/junit.h"

#include <fmt/format.h>

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
std::string told(const MetricComparison& c) {
  std::string text = name_of(c.verdict);
  const auto percent = [](double ratio) { return fmt::format("{:+.3g} %", (ratio - 1) * 100); };
  if (c.ratio) text += ": " + percent(*c.ratio);
  if (c.interval)
    text += fmt::format(" (99 % interval {} to {})", percent(c.interval->low), percent(c.interval->high));
  const char* unit = c.metric == "time" ? " ms" : c.metric == "memory" ? " MiB" : "";
  if (c.baseline && c.now)
    text += fmt::format("; baseline {:.6g}{}, new {:.6g}{}", *c.baseline, unit, *c.now, unit);
  if (!c.reason.empty()) text += "; " + c.reason;
  return text;
}

std::string test_case(const PointComparison& point, const MetricComparison& c, Result result) {
  std::string out = fmt::format("    <testcase classname=\"mbench.{}\" name=\"{} [{}]\" time=\"0\">\n",
                                escape_xml(c.metric), escape_xml(point.label), escape_xml(point.id));
  const std::string text = escape_xml(told(c));
  if (result == Result::failed)
    out += fmt::format("      <failure type=\"{}\" message=\"{}\"/>\n", escape_xml(name_of(c.verdict)), text);
  if (result == Result::skipped) out += fmt::format("      <skipped message=\"{}\"/>\n", text);
  out += "      <system-out>" + text + "\n";
  for (const std::string& flag : point.flags) out += escape_xml(flag) + "\n";
  return out + "      </system-out>\n    </testcase>\n";
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
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
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
    }
  }
  return out;
}

std::string to_junit(const Comparison& comparison) {
  std::size_t tests = 0, failures = 0, skipped = 0;
  std::string cases;
  for (const PointComparison& point : comparison.points)
    for (const MetricComparison& c : point.metrics) {
      const Result result = result_of(comparison, c.verdict);
      ++tests;
      failures += result == Result::failed;
      skipped += result == Result::skipped;
      cases += test_case(point, c, result);
    }
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"0\"", tests, failures, skipped);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format(
      "<testsuites name=\"mbench compare\" {}>\n  <testsuite name=\"mbench compare\" {} time=\"0\">\n",
      counts, counts);
  if (!comparison.environment_changes.empty()) {
    out += "    <properties>\n";
    for (const std::string& change : comparison.environment_changes)
      out += fmt::format("      <property name=\"environment\" value=\"{}\"/>\n", escape_xml(change));
    out += "    </properties>\n";
  }
  return out + cases + "  </testsuite>\n</testsuites>\n";
}

}  // namespace mbench::reports
