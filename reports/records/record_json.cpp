#include "reports/records/record_json.h"

#include <algorithm>
#include <cmath>

#include "engine/point/field_table.h"
#include "reports/records/flags.h"
#include "reports/records/soak_findings.h"

namespace mbench::reports {

using Json = nlohmann::ordered_json;

Json brief_json(const PointResult& result) {
  const auto summary = [](const std::vector<double>& values) -> Json {
    if (values.empty()) return nullptr;
    return {{"first", values.front()}, {"last", values.back()}, {"size", values.size()}};
  };
  PointResult brief = result;
  if (brief.iteration_ms) brief.iteration_ms->samples.clear();
  brief.gradient_norms.clear();
  brief.auxiliary_losses.clear();
  brief.partial_ms.clear();
  brief.partial_losses.clear();
  brief.hosts.clear();
  brief.compute_ms_by_rank.clear();
  brief.turn_cpu_ms.clear();
  if (brief.log) brief.log->warmup_ms.clear(), brief.log->evaluation_ms.clear(), brief.log->checkpoint_ms.clear();
  if (brief.soak) brief.soak->windows.clear();
  Json json = result_to_json(brief);
  json["framework"] = name_of(result.point.framework);
  json["precision"] = name_of(result.point.precision);
  for (const Field& former : former_fields()) json[former.about.key] = former.write(result.point);
  if (!result.compute_ms_by_rank.empty()) {
    Json& medians = json["compute_ms_by_rank"] = Json::array();
    for (const StepParts& rank : result.compute_ms_by_rank)
      medians.push_back(rank.parts.empty() ? Json(nullptr) : Json(rank.median));
  }
  std::string hosts;
  for (const Host& host : result.hosts) hosts += (hosts.empty() ? "" : ", ") + host.name;
  if (!hosts.empty()) json["hosts"] = hosts;
  if (result.iteration_ms) json["iteration_ms"]["samples"] = summary(result.iteration_ms->samples);
  json["gradient_norms"] = summary(result.gradient_norms);
  json["turn_cpu_ms"] = summary(result.turn_cpu_ms);
  json["auxiliary_losses"] = summary(result.auxiliary_losses);
  json["partial_ms"] = summary(result.partial_ms);
  json["partial_losses"] = summary(result.partial_losses);
  return json;
}

Json ranks_json(const PointResult& result, const std::vector<RankTimes>& times) {
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  Json ranks = Json::array();
  for (std::size_t r = 0; r < times.size(); ++r) {
    const auto of = [&](const std::vector<double>& series) {
      return r < series.size() ? number(series[r]) : Json(nullptr);
    };
    Json host = nullptr;
    for (const Host& h : result.hosts)
      if (std::find(h.ranks.begin(), h.ranks.end(), static_cast<std::int64_t>(r)) != h.ranks.end()) host = h.name;
    ranks.push_back({{"index", r},
                     {"host", host},
                     {"stage", times[r].stage},
                     {"step_ms", of(result.step_ms_by_rank)},
                     {"compute_ms", number(times[r].compute_ms)},
                     {"against_peers", number(times[r].against_peers)},
                     {"cpu_share", of(result.cpu_share_by_rank)},
                     {"peak_memory_mib", of(result.peak_memory_by_rank_mib)},
                     {"straggler", times[r].straggler}});
  }
  return ranks;
}

Json windows_json(const Soak& soak) {
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  const SoakFindings found = soak_findings(soak);
  Json windows = Json::array();
  for (std::size_t i = 0; i < soak.windows.size(); ++i) {
    const SoakWindow& w = soak.windows[i];
    const bool dip = std::any_of(found.dips.begin(), found.dips.end(),
                                 [&](const Dip& d) { return i >= d.first && i < d.first + d.count; });
    windows.push_back({{"index", i},
                       {"end_s", w.end_s},
                       {"steps", w.steps},
                       {"median_ms", w.median_ms},
                       {"worst_ms", w.worst_ms},
                       {"samples_per_s", w.samples_per_s},
                       {"clock_mhz", number(w.clock_mhz)},
                       {"least_clock_mhz", number(w.least_clock_mhz)},
                       {"power_w", number(w.power_w)},
                       {"hottest_c", number(w.hottest_c)},
                       {"throttle", w.throttle.empty() ? Json(nullptr) : Json(w.throttle)},
                       {"against", number(w.samples_per_s / found.samples_per_s)},
                       {"dip", dip}});
  }
  return windows;
}

std::string flagged_text(const PointResult& result) {
  if (result.outcome != Outcome::ok || result.simulated || !result.iteration_ms) return "";
  std::string text;
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  };
  if (result.soak)  // whose samples are windows and not steps
    add(soak_text(*result.soak));
  else
    for (const Flag flag : flags_of(result.iteration_ms->samples)) add(text_of(flag));
  add(starved_text(result.cpu_share_by_rank));
  add(faulty_text(result));
  add(straggler_text(result));
  return text;
}

std::string reason_of(const PointResult& result) {
  const std::string flagged = flagged_text(result);
  return result.reason + (result.reason.empty() || flagged.empty() ? "" : "; ") + flagged;
}

}  // namespace mbench::reports
