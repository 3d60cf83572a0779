// Groups without peers: every call has its declared size and no effect. One process can so stand for any rank
// of any layout, to count what the rank would allocate and compute.
#pragma once
#include "engine/comm/group.h"

namespace mbench {

class SimWorld final : public World {
 public:
  SimWorld(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Group> group(Device& device, const std::string& name,
                               const std::vector<int>& members) override;

 private:
  int rank_, size_;
};

}  // namespace mbench
