#include "engine/sim/run/counting.h"

#include <algorithm>

#include "engine/sim/cost/device.h"
#include "engine/sim/play/replay.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/recording/recorder.h"
#include "engine/train/trainer.h"

namespace mbench::sim {
namespace {

// Counts alone.
class LoneGroup final : public comm::Group {
 public:
  using comm::Group::Group;

 protected:
  void do_run(const comm::Collective&) override {}
  void do_barrier() override {}
  double do_host_max(double value) override { return value; }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int) override {
    return std::vector<Bytes>(static_cast<std::size_t>(size()), Bytes(mine.begin(), mine.end()));
  }
};

class LoneWorld final : public comm::World {
 public:
  LoneWorld(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<comm::Group> group(Device& device, const comm::GroupName& name,
                                     const std::vector<int>& members) override {
    if (members.empty()) return nullptr;
    const auto me = std::find(members.begin(), members.end(), rank_);
    check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name.text);
    return std::make_unique<LoneGroup>(device, name, static_cast<int>(me - members.begin()),
                                       static_cast<int>(members.size()));
  }

 private:
  int rank_, size_;
};

}  // namespace

std::unique_ptr<Device> open_counting_device(std::size_t memory_limit) {
  return std::make_unique<SimDevice>(memory_limit);
}

std::unique_ptr<comm::World> lone_world(int rank, int size) {
  return std::make_unique<LoneWorld>(rank, size);
}

MemoryUse count_state(const Plan& plan, int stage) {
  const auto device = open_counting_device(0);
  const int world = plan.mesh.world();
  const auto lone = lone_world(stage * (world / plan.mesh.size(Axis::pp)), world);
  const train::Trainer trainer(plan, *device, *lone, nullptr);
  return device->memory().in_use();
}

void MemoryForecast::add(const MemoryUse& peak, std::size_t reserved, int ranks, double flops,
                         std::uint64_t step_launches) {
  peak_by_stage.push_back(peak);
  reserved_by_stage.push_back(reserved);
  total_reserved += reserved * static_cast<std::size_t>(ranks);
  matmul_flops += flops * ranks;
  launches = std::max(launches, step_launches);
}

MemoryForecast forecast_memory(const Plan& plan, std::size_t memory_limit) {
  const Recording recording = record(plan, 0, nullptr, nullptr);
  const auto memory = replay_memory(plan, recording, memory_limit);
  for (const ReplayedMemory& m : memory)
    if (m.full) std::rethrow_exception(m.full);
  const auto times = replay_time(plan, recording, HostTimes(), nullptr);
  MemoryForecast forecast;
  std::vector<ReplayedMemory> host;
  if (uses_host(plan)) host = replay_host_memory(plan, recording);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!host.empty()) forecast.add_host(host[i].peak, host[i].reserved);
    forecast.add(memory[i].peak, memory[i].reserved, recording.classes.classes[i].ranks, times[i].matmul_flops,
                 times[i].launches);
  }
  return forecast;
}

}  // namespace mbench::sim
