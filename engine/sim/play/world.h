// Groups of a simulated machine: they move no bytes, but the virtual clocks of the ranks. Without a network every call has its declared
// size and no effect. So one process can stand for any rank of any layout, to count what it would allocate.
#pragma once
#include "engine/comm/group.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/play/clock.h"
#include "engine/sim/play/network.h"

namespace mbench {

class SimWorld final : public World {
 public:
  SimWorld(int rank, int size) : rank_(rank), size_(size) {}
  SimWorld(int rank, int size, SimNetwork& network, const Links& links, VirtualClock& clock)
      : rank_(rank), size_(size), network_(&network), links_(&links), clock_(&clock) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) override;

 private:
  int rank_, size_;
  SimNetwork* network_ = nullptr;
  const Links* links_ = nullptr;
  VirtualClock* clock_ = nullptr;
  int made_ = 0;  // groups, those of other ranks too
};

}  // namespace mbench
