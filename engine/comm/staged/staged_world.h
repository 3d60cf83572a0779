// Groups of devices whose memory the ranks' messages cannot reach: every message goes through host memory, over the
// groups of another world. Slow, but correct anywhere: for ranks that share a GPU.
#pragma once
#include "engine/comm/group.h"

namespace mbench::comm {

class StagedWorld final : public World {
 public:
  // `host` moves tensors of `host_device`, whose addresses are host memory. Both must outlive the groups.
  StagedWorld(World& host, Device& host_device) : host_(host), host_device_(host_device) {}
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) override;

 private:
  World& host_;
  Device& host_device_;
};

}  // namespace mbench::comm
