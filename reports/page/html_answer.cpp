#include "reports/page/html_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "engine/point/result_file.h"
#include "reports/page/html_text.h"
#include "reports/page/point_label.h"
#include "reports/records/number_text.h"
#include "reports/records/record_json.h"
#include "reports/tables/cell_text.h"

namespace mbench::reports {
namespace {

constexpr std::size_t kMostNamed = 5;  // of the points that are flagged or failed

// By what points are ranked, and how it is written.
struct Rank {
  const char* name;
  const char* unit;
};

Rank rank_of(const std::vector<const Record*>& points) {
  const auto first = points.front()->model();
  const bool one_model =
      std::all_of(points.begin(), points.end(), [&](const Record* point) { return point->model() == first; });
  return one_model ? Rank{"tokens_per_s_per_device", "tokens/s per device"}
                   : Rank{"tflops_per_device", "TFLOP/s per device"};
}

std::optional<double> number_of(const Record& record, const char* name) {
  const auto value = record.value(name);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

class Answer {
 public:
  Answer(const std::vector<const Record*>& points, const std::vector<std::string>& swept, const std::string& prefix)
      : swept_(swept), prefix_(prefix), rank_(rank_of(points)) {
    for (const Record* point : points)
      if (number_of(*point, rank_.name)) ranked_.push_back(point);
    std::stable_sort(ranked_.begin(), ranked_.end(), [&](const Record* a, const Record* b) {
      return *number_of(*a, rank_.name) > *number_of(*b, rank_.name);
    });
  }

  std::string write() const {
    if (ranked_.empty()) return "<p>No point has a time.</p>\n";
    if (ranked_.size() == 1) return line("Result", *ranked_.front());
    const double best = *number_of(*ranked_.front(), rank_.name), worst = *number_of(*ranked_.back(), rank_.name);
    std::string out = line("Best", *ranked_.front()) + line("Worst", *ranked_.back());
    if (worst > 0)
      out += fmt::format("<p class=small>By {}: the best has {:.3g} times the worst, of {} points with a time.</p>\n",
                         rank_.unit, best / worst, ranked_.size());
    return out;
  }

  std::string link(const Record& point) const {
    return fmt::format("<a href=\"#{}{}\">{}</a>", prefix_, escape_html(point.id()),
                       escape_html(point_label(point, swept_)));
  }

 private:
  std::string line(const char* what, const Record& point) const {
    std::string out = fmt::format("<p><strong>{}</strong>: {}", what, link(point));
    if (point.simulated()) out += " <span class=sim>simulated</span>";
    const double rate = *number_of(point, rank_.name);
    out += fmt::format(", {} {}", rate >= 1000 ? with_thousands(fixed_text(rate, 0)) : fmt::format("{:.3g}", rate),
                       rank_.unit);
    if (const auto ms = number_of(point, "iteration_ms.mean")) out += fmt::format(", {:.4g} ms a step", *ms);
    if (const auto mfu = number_of(point, "mfu")) out += fmt::format(", MFU {:.1f} %", *mfu * 100);
    out += ".";
    if (const auto bound = point.value("bound_by"); bound.is_string() && !bound.get<std::string>().empty())
      out += " Bound by " + escape_html(bound.get<std::string>()) + ".";
    return out + "</p>\n";
  }

  const std::vector<std::string>& swept_;
  const std::string& prefix_;
  Rank rank_;
  std::vector<const Record*> ranked_;  // the best first
};

// Those that failed, then those that were disturbed, each with its reason.
std::string trouble(const ResultFile& file, const std::vector<const Record*>& points, const Answer& answer) {
  struct Said {
    const Record* point;
    std::string text;
  };
  std::unordered_map<std::string_view, const PointResult*> rows;
  for (const PointResult& r : file.points) rows.emplace(r.id, &r);
  std::vector<Said> failed, flagged;
  for (const Record* point : points) {
    if (point->outcome() != Outcome::ok) {
      failed.push_back({point, outcome_text(point->outcome())});
      continue;
    }
    const auto row = rows.find(point->id());
    if (row == rows.end()) continue;
    if (std::string text = flagged_text(*row->second); !text.empty()) flagged.push_back({point, std::move(text)});
  }
  std::string out;
  const auto list = [&](const char* what, const std::vector<Said>& all) {
    if (all.empty()) return;
    out += fmt::format("<p class=gap>{} of {} point{} {}:</p>\n<ul>\n", all.size(), points.size(),
                       points.size() == 1 ? "" : "s", what);
    for (std::size_t i = 0; i < std::min(kMostNamed, all.size()); ++i)
      out += "<li>" + answer.link(*all[i].point) + ": " + escape_html(all[i].text) + "</li>\n";
    if (all.size() > kMostNamed) out += fmt::format("<li>{} more, listed below</li>\n", all.size() - kMostNamed);
    out += "</ul>\n";
  };
  list("without a time", failed);
  list("flagged", flagged);
  return out;
}

}  // namespace

std::string html_answer(const ResultFile& file, const std::vector<const Record*>& points,
                        const std::vector<std::string>& swept, const std::string& prefix, int level) {
  if (points.empty()) return "";
  const Answer answer(points, swept, prefix);
  return fmt::format("<h{0}>Answer</h{0}>\n<div class=answer>\n{1}{2}</div>\n", level, answer.write(),
                     trouble(file, points, answer));
}

}  // namespace mbench::reports
