#include "health/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "health/median.h"
#include "health/signature.h"

namespace mbench::health {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSchema = "mbench.check/1";

const Host* host_of(const Health& health, int rank) {
  for (const Host& h : health.hosts)
    if (std::find(h.ranks.begin(), h.ranks.end(), rank) != h.ranks.end()) return &h;
  return nullptr;
}

// The figure as one repeat has it.
Figure repeat_of(const Figure& f, std::size_t repeat) {
  Figure one = f;
  for (RankFigure& m : one.of) m.value = m.repeats.at(repeat);
  return one;
}

std::size_t repeats_of(const Figure& f) {
  std::size_t n = f.of.empty() ? 0 : f.of.front().repeats.size();
  for (const RankFigure& m : f.of) n = std::min(n, m.repeats.size());
  return n;
}

template <class Read>
void each(ObjectReader& reader, const char* key, const Read& read) {
  const json& list = reader.require(key, "an array");
  if (!list.is_array())
    fail(ErrorKind::bad_input, reader.path(key), "wrong type, got {}, need an array", short_json(list));
  for (std::size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}[{}]", reader.path(key), i));
}

}  // namespace

double shortfall(const Figure& f, double value, double reference) {
  return f.rate ? 1 - value / reference : 1 - reference / value;
}

std::string label_of(const Figure& f) {
  return f.bytes > 0
             ? fmt::format("{} of {} over {}", f.what, format_bytes(static_cast<std::uint64_t>(f.bytes)), f.scope)
             : f.what;
}

Printed printed_as(const std::string& unit, double value) {
  return unit == "TFLOP/s" && value < 1 ? Printed{"GFLOP/s", 1000} : Printed{unit};
}

Health merge_repeats(const std::vector<Health>& checks) {
  check(!checks.empty(), "check", "no repeat, need one at least");
  Health merged = checks.front();
  if (checks.size() == 1) return merged;
  for (std::size_t f = 0; f < merged.figures.size(); ++f)
    for (std::size_t i = 0; i < merged.figures[f].of.size(); ++i) {
      RankFigure& m = merged.figures[f].of[i];
      std::vector<double> seconds;
      m.wrong = 0;
      for (const Health& h : checks) {
        if (h.figures.size() != merged.figures.size() || h.figures[f].of.size() != merged.figures[f].of.size())
          fail(ErrorKind::bad_input, "check", "repeats of other figures, got {}, need {}", h.figures.size(),
               merged.figures.size());
        const RankFigure& one = h.figures[f].of[i];
        m.repeats.push_back(one.value);
        seconds.push_back(one.seconds);
        m.wrong += one.wrong;
      }
      m.value = median(m.repeats);
      m.seconds = median(std::move(seconds));
    }
  return merged;
}

std::string_view name_of(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::wrong:
      return "wrong";
    case Finding::Kind::slow:
      return "slow";
    case Finding::Kind::below:
      return "below";
  }
  return "?";
}

std::string ranks_text(const Health& health, const std::vector<int>& ranks) {
  if (ranks.size() == 1) {
    const auto rank = static_cast<std::size_t>(ranks.front());
    const std::string device = rank < health.devices.size() ? health.devices[rank] : "";
    return rank_text(ranks.front(), health.hosts) + (device.empty() ? "" : " (" + device + ")");
  }
  constexpr std::size_t kMost = 16;
  const std::vector<int> first(ranks.begin(),
                               ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, ranks.size())));
  std::vector<std::string> names;
  for (const int rank : ranks)
    if (const Host* h = host_of(health, rank); h && std::find(names.begin(), names.end(), h->name) == names.end())
      names.push_back(h->name);
  return fmt::format("ranks {}{}{}{}", fmt::join(first, " "), ranks.size() > kMost ? " ..." : "",
                     names.empty() ? "" : " on ", fmt::join(names, ", "));
}

int hosts_of(const Health& health, const std::vector<int>& ranks) {
  std::set<const Host*> hosts;
  for (const int rank : ranks) hosts.insert(host_of(health, rank));
  return static_cast<int>(hosts.size());
}

std::vector<std::optional<double>> peers_of(const Health& health, const Figure& figure) {
  std::vector<std::optional<double>> medians;
  std::vector<int> spread;
  for (const RankFigure& m : figure.of) spread.push_back(hosts_of(health, m.ranks));
  for (std::size_t i = 0; i < figure.of.size(); ++i) {
    std::vector<double> others;
    for (std::size_t k = 0; k < figure.of.size(); ++k)
      if (k != i && spread[k] == spread[i] && figure.of[k].ranks.size() == figure.of[i].ranks.size())
        others.push_back(figure.of[k].value);
    medians.push_back(others.empty() ? std::nullopt : std::optional(median(std::move(others))));
  }
  return medians;
}

std::vector<Finding> judge(const Health& health, double tolerance) {
  std::vector<Finding> findings;
  for (std::size_t f = 0; f < health.figures.size(); ++f) {
    const Figure& figure = health.figures[f];
    const auto peers = peers_of(health, figure);
    const std::size_t repeats = repeats_of(figure);
    std::vector<Figure> each;
    std::vector<std::vector<std::optional<double>>> peers_in_each;
    for (std::size_t r = 0; r < repeats; ++r) {
      each.push_back(repeat_of(figure, r));
      peers_in_each.push_back(peers_of(health, each.back()));
    }
    for (std::size_t i = 0; i < figure.of.size(); ++i) {
      const RankFigure& m = figure.of[i];
      const std::string who = fmt::format("{}: {}", ranks_text(health, m.ranks), label_of(figure));
      const auto add = [&](Finding::Kind kind, const std::string& what) {
        findings.push_back({f, i, kind, fmt::format("{} {}", who, what)});
      };
      if (m.wrong > 0) add(Finding::Kind::wrong, fmt::format("gave {} wrong elements", m.wrong));
      if (!figure.judged) continue;
      const auto is_out = [&](double value, const std::optional<double>& reference) {
        return reference && *reference > 0 && shortfall(figure, value, *reference) > tolerance;
      };
      const auto against = [&](Finding::Kind kind, const std::optional<double>& reference, const char* whose) {
        std::size_t out = 0;
        for (std::size_t r = 0; r < repeats; ++r)
          if (is_out(m.repeats[r], kind == Finding::Kind::slow ? peers_in_each[r][i] : reference)) ++out;
        if (!reference || !(repeats > 1 ? out >= needed_of(repeats) : is_out(m.value, reference))) return;
        const Printed as = printed_as(figure.unit, *reference);
        add(kind,
            fmt::format("{}{:.4g} {}, {:.0f} % {} {} {:.4g}{}", figure.bytes > 0 ? "reaches " : "", m.value * as.factor,
                        as.unit, 100 * std::abs(1 - m.value / *reference), figure.rate ? "below" : "above", whose,
                        *reference * as.factor, repeats > 1 ? fmt::format(", in {} of {} repeats", out, repeats) : ""));
      };
      against(Finding::Kind::slow, peers[i], "the median of its peers,");
      if (!m.estimated) against(Finding::Kind::below, m.expected, fmt::format("what {} says,", health.machine).c_str());
    }
  }
  return findings;
}

ordered_json to_json(const Health& health, double tolerance) {
  ordered_json figures = ordered_json::array(), texts = ordered_json::array();
  for (const Figure& f : health.figures) {
    ordered_json of = ordered_json::array();
    for (const RankFigure& m : f.of) {
      of.push_back({{"ranks", m.ranks},
                    {"value", m.value},
                    {"seconds", m.seconds},
                    {"wrong", m.wrong},
                    {"expected", m.expected ? ordered_json(*m.expected) : ordered_json(nullptr)}});
      if (m.estimated) of.back()["estimated"] = true;
      if (!m.repeats.empty()) of.back()["repeats"] = m.repeats;
    }
    figures.push_back({{"what", f.what},
                       {"scope", f.scope},
                       {"unit", f.unit},
                       {"bytes", f.bytes},
                       {"rate", f.rate},
                       {"judged", f.judged},
                       {"of", of}});
  }
  for (const Finding& finding : judge(health, tolerance)) texts.push_back(finding.text);
  for (const std::string& fault : faults_of(health)) texts.push_back(fault);
  ordered_json out = {{"schema", kSchema}, {"device", health.device}};
  if (!health.date.empty()) out["date"] = health.date;
  out.update({{"hosts", hosts_to_json(health.hosts)},
              {"devices", health.devices},
              {"machine", health.machine.empty() ? ordered_json(nullptr) : ordered_json(health.machine)},
              {"figures", figures},
              {"tolerance", tolerance},
              {"findings", texts}});
  if (!health.signatures.empty()) {
    out["signatures"] = ordered_json::array();
    for (const DeviceSignature& s : health.signatures) out["signatures"].push_back(signature_to_json(s));
  }
  return out;
}

Health health_from_json(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  const std::string schema = read_string(reader.require("schema", kSchema), reader.path("schema"));
  if (schema != kSchema) fail(ErrorKind::bad_input, reader.path("schema"), "got \"{}\", need \"{}\"", schema, kSchema);
  Health health;
  health.device = read_string(reader.require("device", "cpu or cuda"), reader.path("device"));
  health.hosts = hosts_from_json(reader.require("hosts", "an array of hosts"), reader.path("hosts"));
  each(reader, "devices", [&](const json& x, const std::string& at) { health.devices.push_back(read_string(x, at)); });
  if (const json* machine = reader.find("machine"); machine && !machine->is_null())
    health.machine = read_string(*machine, reader.path("machine"));
  if (const json* date = reader.find("date")) health.date = read_string(*date, reader.path("date"));
  if (reader.find("signatures"))
    each(reader, "signatures",
         [&](const json& s, const std::string& at) { health.signatures.push_back(signature_from_json(s, at)); });
  each(reader, "figures", [&](const json& figure, const std::string& at) {
    ObjectReader r(figure, at);
    Figure f;
    const auto text = [&](const char* key) { return read_string(r.require(key, "a text"), r.path(key)); };
    f.what = text("what");
    const std::string earlier = " product";  // what 0.1 and early files of 0.2 call a GEMM
    if (f.what.ends_with(earlier)) f.what.replace(f.what.size() - earlier.size(), earlier.size(), " GEMM");
    f.scope = text("scope"), f.unit = text("unit");
    f.bytes = read_int(r.require("bytes", "a number"), r.path("bytes"), 0, INT64_MAX);
    f.rate = read_bool(r.require("rate", "true or false"), r.path("rate"));
    f.judged = read_bool(r.require("judged", "true or false"), r.path("judged"));
    each(r, "of", [&](const json& measured, const std::string& here) {
      ObjectReader o(measured, here);
      RankFigure m;
      each(o, "ranks", [&](const json& x, const std::string& p) {
        m.ranks.push_back(static_cast<int>(read_int(x, p, 0, 1 << 30)));
      });
      m.value = read_number(o.require("value", "a number"), o.path("value"), 0);
      m.seconds = read_number(o.require("seconds", "a number"), o.path("seconds"), 0);
      m.wrong = read_int(o.require("wrong", "a number"), o.path("wrong"), 0, INT64_MAX);
      if (const json* expected = o.find("expected"); expected && !expected->is_null())
        m.expected = read_number(*expected, o.path("expected"), 0);
      if (const json* estimated = o.find("estimated")) m.estimated = read_bool(*estimated, o.path("estimated"));
      if (o.find("repeats"))
        each(o, "repeats", [&](const json& x, const std::string& p) { m.repeats.push_back(read_number(x, p, 0)); });
      f.of.push_back(std::move(m));
    });
    health.figures.push_back(std::move(f));
  });
  return health;
}

}  // namespace mbench::health
