// One rank trains a point on the CPU, without MPI: what the tests of training share.
#pragma once
#include <memory>
#include <vector>

#include "engine/platform/registry.h"
#include "engine/run/run_point.h"
#include "engine/sim/run/counting.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"

namespace mbench::test {

struct SerialRun {
  explicit SerialRun(const Point& point) : SerialRun(point, strategies::make_plan(point)) {}
  SerialRun(const Point& point, const Plan& of_step)
      : plan(of_step),
        device(platform::open_device("cpu", point.memory_limit)),
        world(sim::lone_world(0, 1)),
        data(train::open_data(point.data, point.model.vocab, point.seq, point.seed)),
        trainer(plan, *device, *world, data.get()) {}
  SerialRun(const SerialRun&) = delete;
  SerialRun& operator=(const SerialRun&) = delete;

  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) trainer.step();
  }

  Plan plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<comm::World> world;
  std::unique_ptr<train::TokenSource> data;
  train::Trainer trainer;
};

// What `mbench run` does with a point on one rank.
inline PointResult run_serially(const Point& point) {
  const Plan plan = strategies::make_plan(point);
  const auto device = platform::open_device("cpu", point.memory_limit);
  const auto world = sim::lone_world(0, 1);
  return run_point(point, plan, *device, *world, {});
}

// A float tensor of the device as f32 values.
inline std::vector<float> floats_of(Device& device, const Tensor& t) {
  check(t.dtype() == DType::f32, "test", "tensor of {}, need f32", name_of(t.dtype()));
  std::vector<float> values(static_cast<std::size_t>(t.numel()));
  device.read(t, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace mbench::test
