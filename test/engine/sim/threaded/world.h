// Groups of a simulated machine: they move no bytes, but the virtual clocks of the ranks, which meet in a network.
#pragma once
#include "engine/comm/group.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/play/clock.h"
#include "test/engine/sim/threaded/network.h"

namespace mbench {

class SimWorld final : public comm::World {
 public:
  SimWorld(int rank, int size, SimNetwork& network, const sim::Links& links, sim::VirtualClock& clock)
      : rank_(rank), size_(size), network_(network), links_(links), clock_(clock) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<comm::Group> group(Device& device, const comm::GroupName& name,
                                     const std::vector<int>& members) override;

 private:
  int rank_, size_;
  SimNetwork& network_;
  const sim::Links& links_;
  sim::VirtualClock& clock_;
  int made_ = 0;  // groups, those of other ranks too
};

}  // namespace mbench
