// Sweeps of a small model by the command that runs on fake GPUs.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

namespace mbench::test {

class Sweeps {
 public:
  // Runs the small model over `sweep` (JSON) on a device; `settings` go before the command, as the shell has
  // them: "FAKE_CUDA_COUNT=2".
  Run run(const std::string& name, const std::string& sweep, const std::string& device,
          const std::string& settings = "", const std::string& options = "") {
    std::string fields;  // that the sweep does not have
    for (const auto& [key, value] : {std::pair("micro_batch", 1), {"global_batch", 4}, {"iterations", 3}})
      if (sweep.find(key) == std::string::npos) fields += fmt::format("\"{}\": {}, ", key, value);
    if (sweep.find("\"model\"") == std::string::npos)
      fields += R"("model": {"family": "gpt", "layers": 4, "hidden": 32, "heads": 4, "ffn": 128,
      "vocab": 61, "positions": 16}, )";
    room_.put(name + ".json", R"({"seq": 16, "warmup": 0, "dropout": 0.1, "attention": "core", )" + fields +
                                  "\"sweep\": " + sweep + "}");
    return room_.shell(fmt::format("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {} $M sweep {}.json "
                                   "--on {} --out {} --quiet {}",
                                   settings, name, device, name, options),
                       280);
  }
  std::vector<PointResult> points(const std::string& name) const {
    return read_result_file(room_ / (name + "/results.json")).points;
  }
  // The same; all points must be well.
  std::vector<PointResult> good(const std::string& name, const std::string& sweep, const std::string& device,
                                const std::string& settings = "", const std::string& options = "") {
    const Run done = run(name, sweep, device, settings, options);
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    for (const PointResult& p : points(name)) {
      INFO(p.reason);
      REQUIRE(p.outcome == Outcome::ok);
    }
    return points(name);
  }
  const Room& room() const { return room_; }

 private:
  Room room_;
};

// Relative, of a loss; a gradient norm, a sum of many more roundings, gets ten times as much.
inline double tolerance(Precision p) {
  return p == Precision::f32 ? 1e-4 : p == Precision::bf16 ? 1e-2 : 2e-3;
}

inline void check_same_training(const PointResult& got, const PointResult& want) {
  const double allowed = tolerance(got.point.precision);
  REQUIRE(got.losses.size() == want.losses.size());
  REQUIRE(got.losses.size() == 3);
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    CHECK(std::isfinite(got.losses[i]));
    CHECK(got.losses[i] == Approx(want.losses[i]).epsilon(allowed));
    CHECK(got.gradient_norms[i] == Approx(want.gradient_norms[i]).epsilon(10 * allowed));
  }
  CHECK(got.losses.front() != got.losses.back());
}

inline void check_same_memory(const PointResult& got, const PointResult& want) {
  CHECK(*got.peak_memory_mib == *want.peak_memory_mib);
  CHECK(got.peak_memory_by_rank_mib == want.peak_memory_by_rank_mib);
  CHECK(got.memory_anatomy_mib.value().mib == want.memory_anatomy_mib.value().mib);
}

// Events measure what a step is spent on. The parts add up to the mean step, and each is there where the layout has it.
inline void check_time_anatomy(const PointResult& got) {
  REQUIRE(got.time_anatomy_ms);
  const TimeAnatomy& parts = *got.time_anatomy_ms;
  double sum = 0;
  for (const double ms : parts.ms) {
    CHECK(ms >= 0);
    sum += ms;
  }
  CHECK(sum == Approx(got.iteration_ms->mean));
  for (const TimePart part : {TimePart::gemms, TimePart::attention, TimePart::elementwise, TimePart::optimizer}) {
    INFO(name_of(part));
    CHECK(parts[part] > 0);
  }
  CHECK((parts[TimePart::communication_tp] > 0) == (got.point.tp > 1));
  CHECK((parts[TimePart::communication_dp] > 0) == (got.point.dp > 1));
  CHECK((parts[TimePart::bubble] > 0) == (got.point.pp > 1));
}

inline std::string describe(const PointResult& p) {
  return fmt::format("tp {} pp {} dp {} {} {} {}", p.point.tp, p.point.pp, p.point.dp, name_of(p.point.precision),
                     name_of(p.point.framework), name_of(p.point.recompute));
}

}  // namespace mbench::test
