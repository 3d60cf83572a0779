#include "test/simt/kernel_devices.h"

#include <cstring>

#include "all_kernels.h"  // written by test/CMakeLists.txt: every .cuh of the backend
#include "engine/backend/cpu/cpu_device.h"
#include "engine/ops/ops.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/run/counting.h"

namespace mbench::cuda {

// Stands where kernels stand, so that enqueue() is found.
class CheckedLaunches {
 public:
  template <class... Params, class... Args>
  void launch(std::string_view op, const Launch& shape, void (*)(Params...), Args&&...) {
    if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return;
    simt::check_launch(op, shape, simt::kTuring);            // the same on all
    simt::check_shared(op, 0, shape.shared, simt::kTuring);  // which has the least
    check(shape.block_x * shape.block_y % 32 == 0, op, "threads of a block, got {} x {}, need whole warps",
          shape.block_x, shape.block_y);
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

// What attention consists of beside a library's products and its own kernel are the ops that eager graphs launch.
template <class Stream, class Op>
void enqueue_own(Stream& stream, const Op& op) {
  if constexpr (std::is_same_v<Op, ops::Attention>) {
    if (op.probs) enqueue_statistics(stream, op);
  } else if constexpr (std::is_same_v<Op, ops::Matmul>) {
    if (op.a.cols == 0) enqueue(stream, op);  // a product over no terms is no library's
  } else if constexpr (!std::is_same_v<Op, ops::AttentionGrad> && !std::is_same_v<Op, ops::Fp8Matmul>) {
    enqueue(stream, op);
  }
}

}  // namespace mbench::cuda

namespace mbench::test {
namespace {

class Emulated final : public EmulatedDevice {
 public:
  explicit Emulated(simt::Order order)
      : EmulatedDevice(std::make_unique<cpu::HostMemory>(std::size_t{1} << 32), 0), stream_(order), ops_(*this) {}
  OpTable& ops() override { return ops_; }
  std::string name() const override { return "emulated GPU"; }
  bool real() const override { return true; }
  void write(const Tensor& to, std::span<const std::byte> source) override {
    if (!source.empty()) std::memcpy(to.data(), source.data(), source.size());
  }
  float read(const Tensor& scalar, float) override { return *scalar.as<float>(); }
  void read(const Tensor& from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }
  double synchronize() override { return 0; }
  double now() const override { return 0; }
  bool immediate() const override { return true; }
  const std::vector<cuda::Launch>& launches() const override { return stream_.launches(); }
  template <class Op>
  friend void compute(Emulated& device, const Op& op) {
    cuda::enqueue_own(device.stream_, op);
  }

 protected:
  void do_copy(const Tensor& from, const Tensor& to) override {
    if (from.bytes()) std::memcpy(to.data(), from.data(), from.bytes());
  }

 private:
  cuda::EmulatedStream stream_;
  TableOf<Emulated> ops_;
};

class Shapes final : public LimitsDevice {
 public:
  Shapes() : LimitsDevice(std::make_unique<sim::CountedMemory>(), 0), ops_(*this) {}
  OpTable& ops() override { return ops_; }
  std::string name() const override { return "launch shapes"; }
  bool real() const override { return false; }
  void write(const Tensor&, std::span<const std::byte>) override {}
  float read(const Tensor&, float declared) override { return declared; }
  void read(const Tensor&, std::span<std::byte>) override {}
  double synchronize() override { return 0; }
  double now() const override { return 0; }
  bool immediate() const override { return false; }
  std::int64_t launches() const override { return stream_.launches(); }
  std::size_t most_scratch() const override { return stream_.most_scratch(); }
  template <class Op>
  friend void compute(Shapes& device, const Op& op) {
    cuda::enqueue_own(device.stream_, op);
  }

 protected:
  void do_copy(const Tensor&, const Tensor&) override {}  // the driver's own, which launches nothing of ours

 private:
  cuda::CheckedLaunches stream_;
  TableOf<Shapes> ops_;
};

}  // namespace

std::unique_ptr<EmulatedDevice> open_emulated_device(simt::Order order) {
  return std::make_unique<Emulated>(order);
}

std::unique_ptr<LimitsDevice> open_limits_device() {
  return std::make_unique<Shapes>();
}

}  // namespace mbench::test
