// Floors under the time and the memory of a layout, from a handful of recorded layers instead of a simulated step.
//
// The engine's own code is recorded (engine/sim/recorder.h) on models of two and of four layers in two stages that differ
// from the layout's in nothing that a micro batch meets. What two more layers take is what every layer of their kind takes:
// forward and backward of a micro batch, what its forward leaves behind, and the state of a rank. From these follow
//
//   time    of each stage: all its micro batches, since a stage does one thing at a time; before them the first micro batch
//           goes forward through the stages before it, and after them the last comes back through those.
//   memory  of the stages that may be the fullest: state, and what the micro batches keep that are under way at once, as the
//           schedule has them.
//
// A collective that is started counts as far as the kernels before it is waited for cannot hide it: of a ring over cp the part
// that is longer than the attention beside it. Left out is what could only add: what other actions wait for, messages, gradients'
// reduction, the optimizer, waiting for the host, kernels slowed down by collectives beside them, buffers, fragmentation. So nothing is
// below its floor, but for state that is padded differently (kSlack).
#pragma once
#include <array>
#include <memory>
#include <string>

#include "engine/base/category.h"
#include "engine/plan/plan.h"
#include "engine/sim/machine.h"

namespace mbench {
struct Point;
}

namespace mbench::search {

struct LowerBound {
  double seconds = 0;
  std::array<double, kCategories> bytes{};  // of the fullest stage
  int rank = 0;                             // the first of that stage
  // Of all devices, what kernels and collectives draw above idle devices. 0 where the machine has no power curve.
  double busy_joules = 0;
  double total_bytes() const;
  Category largest() const;  // what most of it is for
};

// Joules that no step takes less than which takes so many seconds at least: its devices draw what idle ones do, and `busy_joules` above
// that. 0 where the machine has no power curve.
double joules_at_least(const Point& point, double seconds, double busy_joules, const Machine& machine);

// Whether what the framework's host does for a step counts.
enum class Host { charged, free };

class Bounds {
 public:
  explicit Bounds(const Machine& machine, Host host = Host::charged);
  ~Bounds();
  // Of a layout that can be. What layouts have in common is remembered; several threads may ask. A layout of which no layers
  // can be recorded has a floor of nothing.
  LowerBound lower_bound(const Point& point) const;
  // The parts of it: that of memory, without its time, takes less to find.
  // Where the state alone is more than `far_too_much` bytes, that is the floor.
  LowerBound memory(const Point& point, double far_too_much = 1e30) const;
  double seconds(const Point& point) const;
  double busy_joules(const Point& point) const;

  // What they are made of. The chunks of each stage;
  const std::vector<std::vector<ChunkPlan>>& chunks_of(const Point& point) const;
  // those stages that may be the fullest: the first, the last, and the first of those that have most layers, with experts where there are
  // such;
  std::vector<int> fuller_stages(const Point& point) const;
  // of a rank of a stage, the state alone; nothing where no layers can be recorded;
  std::array<double, kCategories> state(const Point& point, int stage) const;
  // of a layer (a dense one where there are such), where nothing is sharded;
  std::array<double, kCategories> layer_state(const Point& point) const;
  // and the first forwards and backwards of a stage, as many as it takes until most is under way.
  const Schedule& start_of(const Point& point, int stage) const;

  // Buckets of sharded state are padded to a multiple of the ranks, in a model of few layers otherwise than in a whole one.
  static constexpr double kSlack = 0.005;

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace mbench::search
