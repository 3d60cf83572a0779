// Every launch of whole training steps of large models, against the limits of every GPU that we compile for.
// The engine runs as it does on a GPU, on memory that nobody follows; the kernels themselves do not run.
#include "engine/backend/cuda/attention/attention.cuh"
#include "engine/backend/cuda/kernels/adam.cuh"
#include "engine/backend/cuda/kernels/add.cuh"
#include "engine/backend/cuda/kernels/attention_mask.cuh"
#include "engine/backend/cuda/kernels/bias_add.cuh"
#include "engine/backend/cuda/kernels/bias_dropout_add.cuh"
#include "engine/backend/cuda/kernels/bias_gelu.cuh"
#include "engine/backend/cuda/kernels/copy.cuh"
#include "engine/backend/cuda/kernels/cross_entropy.cuh"
#include "engine/backend/cuda/kernels/dropout.cuh"
#include "engine/backend/cuda/kernels/embedding.cuh"
#include "engine/backend/cuda/kernels/layer_norm.cuh"
#include "engine/backend/cuda/kernels/random_normal.cuh"
#include "engine/backend/cuda/kernels/softmax.cuh"
#include "engine/backend/cuda/kernels/sum_squares.cuh"
#include "engine/backend/cuda/kernels/tanh.cuh"
#include "engine/platform/registry.h"
#include "engine/sim/counting.h"
#include "engine/sim/device.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/simt/emulator.h"

namespace mbench::cuda {
namespace {

// Stands where kernels stand, so that enqueue() is found.
class CheckedLaunches {
 public:
  template <class... Params, class... Args>
  void launch(std::string_view op, const Launch& shape, void (*)(Params...), Args&&...) {
    if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return;
    simt::check_launch(op, shape, simt::kTuring);            // the same on all
    simt::check_shared(op, 0, shape.shared, simt::kTuring);  // which has the least
    // Kernels shuffle among whole warps.
    CHECK(shape.block_x * shape.block_y % 32 == 0);
    most_scratch_ = std::max(most_scratch_, scratch_);
    ++launches_;
  }
  void* scratch(std::size_t bytes) {
    scratch_ = bytes;
    return reinterpret_cast<void*>(std::uintptr_t{1} << 45);
  }
  std::int64_t launches() const { return launches_; }
  std::size_t most_scratch() const { return most_scratch_; }

 private:
  std::int64_t launches_ = 0;
  std::size_t scratch_ = 0, most_scratch_ = 0;
};

class ShapesDevice final : public Device {
 public:
  ShapesDevice() : Device(std::make_unique<sim::CountedMemory>(), 0), ops_(*this) {}
  OpTable& ops() override { return ops_; }
  std::string name() const override { return "launch shapes"; }
  bool real() const override { return false; }
  void write(const Tensor&, std::span<const std::byte>) override {}
  float read(const Tensor&, float declared) override { return declared; }
  void read(const Tensor&, std::span<std::byte>) override {}
  double synchronize() override { return 0; }
  double now() const override { return 0; }
  bool immediate() const override { return false; }

  template <class Op>
  friend void compute(ShapesDevice& device, const Op& op) {
    // A library's products launch nothing of ours. What attention consists of beside them and its own kernel
    // are the ops that eager graphs launch one by one.
    if constexpr (std::is_same_v<Op, ops::Attention>) {
      if (op.probs) enqueue_statistics(device.launches_, op);
    } else if constexpr (!std::is_same_v<Op, ops::Matmul> && !std::is_same_v<Op, ops::AttentionGrad>) {
      enqueue(device.launches_, op);
    }
  }
  const CheckedLaunches& launches() const { return launches_; }

 protected:
  void do_copy(const Tensor&, const Tensor&) override {}  // the driver's own, which launches nothing of ours

 private:
  CheckedLaunches launches_;
  TableOf<ShapesDevice> ops_;
};

Point point_of(const char* model, std::int64_t tp, std::int64_t pp, std::int64_t seq,
               std::int64_t micro_batch) {
  Point p;
  p.model = find_preset(model, "test");
  p.model.positions = std::max(p.model.positions, seq);
  p.seq = seq;
  p.micro_batch = p.global_batch = micro_batch;
  p.tp = tp, p.pp = pp;
  p.precision = Precision::bf16;
  p.dropout = 0.1;
  return p;
}

}  // namespace

TEST_CASE("what whole steps of large models launch, every GPU takes") {
  struct Case {
    const char* model;
    std::int64_t tp, pp, seq, micro_batch;
  };
  for (const Case& c : {Case{"gpt2-345m", 1, 1, 2048, 64}, Case{"gpt2-345m", 1, 1, 65536, 1},
                        Case{"bert-345m", 1, 1, 512, 1024}, Case{"gpt-1.3b", 1, 1, 2048, 256},
                        Case{"gpt3-175b", 1, 1, 2048, 8}, Case{"gpt3-175b", 8, 8, 32768, 4}})
    for (const bool eager : {true, false})
      for (const Precision precision : {Precision::bf16, Precision::f32}) {
        CAPTURE(c.model, c.seq, c.micro_batch, eager);
        Point p = point_of(c.model, c.tp, c.pp, c.seq, c.micro_batch);
        p.graph = eager ? Graph::eager : Graph::fused;
        p.precision = precision;
        const Plan plan = strategies::make_plan(p);
        for (const std::int64_t stage : {std::int64_t{0}, c.pp - 1}) {
          ShapesDevice device;
          const auto world = lone_world(static_cast<int>(stage * c.tp), plan.mesh.world());
          Trainer trainer(plan, device, *world, nullptr);
          trainer.step();
          CHECK(device.launches().launches() > 10 * p.model.layers / c.pp);
          // Partial sums: little beside the tensors of the step.
          CHECK(device.launches().most_scratch() < std::size_t{1} << 30);
        }
      }
}

}  // namespace mbench::cuda
