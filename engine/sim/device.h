// A device without values: the allocator counts, ops cost but do not compute. What a rank allocates here is,
// byte for byte, what it allocates on a real device, because all of it is decided by the same host code. With
// a machine, ops advance a virtual clock by what they would take there, or are recorded for a replay.
#pragma once
#include "engine/ops/epilogue.h"
#include "engine/ops/ops.h"
#include "engine/sim/clock.h"
#include "engine/sim/cost_model.h"
#include "engine/sim/tape.h"

namespace mbench::sim {

// Addresses that nobody follows.
class CountedMemory final : public RawMemory {
 public:
  std::byte* base() const override { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }
  bool commit(std::size_t) override { return true; }
  std::size_t granule() const override { return std::size_t{2} << 20; }
};

class SimDevice final : public Device {
 public:
  // Counts alone; its clock stands still.
  explicit SimDevice(std::size_t memory_limit);
  SimDevice(std::string name, std::size_t memory_limit, std::unique_ptr<CostModel> costs,
            VirtualClock& clock);
  // What calls would do to a clock is added to whichever tape *tape points at. Null costs: ops take no time.
  SimDevice(std::unique_ptr<CostModel> costs, Tape** tape);

  OpTable& ops() override { return ops_; }
  std::string name() const override { return name_; }
  bool real() const override { return false; }
  void write(const Tensor&, std::span<const std::byte>) override;
  float read(const Tensor&, float declared) override;
  void read(const Tensor&, std::span<std::byte>) override;
  double synchronize() override;
  double now() const override { return clock_ ? clock_->now() : 0; }
  bool immediate() const override { return false; }
  void host_work(HostWork work) override;

  template <class Op>
  friend void compute(SimDevice& device, const Op& op) {
    device.charge(op);
  }

 private:
  template <class Op>
  void charge(const Op& op) {
    if (tape_) return record_kernel(costs_ ? seconds_of(*costs_, op) : 0, op.cost());
    if (!clock_) return;
    const Interval span = clock_->kernel(seconds_of(*costs_, op));
    if (timeline()) timeline()->add(Track::compute, Op::name, span.begin, span.end);
  }

 protected:
  // Takes what the op of that name takes: a launch, and its bytes at the memory's bandwidth.
  void do_copy(const Tensor& from, const Tensor& to) override { charge(ops::Copy{from, to}); }

 private:
  template <class Op>
  static double seconds_of(CostModel& costs, const Op& op) {
    return costs.streaming_seconds(op.cost());
  }
  static double seconds_of(CostModel& costs, const ops::Matmul& op) {
    const double product =
        costs.product_seconds({op.a.rows, op.b.cols, op.a.cols, op.batch, op.a.data.dtype()}, op.cost());
    return op.has_epilogue() ? product + costs.epilogue_seconds(ops::cost_of_epilogue(op)) : product;
  }
  static double seconds_of(CostModel& costs, const ops::GroupedMatmul& op) {
    double seconds = 0;
    for (std::int64_t e = 0; e < op.experts(); ++e)
      if (const ops::Matmul product = op.of(e); product.a.rows > 0) seconds += seconds_of(costs, product);
    return seconds;
  }
  static double seconds_of(CostModel& costs, const ops::Attention& op) {
    return costs.attention_seconds(op.cost(), op.q.data.dtype(), false);
  }
  static double seconds_of(CostModel& costs, const ops::AttentionGrad& op) {
    return costs.attention_seconds(op.cost(), op.q.data.dtype(), true);
  }

  void record_kernel(double seconds, const Cost& cost);

  std::string name_;
  std::unique_ptr<CostModel> costs_;
  Tape** tape_ = nullptr;
  VirtualClock* clock_ = nullptr;
  TableOf<SimDevice> ops_;
};

}  // namespace mbench::sim
