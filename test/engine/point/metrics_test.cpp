#include "engine/point/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/point/fields.h"
#include "engine/point/published.h"
#include "engine/point/result.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("a result file has the measures of the table in its order, unknown as null") {
  PointResult r;
  r.point.model = find_preset("gpt-bytes-tiny", "test");
  r.id = point_id(r.point);
  std::vector<std::string> keys;
  const nlohmann::ordered_json row = result_to_json(r);
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  REQUIRE(keys.size() == 1 + point_keys().size() + 7 + metrics().size());
  // What programs read, and baselines hold: names may be added, none may move or go.
  const std::vector<std::string> names = {"iteration_ms",
                                          "samples_per_s",
                                          "tokens_per_s",
                                          "tflops_per_device",
                                          "mfu",
                                          "mfu_causal",
                                          "hfu",
                                          "peak_tflops",
                                          "peak_source",
                                          "peak_memory_mib",
                                          "peak_memory_by_rank_mib",
                                          "last_rank_memory_mib",
                                          "memory_anatomy_mib",
                                          "peak_tensors_mib",
                                          "reserved_memory_mib",
                                          "device_memory_mib",
                                          "library_memory_mib",
                                          "host_memory_mib",
                                          "host_memory_anatomy_mib",
                                          "communication_fraction",
                                          "bubble_fraction",
                                          "time_anatomy_ms",
                                          "communication_mib",
                                          "gemm_epilogues",
                                          "losses",
                                          "gradient_norms",
                                          "auxiliary_losses",
                                          "skipped_steps",
                                          "parameters",
                                          "frozen_parameters",
                                          "expert_imbalance",
                                          "power_w",
                                          "utilization",
                                          "clock_mhz",
                                          "throttle_reasons",
                                          "device_faults",
                                          "cpu_share_by_rank",
                                          "turn_steps",
                                          "turn_cpu_ms",
                                          "step_ms_by_rank",
                                          "compute_ms_by_rank",
                                          "partial_ms",
                                          "partial_losses",
                                          "soak_windows",
                                          "iteration_ms_interval",
                                          "energy_joules",
                                          "tokens_per_joule",
                                          "energy_source"};
  CHECK(std::vector<std::string>(keys.end() - static_cast<std::ptrdiff_t>(names.size()), keys.end()) == names);
  for (const std::string& name : names) CHECK(row.at(name).is_null());
}

TEST_CASE("each measure is read into its own place and nowhere else") {
  PointResult empty;
  empty.point.model = find_preset("gpt-bytes-tiny", "test");
  empty.id = point_id(empty.point);
  std::set<std::string> names;
  for (const Metric& metric : metrics()) {
    INFO(metric.name);
    CHECK(names.insert(metric.name).second);
    CHECK(&metric_named(metric.name) == &metric);
    // A value of each kind, by trying: the reader refuses those that are not its own.
    const nlohmann::json statistics = {{"mean", 1}, {"stddev", 2}, {"median", 3},          {"p95", 4},
                                       {"min", 5},  {"max", 6},    {"samples", {1.5, 2.5}}};
    const nlohmann::json anatomy = {{"weights", 1},     {"gradients", 2}, {"optimizer", 3},
                                    {"activations", 4}, {"workspace", 5}, {"other", 6}};
    nlohmann::json time;
    for (const std::string_view part : kTimePartNames) time[std::string(part)] = time.size() + 0.5;
    const nlohmann::json tensors = {{"largest", "a"}, {"tensors", {{"a", 3.5}, {"b", 2}, {"c", 2}}}};
    nlohmann::json sent;
    for (const std::string_view axis : kCommunicationNames) sent[std::string(axis)] = sent.size() + 0.5;
    const nlohmann::json soak = {
        {"seconds", 9.5},      {"steps", 30},        {"window_steps", {10, 20}},    {"end_s", {4, 9.5}},
        {"median_ms", {3, 4}}, {"worst_ms", {5, 6}}, {"samples_per_s", {7.5, 8.5}}, {"clock_mhz", {2000, nullptr}}};
    const nlohmann::json interval = {{"low", 1.5}, {"high", 2.5}, {"rows", 7}, {"about", "models"}};
    const nlohmann::json rate = {{"mean", 1.5}, {"stddev", 2.5}};
    const nlohmann::json gemms = nlohmann::json::parse(R"({"count": 2, "separate": 1, "gemms": [
        {"gemm": "8 x 8", "chosen": "separate", "fused_us": 2.5, "separate_us": 2.0},
        {"gemm": "8 x 16", "chosen": "fused", "fused_us": 1.0, "separate_us": 3.0}]})");
    bool read = false;
    for (const nlohmann::json& value : {nlohmann::json(7), nlohmann::json("words"), nlohmann::json({1.5, 2.5}),
                                        nlohmann::json::array({{1.5, 2.5, 3.5}, {0.0001}}), statistics, anatomy, time,
                                        sent, tensors, soak, rate, gemms, interval}) {
      PointResult r = empty;
      try {
        metric.read(r, value, "r: $." + metric.name);
      } catch (const Error&) {
        continue;
      }
      read = true;
      const nlohmann::ordered_json row = result_to_json(r), before = result_to_json(empty);
      for (const auto& [key, now] : row.items()) CHECK((now != before.at(key)) == (key == metric.name));
      CHECK(result_to_json(result_from_json(nlohmann::json(row), "r: $")) == row);
      if (row.at(metric.name).is_object())
        for (const std::string& part : metric.parts) CHECK(row.at(metric.name).contains(part));
      break;
    }
    CHECK(read);
  }
  CHECK_THROWS_AS(metric_named("speed"), Error);
}

TEST_CASE("figures of ranks become the point's as their measure says, and one unknown makes it unknown") {
  CHECK(merge_ranks("reserved_memory_mib", {3, 5, 4}) == 5.0);
  CHECK(merge_ranks("peak_tflops", {3, 5, 2}) == 2.0);
  CHECK(merge_ranks("power_w", {3, 5, 4}) == 4.0);
  CHECK_FALSE(merge_ranks("power_w", {3, NAN, 4}));
  CHECK_FALSE(merge_ranks("device_memory_mib", {NAN, 4}));
  CHECK_THROWS_AS(merge_ranks("losses", {1}), Error);
  CHECK_THROWS_AS(merge_ranks("power_w", {}), Error);
}

TEST_CASE("what others may publish is a measure of one number") {
  CHECK(published_metrics().size() == 18);
  for (const std::string& name : published_metrics()) {
    INFO(name);
    const Metric& metric = metric_named(name);
    CHECK((metric.parts.empty() || metric.parts.front() == "mean"));
  }
  for (const char* name : {"losses", "throttle_reasons", "memory_anatomy_mib", "time_anatomy_ms", "peak_tflops"})
    CHECK_FALSE(metric_named(name).publishable);
}
