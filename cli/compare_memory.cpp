#include "cli/compare_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/find_spec.h"
#include "cli/mebibyte.h"
#include "cli/plan_memory.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "explain/tensor_changes.h"
#include "strategies/strategies.h"
#include "sweeps/spec/options.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

using explain::TensorChange;
using nlohmann::json;
using nlohmann::ordered_json;
using sim::PeakByTensor;
using sim::TensorsAtPeak;

constexpr std::string_view kOption = "--memory";
const std::string kOthers = "all others";  // of a row: the sum of what it does not name

// What is known of the tensors of one run.
struct Side {
  std::string label;
  PeakByTensor peak;
  std::optional<int> rank;
  bool by_name = false;  // neither shape nor place is known
};

// One point, and the row that was recorded of it, where its file is one of results.
struct Run {
  Point point;
  std::string label;
  std::optional<PointResult> row;
};

template <class Found>
const typename Found::value_type& only_one(const Found& found, const std::string& path) {
  if (found.size() != 1)
    fail(ErrorKind::bad_input, kOption, "compares one point of each, got {} of {}, need --filter field=value",
         found.size(), path);
  return found.front();
}

bool holds_results(const std::string& file) {
  const json text = json::parse(read_text_file(file), nullptr, false);
  return text.is_object() && text.contains("schema") && text.contains("points");
}

Run recorded_run(const std::string& file, const MemoryComparison& args, const std::vector<std::string>& set) {
  const sweeps::Filter filter(args.filter);
  std::vector<PointResult> rows;
  for (PointResult& row : read_result_file(file).points)
    if (filter.keeps(row.point)) rows.push_back(std::move(row));
  const PointResult& row = only_one(rows, file);
  Run run{row.point, fmt::format("{} {}", row.id, printable(row.point.model.name)), row};
  if (set.empty()) return run;
  ordered_json spec = point_to_json(row.point);
  for (const std::string& text : set) {
    sweeps::apply_set(spec, sweeps::parse_assignment(text, "--set"), "--set " + text);
    run.label += " " + text;
  }
  spec.erase("sweep");  // from which a value that is set is taken
  run.point = point_from_json(json(spec), "--set");
  run.row.reset();
  return run;
}

Run run_of(const std::string& path, const MemoryComparison& args, const std::vector<std::string>& set) {
  const std::string found = find_spec(path), file = sweeps::results_file(found);
  const auto imported = imported_spec(found);
  if (!imported && holds_results(file)) return recorded_run(file, args, set);
  const sweeps::Spec spec = sweeps::read_spec({found, set, args.filter, device_asked(args.on), imported});
  const sweeps::SpecPoint& point = only_one(spec.points, path);
  return {point.point, fmt::format("{} {}", point.id, printable(point.label)), std::nullopt};
}

std::map<std::string, std::size_t> bytes_by_name(const PeakByTensor& peak) {
  std::map<std::string, std::size_t> bytes;
  for (const TensorsAtPeak& t : peak.tensors) bytes[t.what] += t.bytes;
  return bytes;
}

// Whether a plan's tensors are those that a row recorded. The row names the largest; the rest is one sum.
bool are_those_of(const std::vector<PeakTensor>& row, const PeakByTensor& peak) {
  const auto bytes = bytes_by_name(peak);
  double sum = 0;
  for (const PeakTensor& t : row) {
    sum += t.mib * kMib;
    const auto found = bytes.find(t.name);
    if (t.name != kOthers &&
        (found == bytes.end() || std::abs(static_cast<double>(found->second) - t.mib * kMib) > 0.5))
      return false;
  }
  return std::abs(sum - static_cast<double>(peak.total)) < 0.5;
}

PeakByTensor named(const std::vector<PeakTensor>& row) {
  PeakByTensor peak;
  for (const PeakTensor& t : row) {
    TensorsAtPeak each;
    each.what = t.name, each.bytes = static_cast<std::size_t>(std::llround(t.mib * kMib));
    peak.total += each.bytes;
    peak.tensors.push_back(std::move(each));
  }
  return peak;
}

Side side_of(const std::string& path, const MemoryComparison& args, const std::vector<std::string>& set) {
  const Run run = run_of(path, args, set);
  Side side{run.label, {}, std::nullopt, false};
  const bool recorded = run.row && !run.row->peak_tensors_mib.empty();
  try {
    api::PointSimulator simulator;
    const Plan plan = strategies::make_plan(run.point);
    const Fullest fullest = fullest_of(run.point, plan, simulator);
    // A row of the engine itself has tensors without an allocator's rounding.
    for (const auto& caching : {sim::caching_of(plan, run.point.env), std::optional<sim::CachingSettings>()}) {
      PeakByTensor peak = sim::peak_by_tensor(plan, fullest.recording, *fullest.ranks, caching);
      if (recorded && !are_those_of(run.row->peak_tensors_mib, peak)) continue;
      side.peak = std::move(peak), side.rank = fullest.ranks->rank;
      return side;
    }
  } catch (const Error& e) {
    if (!outcome_of(e.kind()) || !recorded) throw;
  }
  side.peak = named(run.row->peak_tensors_mib), side.by_name = true;
  return side;
}

// All tensors of a name as one, held against a side of which no more is known. What that sums as others is summed here too.
void keep_names(Side& side, const Side& recorded) {
  if (side.by_name) return;
  const auto known = bytes_by_name(recorded.peak);
  std::map<std::string, std::size_t> bytes;
  for (const auto& [name, size] : bytes_by_name(side.peak))
    bytes[known.contains(kOthers) && !known.contains(name) ? kOthers : name] += size;
  PeakByTensor peak{side.peak.total, side.peak.during, {}};
  for (const auto& [name, size] : bytes) {
    TensorsAtPeak each;
    each.what = name, each.bytes = size;
    peak.tensors.push_back(std::move(each));
  }
  side.peak = std::move(peak), side.by_name = true;
}

std::string change(double bytes) {
  return fmt::format("{:+.1f}", bytes / kMib);
}
std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::map<Category, std::pair<std::size_t, std::size_t>> by_category(const Side& from, const Side& to) {
  std::map<Category, std::pair<std::size_t, std::size_t>> all;
  for (const TensorsAtPeak& t : from.peak.tensors) all[t.category].first += t.bytes;
  for (const TensorsAtPeak& t : to.peak.tensors) all[t.category].second += t.bytes;
  return all;
}

std::string tensors_text(const std::optional<TensorsAtPeak>& t) {
  if (!t) return "-";
  if (t->count == 0) return mib(static_cast<double>(t->bytes));
  return fmt::format("{} x {} {}", t->count, t->shape, t->dtype);
}

std::string said_of(const std::optional<TensorsAtPeak>& from, const std::optional<TensorsAtPeak>& to,
                    std::string TensorsAtPeak::*text) {
  const std::string a = from ? (*from).*text : "", b = to ? (*to).*text : "";
  if (!from || !to || a == b) return or_dash(to ? b : a);
  return fmt::format("{} -> {}", or_dash(a), or_dash(b));
}

std::string markdown(const Side& from, const Side& to, const std::vector<TensorChange>& changes) {
  constexpr std::size_t kMost = 30;
  const auto total = [](const Side& s) { return static_cast<double>(s.peak.total); };
  std::string text = fmt::format("## Memory at the peak: {} -> {} MiB ({})\n\n", mib(total(from)), mib(total(to)),
                                 change(total(to) - total(from)));
  text += "| | run | rank | during | MiB |\n|---|---|---:|---|---:|\n";
  for (const auto& [name, side] : {std::pair("A", &from), std::pair("B", &to)})
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", name, side->label,
                    side->rank ? fmt::format("{}", *side->rank) : "-", or_dash(side->peak.during), mib(total(*side)));
  if (!from.by_name) {
    text += "\n| category | A | B | change, MiB |\n|---|---:|---:|---:|\n";
    for (const auto& [category, bytes] : by_category(from, to))
      text += fmt::format("| {} | {} | {} | {} |\n", name_of(category), mib(static_cast<double>(bytes.first)),
                          mib(static_cast<double>(bytes.second)),
                          change(static_cast<double>(bytes.second) - static_cast<double>(bytes.first)));
  } else {
    text +=
        "\nOf a row's tensors their names are recorded, and those are not this version's. So both sides are by name.\n";
  }
  if (changes.empty()) return text + "\nEvery tensor takes as many bytes as before.\n";
  text += "\n| | tensor | category | where | made in | A | B | change, MiB |\n|---|---|---|---|---|---|---|---:|\n";
  double left = total(to) - total(from);
  for (std::size_t i = 0; i < std::min(changes.size(), kMost); ++i) {
    const TensorChange& c = changes[i];
    const TensorsAtPeak& t = c.to ? *c.to : *c.from;
    left -= static_cast<double>(c.bytes);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name_of(c.kind), t.what,
                        from.by_name ? "-" : std::string(name_of(t.category)),
                        said_of(c.from, c.to, &TensorsAtPeak::where), said_of(c.from, c.to, &TensorsAtPeak::made_by),
                        tensors_text(c.from), tensors_text(c.to), change(static_cast<double>(c.bytes)));
  }
  if (changes.size() > kMost)
    text += fmt::format("| | {} others | | | | | | {} |\n", changes.size() - kMost, change(left));
  return text;
}

ordered_json json_of(const std::optional<TensorsAtPeak>& t, bool by_name) {
  if (!t) return nullptr;
  if (by_name) return {{"bytes", t->bytes}};
  return {{"shape", t->shape}, {"dtype", t->dtype}, {"tensors", t->count},
          {"bytes", t->bytes}, {"where", t->where}, {"made_in", t->made_by}};
}

ordered_json json_of(const Side& side) {
  return {{"run", side.label},
          {"rank", side.rank ? ordered_json(*side.rank) : ordered_json()},
          {"during", side.peak.during},
          {"bytes", side.peak.total}};
}

std::string json_text(const Side& from, const Side& to, const std::vector<TensorChange>& changes) {
  ordered_json all = {{"schema", "mbench.memory_comparison/1"}, {"a", json_of(from)}, {"b", json_of(to)}};
  all["by_name"] = from.by_name;
  all["changes"] = ordered_json::array();
  for (const TensorChange& c : changes) {
    const TensorsAtPeak& t = c.to ? *c.to : *c.from;
    ordered_json each = {{"change", name_of(c.kind)}, {"tensor", t.what}};
    if (!from.by_name) each["category"] = name_of(t.category);
    each["bytes"] = c.bytes;
    each["a"] = json_of(c.from, from.by_name), each["b"] = json_of(c.to, from.by_name);
    all["changes"].push_back(std::move(each));
  }
  return all.dump(1) + "\n";
}

}  // namespace

std::string compare_memory(const MemoryComparison& args) {
  if (args.format != "md" && args.format != "json")
    fail(ErrorKind::bad_input, "--format", "of --memory, got \"{}\", need md or json", args.format);
  Side from = side_of(args.from, args, {}), to = side_of(args.to, args, args.set);
  if (from.by_name) keep_names(to, from);
  if (to.by_name) keep_names(from, to);
  const auto changes = explain::changed_tensors(from.peak, to.peak);
  return args.format == "json" ? json_text(from, to, changes) : markdown(from, to, changes);
}

}  // namespace mbench::cli
