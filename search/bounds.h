// Lower bounds of the time and the memory of a layout, from a few recorded layers instead of a simulated step.
//
// The engine's own code is recorded (engine/sim/recording/recorder.h) on small models (probes.h). In all that a micro batch meets, they are
// like the layout. What a layer takes there is what every layer of its kind takes. It is measured for forward and backward of a micro
// batch, for the memory that its forward keeps, and for the state of a rank. From these follow
//
//   time    of each stage: all its micro batches, since a stage does one thing at a time. Before them the first micro batch goes
//           forward through the earlier stages; after them the last one comes back through those.
//   memory  of the stages that may be the fullest: state, and what the micro batches keep that the schedule has in flight at once.
//
// A collective that was started counts only as far as the kernels before its wait cannot hide it. Of a ring over cp, that is the part
// which is longer than the attention overlapped with it.
//
// Left out is what could only add: waits for other actions, messages, gradients' reduction, the optimizer, waits for the host, kernels
// slowed down by overlapped collectives, buffers, fragmentation. So no layout takes less than its lower bound, but for differently
// padded state (kSlack).
#pragma once
#include <array>
#include <memory>
#include <string>

#include "engine/base/category.h"
#include "engine/plan/plan.h"
#include "engine/sim/machine/machine.h"
#include "search/probes.h"

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

// A lower bound of the energy, in joules, of a step that takes at least so many seconds: idle power of all devices over that time, and
// `busy_joules` above it. 0 where the machine has no power curve.
double joules_at_least(const Point& point, double seconds, double busy_joules, const sim::Machine& machine);

class Bounds {
 public:
  explicit Bounds(const sim::Machine& machine, Host host = Host::charged);
  ~Bounds();
  // For a possible layout. What layouts have in common is cached; several threads may call it. Zero for a layout whose layers cannot be
  // recorded.
  LowerBound lower_bound(const Point& point) const;
  // Its parts. A Family also gives the memory by itself.
  double seconds(const Point& point) const;
  double busy_joules(const Point& point) const;

  // Layouts that differ in their micro batch only. Most of their bounds is the same, and is looked up once. One thread uses it.
  class Family {
   public:
    // `point`: a possible one of them. `bounds` must outlive it.
    Family(const Bounds& bounds, const Point& point);
    ~Family();
    // If the state is more than `far_too_much` bytes, the result is the state only.
    LowerBound memory(const Point& point, double far_too_much = 1e30);
    double seconds(const Point& point);
    double busy_joules(const Point& point);

   private:
    friend class Bounds;
    struct Common;
    std::unique_ptr<Common> common_;
  };

  // Figures that they are made of, first the chunks of each stage.
  const std::vector<std::vector<ChunkPlan>>& chunks_of(const Point& point) const;
  // The stages that may be the fullest: the first, the last, and the first of those with the most layers. If there are layers with
  // experts, these count.
  std::vector<int> fuller_stages(const Point& point) const;
  // Only the state of a rank of a stage; zero where no layers can be recorded.
  std::array<double, kCategories> state(const Point& point, int stage) const;
  // The state of a layer where nothing is sharded; of one of the first kind (small_model.h).
  std::array<double, kCategories> layer_state(const Point& point) const;
  // The first forwards and backwards of a stage, until the most micro batches are in flight.
  const Schedule& start_of(const Point& point, int stage) const;

  // Buckets of sharded state are padded to a multiple of the ranks. A model of few layers is padded differently from a whole one.
  static constexpr double kSlack = 0.005;

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace mbench::search
