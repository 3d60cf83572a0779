// A device without values: the allocator counts; ops cost time but do not compute. A rank allocates here, byte for byte, what it
// allocates on a real device, because the same host code decides all of it. With a machine, ops advance a virtual clock by their time
// there, or are recorded for a replay. Its host is another such device, whose ops take the host's time.
#pragma once
#include "engine/device/device.h"
#include "engine/sim/cost/cost_model.h"
#include "engine/sim/play/clock.h"
#include "engine/sim/recording/step_events.h"

namespace mbench::sim {

// Addresses that nobody dereferences.
class CountedMemory final : public RawMemory {
 public:
  std::byte* base() const override { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }
  bool commit(std::size_t) override { return true; }
  std::size_t granule() const override { return std::size_t{2} << 20; }
};

class SimDevice final : public Device {
 public:
  // Only counts; its clock stands still.
  explicit SimDevice(std::size_t memory_limit);
  SimDevice(std::string name, std::size_t memory_limit, std::unique_ptr<CostModel> costs, VirtualClock& clock);
  // What calls would do to a clock is appended to the recording that `*action_events` points at. Null costs: ops take no time.
  SimDevice(std::unique_ptr<CostModel> costs, ActionEvents** action_events);

  ~SimDevice();
  OpTable& ops() override;
  std::string name() const override { return name_; }
  bool real() const override { return false; }
  void write(const Tensor&, std::span<const std::byte>) override;
  float read(const Tensor&, float declared) override;
  void read(const Tensor&, std::span<std::byte>) override;
  double synchronize() override;
  double now() const override { return clock_ ? clock_->now() : 0; }
  bool immediate() const override { return false; }
  void host_work(HostWork work, int times) override;
  void phase(const char* name, bool begins) override;
  // Whether a captured part runs now.
  const bool& in_graph() const { return in_graph_; }
  // How many copies to or from the host have been recorded.
  std::uint32_t copies() const { return copies_; }

 protected:
  // Takes the time of the op of that name: a launch, and its bytes at the memory's bandwidth.
  void do_copy(const Tensor& from, const Tensor& to) override;
  // Takes the time to fill a new tensor, where that is done; its call is part of the ops' calls.
  void taken(const Tensor& made) override;
  std::unique_ptr<Device> open_host() override;
  std::unique_ptr<HostCopy> do_start_copy(CopyWay way, const Tensor& from, const Tensor& to) override;

 private:
  class Copy;
  // The host of that device, with so many bytes.
  SimDevice(SimDevice& device, std::size_t memory_limit);
  class Table;  // in device.cpp, which is the only file that knows all ops
  template <class Op>
  friend void compute(SimDevice& device, const Op& op);
  template <class Op>
  void charge(const Op& op);
  // What a kernel of so many seconds takes on the rank that the others wait for.
  double ticks_of(double seconds) const { return whole_ticks(seconds * rows_of_fullest()); }
  void charge_unfused(const UnfusedOp& op, double takes, const Cost& cost, TimePart part, std::string_view name);
  bool in_layer() const { return memory().part().kind == ModelPart::Kind::layer; }
  void record_kernel(const char* what, double seconds, const Cost& cost, TimePart part, bool called);
  void charge_host(const Cost& cost, TimePart part, const char* name);

  std::string name_;
  std::unique_ptr<CostModel> costs_;
  SimDevice* host_of_ = nullptr;  // the device whose costs, clock and recording are this one's
  std::uint32_t copies_ = 0;
  bool in_graph_ = false;
  ActionEvents** action_events_ = nullptr;
  VirtualClock* clock_ = nullptr;
  std::unique_ptr<Table> table_;
};

// Whether a framework may run several kernels in its place: an op of that name that is neither a GEMM nor fused attention. A
// scan of a state mixer keeps the time of its GEMMs.
bool can_be_unfused(std::string_view op);

}  // namespace mbench::sim
