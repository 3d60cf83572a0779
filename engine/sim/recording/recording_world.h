// Groups of a recorded rank. What they would do to its clock is added to a recording, and nothing waits.
#pragma once
#include "engine/comm/group.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/recording/step_events.h"
#include "engine/sim/run/rank_classes.h"

namespace mbench::sim {

// Everything that the groups of one rank write to.
struct RecordedGroups {
  ActionEvents* now = nullptr;  // the recording that is written to
  std::vector<RecordedGroup> groups;
  int made = 0;  // groups, those of other ranks too
  std::uint32_t pendings = 0;
};

class RecordingWorld final : public comm::World {
 public:
  // Null `links`: nothing takes time. All must outlive it.
  RecordingWorld(int rank, const RankClasses& classes, const Links* links, RecordedGroups& recorded)
      : rank_(rank), classes_(classes), links_(links), recorded_(recorded) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(classes_.of_rank.size()); }
  std::unique_ptr<comm::Group> group(Device& device, const comm::GroupName& name,
                                     const std::vector<int>& members) override;

 private:
  int rank_;
  const RankClasses& classes_;
  const Links* links_;
  RecordedGroups& recorded_;
};

}  // namespace mbench::sim
