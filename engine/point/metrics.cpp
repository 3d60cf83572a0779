#include "engine/point/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/json_reader.h"
#include "engine/point/result.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using R = PointResult;

// Writing: unknown is null. JSON has no NaN and no infinity: what is not finite is unknown, too.

ordered_json written(double x) {
  return std::isfinite(x) ? ordered_json(x) : ordered_json(nullptr);
}
ordered_json written(const std::optional<double>& x) {
  return x ? written(*x) : ordered_json(nullptr);
}
ordered_json written(const std::optional<std::int64_t>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}
ordered_json written(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}
ordered_json array_of(const std::vector<double>& values) {
  ordered_json out = ordered_json::array();
  for (const double x : values) out.push_back(written(x));
  return out;
}
ordered_json written(const std::optional<Soak>& soak) {
  return soak ? soak_to_json(*soak) : ordered_json(nullptr);
}
ordered_json written(const std::vector<double>& values) {
  return values.empty() ? ordered_json(nullptr) : array_of(values);
}

// Reading.

void read(const json& value, const std::string& where, std::optional<double>& x) {
  x = read_number(value, where);
}
void read(const json& value, const std::string& where, std::optional<std::int64_t>& x) {
  x = read_int(value, where, 0, INT64_MAX);
}
void read(const json& value, const std::string& where, std::optional<Soak>& soak) {
  soak = soak_from_json(value, where);
}
void read(const json& value, const std::string& where, std::string& text) {
  text = read_string(value, where);
}

// Of a number that every step or rank has: whether it may be NaN, which stands as null, and below 0.
enum class Range { any, at_least_zero };

std::vector<double> read_numbers(const json& value, const std::string& where, Range range) {
  if (!value.is_array())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an array of numbers", short_json(value));
  const bool any = range == Range::any;
  const double low = any ? std::numeric_limits<double>::lowest() : 0;
  std::vector<double> out;
  out.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const json& x = value[i];
    if (any && x.is_null())
      out.push_back(std::numeric_limits<double>::quiet_NaN());
    else if (x.is_number_float() && x.get<double>() >= low && std::isfinite(x.get<double>()))
      out.push_back(x.get<double>());  // before any text for a message is made: there are millions
    else
      out.push_back(read_number(x, fmt::format("{}[{}]", where, i), low));
  }
  return out;
}

void require_object(const json& value, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object", short_json(value));
}

double required_number(const json& object, const std::string& key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::bad_input, where, "\"{}\" is missing, need a number", key);
  return read_number(*found, where + "." + key);
}

// Null and missing both mean unknown.
const json* known(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Measures of several parts.

struct StatisticsPart {
  const char* key;
  double Statistics::*value;
};
constexpr StatisticsPart kStatistics[] = {{"mean", &Statistics::mean},     {"stddev", &Statistics::stddev},
                                          {"median", &Statistics::median}, {"p95", &Statistics::p95},
                                          {"min", &Statistics::min},       {"max", &Statistics::max}};

ordered_json written(const std::optional<Statistics>& s) {
  if (!s) return nullptr;
  ordered_json out = ordered_json::object();
  for (const StatisticsPart& part : kStatistics) out[part.key] = written((*s).*part.value);
  out["samples"] = array_of(s->samples);
  return out;
}

void read(const json& value, const std::string& where, std::optional<Statistics>& out) {
  require_object(value, where);
  Statistics s;
  for (const StatisticsPart& part : kStatistics) s.*part.value = required_number(value, part.key, where);
  if (const json* samples = known(value, "samples"))
    s.samples = read_numbers(*samples, where + ".samples", Range::at_least_zero);
  out = std::move(s);
}

ordered_json written(const std::optional<MemoryAnatomy>& anatomy) {
  if (!anatomy) return nullptr;
  ordered_json out = ordered_json::object();
  for (std::size_t c = 0; c < kCategoryNames.size(); ++c)
    out[std::string(kCategoryNames[c])] = written(anatomy->mib[c]);
  return out;
}

void read(const json& value, const std::string& where, std::optional<MemoryAnatomy>& out) {
  require_object(value, where);
  MemoryAnatomy anatomy;
  for (std::size_t c = 0; c < kCategoryNames.size(); ++c)
    anatomy.mib[c] = required_number(value, std::string(kCategoryNames[c]), where);
  out = anatomy;
}

ordered_json written(const std::optional<TimeAnatomy>& anatomy) {
  if (!anatomy) return nullptr;
  ordered_json out = ordered_json::object();
  for (std::size_t p = 0; p < kTimePartNames.size(); ++p) out[std::string(kTimePartNames[p])] = written(anatomy->ms[p]);
  return out;
}

void read(const json& value, const std::string& where, std::optional<TimeAnatomy>& out) {
  require_object(value, where);
  TimeAnatomy anatomy;
  for (std::size_t p = 0; p < kTimePartNames.size(); ++p)
    anatomy.ms[p] = required_number(value, std::string(kTimePartNames[p]), where);
  out = anatomy;
}

// {"largest": "linear output", "tensors": {"linear output": 12.5, ..., "all others": 0.5}}
ordered_json written(const std::vector<PeakTensor>& tensors) {
  if (tensors.empty()) return nullptr;
  ordered_json all = ordered_json::object();
  for (const PeakTensor& tensor : tensors) all[tensor.name] = written(tensor.mib);
  return {{"largest", tensors.front().name}, {"tensors", std::move(all)}};
}

void read(const json& value, const std::string& where, std::vector<PeakTensor>& out) {
  require_object(value, where);
  const json* all = known(value, "tensors");
  if (!all || !all->is_object())
    fail(ErrorKind::bad_input, where, "\"tensors\" is missing, need an object of their MiB");
  std::vector<PeakTensor> tensors;
  for (const auto& [name, mib] : all->items()) tensors.push_back({name, read_number(mib, where + ".tensors." + name)});
  std::sort(tensors.begin(), tensors.end(), is_before);
  out = std::move(tensors);
}

ordered_json written(const std::optional<CommunicationByAxis>& sent) {
  if (!sent) return nullptr;
  ordered_json out = ordered_json::object();
  for (std::size_t i = 0; i < kCommunicationNames.size(); ++i)
    out[std::string(kCommunicationNames[i])] = written(sent->mib[i]);
  return out;
}

void read(const json& value, const std::string& where, std::optional<CommunicationByAxis>& out) {
  require_object(value, where);
  CommunicationByAxis sent;
  for (std::size_t i = 0; i < kCommunicationNames.size(); ++i)
    sent.mib[i] = required_number(value, std::string(kCommunicationNames[i]), where);
  out = sent;
}

// Six digits, which is more than a clock of steps has: there are as many numbers as ranks times parts.
double rounded(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const double unit = std::pow(10.0, 5 - std::floor(std::log10(std::abs(x))));
  return std::round(x * unit) / unit;
}

// {"median": 12.3, "spread": 0.1, "parts": [...]} of each rank.
ordered_json written(const std::vector<StepParts>& ranks) {
  if (ranks.empty()) return nullptr;
  ordered_json out = ordered_json::array();
  for (const StepParts& rank : ranks) {
    ordered_json parts = ordered_json::array();
    for (const double ms : rank.parts) parts.push_back(written(rounded(ms)));
    out.push_back({{"median", written(rounded(rank.median))},
                   {"spread", written(rounded(rank.spread))},
                   {"parts", std::move(parts)}});
  }
  return out;
}

// As above, or of a rank every step, as it was written before there were parts.
void read(const json& value, const std::string& where, std::vector<StepParts>& out) {
  if (!value.is_array())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an array of what each rank did", short_json(value));
  std::vector<StepParts> ranks;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    if (value[i].is_array()) {
      const std::vector<double> steps = read_numbers(value[i], at, Range::at_least_zero);
      ranks.push_back(steps.empty() ? StepParts() : parts_of(steps));
      continue;
    }
    require_object(value[i], at);
    const json* parts = known(value[i], "parts");
    if (!parts) fail(ErrorKind::bad_input, at, "\"parts\" is missing, need an array of numbers");
    ranks.push_back({required_number(value[i], "median", at), required_number(value[i], "spread", at),
                     read_numbers(*parts, at + ".parts", Range::at_least_zero)});
  }
  out = std::move(ranks);
}

// {"count": 2, "separate": 1, "gemms": [{"gemm": "...", "chosen": "fused", "fused_us": 12.5, "separate_us": 14.1}, ...]}
ordered_json written(const std::vector<GemmChoice>& gemms) {
  if (gemms.empty()) return nullptr;
  ordered_json list = ordered_json::array();
  for (const GemmChoice& g : gemms)
    list.push_back({{"gemm", g.gemm},
                    {"chosen", g.fused ? "fused" : "separate"},
                    {"fused_us", written(rounded(g.fused_us))},
                    {"separate_us", written(rounded(g.separate_us))}});
  const auto separate = std::count_if(gemms.begin(), gemms.end(), [](const GemmChoice& g) { return !g.fused; });
  return {{"count", gemms.size()}, {"separate", separate}, {"gemms", std::move(list)}};
}

void read(const json& value, const std::string& where, std::vector<GemmChoice>& out) {
  require_object(value, where);
  const json* list = known(value, "gemms");
  if (!list || !list->is_array()) fail(ErrorKind::bad_input, where, "\"gemms\" is missing, need an array of GEMMs");
  std::vector<GemmChoice> gemms;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& one = (*list)[i];
    const std::string at = fmt::format("{}.gemms[{}]", where, i);
    require_object(one, at);
    const json *gemm = known(one, "gemm"), *chosen = known(one, "chosen");
    if (!gemm || !chosen) fail(ErrorKind::bad_input, at, "\"gemm\" or \"chosen\" is missing, need both");
    const std::string how = read_string(*chosen, at + ".chosen");
    if (how != "fused" && how != "separate")
      fail(ErrorKind::bad_input, at + ".chosen", "unknown value, got \"{}\", need \"fused\" or \"separate\"", how);
    gemms.push_back({read_string(*gemm, at + ".gemm"), how == "fused", required_number(one, "fused_us", at),
                     required_number(one, "separate_us", at)});
  }
  out = std::move(gemms);
}

// {"low": 11.5, "high": 13.2, "rows": 9, "about": "dense models with megatron-core on one node"}
ordered_json written(const std::optional<TimeInterval>& interval) {
  if (!interval) return nullptr;
  return {{"low", written(interval->low)},
          {"high", written(interval->high)},
          {"rows", interval->rows},
          {"about", interval->about}};
}

void read(const json& value, const std::string& where, std::optional<TimeInterval>& out) {
  require_object(value, where);
  const json *rows = known(value, "rows"), *about = known(value, "about");
  if (!rows || !about) fail(ErrorKind::bad_input, where, "\"rows\" or \"about\" is missing, need both");
  out = TimeInterval{required_number(value, "low", where), required_number(value, "high", where),
                     read_int(*rows, where + ".rows", 1, 1 << 30), read_string(*about, where + ".about")};
}

// The lines of the table.

// A number, a count or a text.
template <class T>
Metric metric(const char* name, std::string_view unit, T R::*member, Merge merge = Merge::none) {
  return {name,
          unit,
          merge,
          false,
          {},
          [member](const R& r) { return written(r.*member); },
          [member](R& r, const json& value, const std::string& where) { read(value, where, r.*member); }};
}

// The same, of what others publish.
Metric published(Metric metric) {
  metric.publishable = true;
  return metric;
}

// A number of every step or rank.
Metric series(const char* name, std::string_view unit, std::vector<double> R::*member, Range range) {
  return {name,
          unit,
          Merge::none,
          false,
          {"first", "last"},
          [member](const R& r) { return written(r.*member); },
          [member, range](R& r, const json& value, const std::string& where) {
            r.*member = read_numbers(value, where, range);
          }};
}

Metric gemms(const char* name, std::vector<GemmChoice> R::*member) {
  Metric m = metric(name, "", member);
  m.parts = {"count", "separate"};
  return m;
}

Metric tensors_at_peak(const char* name, std::vector<PeakTensor> R::*member) {
  Metric m = metric(name, "", member);
  m.parts = {"largest"};
  return m;
}

Metric soak_windows(const char* name, std::optional<Soak> R::*member) {
  Metric m = metric(name, "", member);
  m.parts = {"seconds", "steps"};
  return m;
}

Metric interval(const char* name, std::optional<TimeInterval> R::*member) {
  Metric m = metric(name, "ms", member);
  m.parts = {"low", "high"};
  return m;
}

Metric of_ranks(const char* name, std::vector<StepParts> R::*member) {
  Metric m = metric(name, "ms", member);
  m.parts = {"first", "last"};
  return m;
}

Metric statistics(const char* name, std::string_view unit, std::optional<Statistics> R::*member) {
  Metric m = metric(name, unit, member);
  for (const StatisticsPart& part : kStatistics) m.parts.emplace_back(part.key);
  return m;
}

// A mean with the spread beside it.
Metric rate(const char* name, std::string_view unit, std::optional<double> R::*mean, std::optional<double> R::*stddev) {
  return {name,
          unit,
          Merge::none,
          false,
          {"mean", "stddev"},
          [=](const R& r) {
            if (!(r.*mean)) return ordered_json(nullptr);
            return ordered_json{{"mean", written(r.*mean)}, {"stddev", written(r.*stddev)}};
          },
          [=](R& r, const json& value, const std::string& where) {
            require_object(value, where);
            r.*mean = required_number(value, "mean", where);
            if (const json* spread = known(value, "stddev")) r.*stddev = read_number(*spread, where + ".stddev");
          }};
}

template <class Anatomy, std::size_t N>
Metric anatomy(const char* name, std::string_view unit, std::optional<Anatomy> R::*member,
               const std::array<std::string_view, N>& parts) {
  Metric m = metric(name, unit, member);
  m.parts.assign(parts.begin(), parts.end());
  return m;
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> table = {
      published(statistics("iteration_ms", "ms", &R::iteration_ms)),
      published(rate("samples_per_s", "samples/s", &R::samples_per_s, &R::samples_per_s_stddev)),
      published(metric("tokens_per_s", "tokens/s", &R::tokens_per_s)),
      published(metric("tflops_per_device", "TFLOP/s", &R::tflops_per_device)),
      published(metric("mfu", "fraction", &R::mfu)),
      published(metric("mfu_causal", "fraction", &R::mfu_causal)),
      published(metric("hfu", "fraction", &R::hfu)),
      metric("peak_tflops", "TFLOP/s", &R::peak_tflops, Merge::min),
      metric("peak_source", "", &R::peak_source),
      published(metric("peak_memory_mib", "MiB", &R::peak_memory_mib, Merge::max)),
      series("peak_memory_by_rank_mib", "MiB", &R::peak_memory_by_rank_mib, Range::at_least_zero),
      published(metric("last_rank_memory_mib", "MiB", &R::last_rank_memory_mib)),
      anatomy("memory_anatomy_mib", "MiB", &R::memory_anatomy_mib, kCategoryNames),
      tensors_at_peak("peak_tensors_mib", &R::peak_tensors_mib),
      published(metric("reserved_memory_mib", "MiB", &R::reserved_memory_mib, Merge::max)),
      published(metric("device_memory_mib", "MiB", &R::device_memory_mib, Merge::max)),
      metric("library_memory_mib", "MiB", &R::library_memory_mib, Merge::max),
      metric("host_memory_mib", "MiB", &R::host_memory_mib, Merge::max),
      anatomy("host_memory_anatomy_mib", "MiB", &R::host_memory_anatomy_mib, kCategoryNames),
      published(metric("communication_fraction", "fraction", &R::communication_fraction, Merge::max)),
      published(metric("bubble_fraction", "fraction", &R::bubble_fraction, Merge::max)),
      anatomy("time_anatomy_ms", "ms", &R::time_anatomy_ms, kTimePartNames),
      anatomy("communication_mib", "MiB", &R::communication_mib, kCommunicationNames),
      gemms("gemm_epilogues", &R::gemm_epilogues),
      series("losses", "", &R::losses, Range::any),
      series("gradient_norms", "", &R::gradient_norms, Range::any),
      series("auxiliary_losses", "", &R::auxiliary_losses, Range::any),
      metric("skipped_steps", "", &R::skipped_steps),
      published(metric("parameters", "", &R::parameters)),
      metric("frozen_parameters", "", &R::frozen_parameters),
      metric("expert_imbalance", "", &R::expert_imbalance),
      published(metric("power_w", "W", &R::power_w, Merge::mean)),
      published(metric("utilization", "fraction", &R::utilization, Merge::mean)),
      metric("clock_mhz", "MHz", &R::clock_mhz, Merge::mean),
      metric("throttle_reasons", "", &R::throttle_reasons),
      metric("device_faults", "", &R::device_faults),
      series("cpu_share_by_rank", "fraction", &R::cpu_share_by_rank, Range::at_least_zero),
      metric("turn_steps", "", &R::turn_steps),
      series("turn_cpu_ms", "ms", &R::turn_cpu_ms, Range::at_least_zero),
      series("step_ms_by_rank", "ms", &R::step_ms_by_rank, Range::at_least_zero),
      of_ranks("compute_ms_by_rank", &R::compute_ms_by_rank),
      series("partial_ms", "ms", &R::partial_ms, Range::at_least_zero),
      series("partial_losses", "", &R::partial_losses, Range::any),
      soak_windows("soak_windows", &R::soak),
      interval("iteration_ms_interval", &R::iteration_ms_interval),
      published(metric("energy_joules", "J", &R::energy_joules)),
      published(metric("tokens_per_joule", "tokens/J", &R::tokens_per_joule)),
      metric("energy_source", "", &R::energy_source),
  };
  return table;
}

const Metric& metric_named(std::string_view name) {
  for (const Metric& m : metrics())
    if (m.name == name) return m;
  fail(ErrorKind::internal, "metrics", "no metric of that name, got \"{}\"", name);
}

std::optional<double> merge_ranks(std::string_view metric, const std::vector<double>& of_ranks) {
  check(!of_ranks.empty(), metric, "no rank's figure, need at least one");
  if (std::any_of(of_ranks.begin(), of_ranks.end(), [](double x) { return std::isnan(x); })) return std::nullopt;
  switch (metric_named(metric).merge) {
    case Merge::max:
      return *std::max_element(of_ranks.begin(), of_ranks.end());
    case Merge::min:
      return *std::min_element(of_ranks.begin(), of_ranks.end());
    case Merge::mean:
      return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / static_cast<double>(of_ranks.size());
    case Merge::none:
      break;
  }
  fail(ErrorKind::internal, metric, "is not merged from the figures of ranks");
}

}  // namespace mbench
