#include "health/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "engine/base/json_reader.h"
#include "health/median.h"

namespace mbench::health {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFleetSchema = "mbench.fleet/1";
constexpr double kSpreads = 3.5, kLeastCut = 0.01;

using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
Key key_of(const FleetFigure& f) {
  return {f.what, f.scope, f.bytes, f.ranks};
}

// As of a check's figure: what shortfall() needs.
Figure plain(const FleetFigure& f) {
  return {.what = f.what, .scope = f.scope, .unit = f.unit, .bytes = f.bytes, .rate = f.rate, .of = {}};
}

double spread_of(const std::vector<double>& values, double center) {
  std::vector<double> away;
  for (const double x : values) away.push_back(std::abs(x - center));
  return 1.4826 * median(std::move(away));
}

// The host that all of these ranks are on; empty: several. A check whose hosts are not known is of one node without a name.
std::string node_of(const Health& check, const std::vector<int>& ranks) {
  std::set<std::string> names;
  for (const int rank : ranks)
    for (const Host& h : check.hosts)
      if (std::find(h.ranks.begin(), h.ranks.end(), rank) != h.ranks.end()) names.insert(h.name);
  if (names.size() > 1) return "";
  return names.empty() ? "unknown host" : *names.begin();
}

// "NVIDIA H200", of several kinds all: without their addresses.
std::string hardware_of(const std::vector<Health>& checks) {
  std::set<std::string> kinds;
  for (const Health& check : checks)
    for (const Host& h : check.hosts) {
      if (check.device == "cpu") kinds.insert(h.cpu);
      for (const std::string& gpu : h.gpus) kinds.insert(gpu.substr(0, gpu.rfind(" at ")));
    }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

bool names(const std::string& rule, const FleetFigure& f) {
  return rule == "*" || rule == f.what || rule == f.what + "/" + f.scope;
}

}  // namespace

Rule read_rule(const std::string& text, const std::string& where) {
  const auto refuse = [&] {
    fail(ErrorKind::bad_input, where, "not a rule, got \"{}\", need one such as memory@5% or \"2 of memory,launch@5%\"",
         text);
  };
  Rule rule;
  rule.text = text;
  std::string rest = text;
  if (const std::size_t of = rest.find(" of "); of != std::string::npos) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + of, rule.needed);
    if (error != std::errc{} || end != rest.data() + of || rule.needed < 1) refuse();
    rest = rest.substr(of + 4);
  }
  const std::size_t at = rest.rfind('@');
  if (at == std::string::npos || !rest.ends_with('%')) refuse();
  double percent = 0;
  const char* last = rest.data() + rest.size() - 1;
  const auto [end, error] = std::from_chars(rest.data() + at + 1, last, percent);
  if (error != std::errc{} || end != last || !(percent > 0 && percent < 100)) refuse();
  rule.share = percent / 100;
  for (std::size_t from = 0; from <= at;) {
    const std::size_t comma = std::min(rest.find(',', from), at);
    if (comma == from) refuse();
    rule.figures.push_back(rest.substr(from, comma - from));
    from = comma + 1;
  }
  return rule;
}

void check_rules(const Fleet& fleet, const std::vector<Rule>& rules, const std::string& where) {
  for (const Rule& rule : rules)
    for (const std::string& name : rule.figures) {
      if (std::any_of(fleet.figures.begin(), fleet.figures.end(), [&](const FleetFigure& f) { return names(name, f); }))
        continue;
      std::vector<std::string> known;
      for (const FleetFigure& f : fleet.figures)
        if (std::find(known.begin(), known.end(), f.what) == known.end()) known.push_back(f.what);
      fail(ErrorKind::bad_input, where, "no such figure in these checks, got \"{}\", {}", name,
           nearest_choice(name, known));
    }
}

std::vector<NodeFigure> values_by_node(const std::vector<Health>& checks) {
  if (checks.empty()) fail(ErrorKind::bad_input, "fleet", "no checks, need one at least");
  std::map<Key, std::size_t> place;
  std::vector<NodeFigure> figures;
  std::vector<std::map<std::string, std::vector<double>>> values;  // of each figure, the worst of every check
  for (const Health& check : checks) {
    if (check.device != checks.front().device)
      fail(ErrorKind::bad_input, "fleet", "checks of different devices, got {} and {}, need one kind",
           checks.front().device, check.device);
    std::map<std::pair<std::size_t, std::string>, double> worst;
    for (const Figure& f : check.figures)
      for (const RankFigure& m : f.of) {
        const std::string node = node_of(check, m.ranks);
        if (!f.judged || node.empty()) continue;
        const FleetFigure figure{.what = f.what,
                                 .scope = f.scope,
                                 .unit = f.unit,
                                 .bytes = f.bytes,
                                 .ranks = static_cast<std::int64_t>(m.ranks.size()),
                                 .rate = f.rate};
        const auto [it, added] = place.emplace(key_of(figure), figures.size());
        if (added) figures.push_back({figure, {}, 0}), values.emplace_back();
        figures[it->second].wrong += m.wrong;
        const auto [seen, first] = worst.emplace(std::pair(it->second, node), m.value);
        if (!first) seen->second = f.rate ? std::min(seen->second, m.value) : std::max(seen->second, m.value);
      }
    for (const auto& [of, value] : worst) values[of.first][of.second].push_back(value);
  }
  for (std::size_t i = 0; i < figures.size(); ++i)
    for (const auto& [node, all] : values[i]) figures[i].nodes.push_back({node, median(all)});
  return figures;
}

Fleet make_fleet(const std::vector<Health>& checks) {
  Fleet fleet;
  std::set<std::string> nodes;
  for (const NodeFigure& f : values_by_node(checks)) {
    FleetFigure figure = f.figure;
    std::vector<double> all, kept;
    for (const NodeValue& v : f.nodes) all.push_back(v.value), nodes.insert(v.node);
    const double center = median(all), spread = spread_of(all, center);
    for (const double x : all)
      if (std::abs(x - center) <= std::max(kSpreads * spread, kLeastCut * center)) kept.push_back(x);
    figure.nodes = static_cast<std::int64_t>(kept.size());
    figure.cut = static_cast<std::int64_t>(all.size() - kept.size());
    figure.median = median(kept);
    figure.spread = spread_of(kept, figure.median);
    const auto [least, most] = std::minmax_element(kept.begin(), kept.end());
    figure.least = *least, figure.most = *most;
    fleet.figures.push_back(std::move(figure));
  }
  fleet.device = checks.front().device;
  fleet.hardware = hardware_of(checks);
  for (const Health& check : checks) fleet.date = std::max(fleet.date, check.date);
  fleet.nodes.assign(nodes.begin(), nodes.end());
  return fleet;
}

std::vector<Deviation> deviations(const Fleet& fleet, const std::vector<Health>& checks) {
  std::map<Key, const FleetFigure*> known;
  for (const FleetFigure& f : fleet.figures) known.emplace(key_of(f), &f);
  std::vector<Deviation> all;
  for (const NodeFigure& f : values_by_node(checks)) {
    const auto it = known.find(key_of(f.figure));
    if (it == known.end() || !(it->second->median > 0)) continue;
    const FleetFigure& base = *it->second;
    for (const NodeValue& v : f.nodes) {
      Deviation d{v.node, "", base, v.value, 0, 0};
      d.share = v.value > 0 || base.rate ? shortfall(plain(base), v.value, base.median) : 0;
      if (base.spread > 0) d.spreads = std::abs(v.value - base.median) / base.spread;
      const Printed as = printed_as(base.unit, base.median);
      d.text = fmt::format("{} {:.4g} {}, {:.0f} % {} the fleet's {:.4g}", label_of(plain(base)), v.value * as.factor,
                           as.unit, 100 * std::abs(v.value / base.median - 1),
                           v.value < base.median ? "below" : "above", base.median * as.factor);
      all.push_back(std::move(d));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Deviation& a, const Deviation& b) { return a.share > b.share; });
  return all;
}

std::vector<FallenOut> fallen_out(const Fleet& fleet, const std::vector<Health>& checks,
                                  const std::vector<Rule>& rules) {
  std::map<std::string, std::vector<Deviation>> by_node;
  for (Deviation& d : deviations(fleet, checks)) by_node[d.node].push_back(std::move(d));
  std::map<std::string, std::vector<std::string>> reasons;
  for (const auto& [node, all] : by_node)
    for (const Rule& rule : rules) {
      std::vector<std::string> broken;
      for (const Deviation& d : all)
        if (d.share > rule.share && std::any_of(rule.figures.begin(), rule.figures.end(),
                                                [&](const std::string& f) { return names(f, d.figure); }))
          broken.push_back(d.text);
      if (broken.size() >= rule.needed)
        reasons[node].push_back(fmt::format("{}: {}", rule.text, fmt::join(broken, "; ")));
    }
  for (const Health& check : checks)
    for (const Figure& f : check.figures)
      for (const RankFigure& m : f.of)
        if (m.wrong > 0) {
          const std::string node = node_of(check, m.ranks);
          reasons[node.empty() ? ranks_text(check, m.ranks) : node].push_back(
              fmt::format("{} gave {} wrong elements", label_of(f), m.wrong));
        }
  std::vector<FallenOut> out;
  for (auto& [node, why] : reasons) out.push_back({node, std::move(why)});
  return out;
}

void judge(Fleet& fleet, const std::vector<Health>& checks, const std::vector<Rule>& rules) {
  fleet.rules.clear();
  for (const Rule& rule : rules) fleet.rules.push_back(rule.text);
  fleet.out = fallen_out(fleet, checks, rules);
}

ordered_json to_json(const Fleet& fleet) {
  ordered_json out = ordered_json::array();
  for (const FallenOut& node : fleet.out) out.push_back({{"node", node.node}, {"reasons", node.reasons}});
  ordered_json figures = ordered_json::array();
  for (const FleetFigure& f : fleet.figures)
    figures.push_back({{"what", f.what},
                       {"scope", f.scope},
                       {"unit", f.unit},
                       {"bytes", f.bytes},
                       {"ranks", f.ranks},
                       {"rate", f.rate},
                       {"median", f.median},
                       {"spread", f.spread},
                       {"least", f.least},
                       {"most", f.most},
                       {"nodes", f.nodes},
                       {"cut", f.cut}});
  return {{"schema", kFleetSchema},     {"device", fleet.device},
          {"hardware", fleet.hardware}, {"date", fleet.date.empty() ? ordered_json(nullptr) : ordered_json(fleet.date)},
          {"nodes", fleet.nodes},       {"figures", figures},
          {"rules", fleet.rules},       {"fallen_out", out}};
}

Fleet fleet_from_json(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  const std::string schema = read_string(reader.require("schema", kFleetSchema), reader.path("schema"));
  if (schema != kFleetSchema)
    fail(ErrorKind::bad_input, reader.path("schema"), "got \"{}\", need \"{}\"", schema, kFleetSchema);
  Fleet fleet;
  const auto list = [](ObjectReader& r, const char* key) -> const json& {
    const json& all = r.require(key, "an array");
    if (!all.is_array()) fail(ErrorKind::bad_input, r.path(key), "wrong type, got {}, need an array", short_json(all));
    return all;
  };
  fleet.device = read_string(reader.require("device", "cpu or cuda"), reader.path("device"));
  if (const json* hardware = reader.find("hardware")) fleet.hardware = read_string(*hardware, reader.path("hardware"));
  if (const json* date = reader.find("date"); date && !date->is_null())
    fleet.date = read_string(*date, reader.path("date"));
  const json& nodes = list(reader, "nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i)
    fleet.nodes.push_back(read_string(nodes[i], fmt::format("{}[{}]", reader.path("nodes"), i)));
  const json& figures = list(reader, "figures");
  for (std::size_t i = 0; i < figures.size(); ++i) {
    ObjectReader r(figures[i], fmt::format("{}[{}]", reader.path("figures"), i));
    const auto text = [&](const char* key) { return read_string(r.require(key, "a text"), r.path(key)); };
    const auto count = [&](const char* key) { return read_int(r.require(key, "a number"), r.path(key), 0, INT64_MAX); };
    const auto number = [&](const char* key) { return read_number(r.require(key, "a number"), r.path(key), 0); };
    FleetFigure f;
    f.what = text("what"), f.scope = text("scope"), f.unit = text("unit");
    f.bytes = count("bytes"), f.ranks = count("ranks");
    f.rate = read_bool(r.require("rate", "true or false"), r.path("rate"));
    f.median = number("median"), f.spread = number("spread"), f.least = number("least"), f.most = number("most");
    f.nodes = count("nodes"), f.cut = count("cut");
    fleet.figures.push_back(std::move(f));
  }
  // Of files before they had these.
  const auto texts = [](const json& all, const std::string& path) {
    if (!all.is_array()) fail(ErrorKind::bad_input, path, "wrong type, got {}, need an array", short_json(all));
    std::vector<std::string> out;
    for (std::size_t i = 0; i < all.size(); ++i) out.push_back(read_string(all[i], fmt::format("{}[{}]", path, i)));
    return out;
  };
  if (const json* rules = reader.find("rules")) fleet.rules = texts(*rules, reader.path("rules"));
  if (reader.find("fallen_out")) {
    const json& out = list(reader, "fallen_out");
    for (std::size_t i = 0; i < out.size(); ++i) {
      ObjectReader r(out[i], fmt::format("{}[{}]", reader.path("fallen_out"), i));
      fleet.out.push_back({read_string(r.require("node", "a text"), r.path("node")),
                           texts(r.require("reasons", "an array"), r.path("reasons"))});
    }
  }
  return fleet;
}

bool is_fleet(const json& value) {
  return value.is_object() && value.contains("schema") && value.at("schema") == kFleetSchema;
}
bool is_check(const json& value) {
  return value.is_object() && value.contains("schema") && value.at("schema") == "mbench.check/1";
}

}  // namespace mbench::health
