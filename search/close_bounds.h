// Closer lower bounds than those of bounds.h, for the layouts that these leave undecided.
//
// The engine's code is recorded with all that the layout asks for, sharding and offload of state too. The recorded models have one to
// four layers a stage, in as many stages as give them both ends and a middle. From these follow the figures of a chunk of any number of
// layers.
//
//   - The time that each action on a micro batch takes without waiting.
//   - The memory that it keeps, and its peak.
//   - The work after the last micro batch: reducing gradients, the optimizer.
//
// Then the bounds are
//
//   time    of each stage: the first micro batch comes to it through the stages before; then all its actions with their messages,
//           unless these travel while it computes.
//           Last comes what remains: here, or in the first stage once the last micro batch is back, whichever ends later.
//           Where the schedule splits backward, and gradients are not sharded: what it takes when it is played with these actions
//           (played_schedule.h).
//   memory  of the stages that may be the fullest: state, what the first step leaves to later ones, and the peak of the schedule's
//           first actions.
//
// A recording serves all schedules, or all of those that split backward, all numbers of layers, and all numbers of stages that have the
// same peers. A rank waits only for its own work. Each layer beyond four takes as much as the third or the fourth added, whichever is
// less. All is then lowered by 0.2 %. That rule fails where gradients of several layers are reduced together, or whole parameters have
// owners. What depends on it is left out there.
#pragma once
#include <memory>

#include "search/bounds.h"

namespace mbench::search {

class CloseBounds {
 public:
  // `bounds` must outlive it.
  CloseBounds(const sim::Machine& machine, const Bounds& bounds);
  ~CloseBounds();
  // No less than `lower_bound`, which `bounds` gave. Equal to it where no recordable layers stand for the layout's. Several threads may
  // call it.
  LowerBound lower_bound(const Point& point, const LowerBound& lower_bound) const;

  // Parts of its seconds that need fewer recordings, the cheapest first. Each raises those of a lower bound, and says whether it did.
  //
  //   0  Seconds that the ranks which share state are busy with it: the busiest group, or direction of copies. Each micro batch gathers
  //      every layer's weights or reduces their gradients, and a group does one thing at a time. One sample, nothing recomputed.
  //
  //   1  Seconds of the actions on micro batches, as if all state were whole on the device. Layouts that differ only in that share it.
  //   2  Likewise with weights sharded as they are, and only of the chunks without an end of the model.
  //   3  Likewise of all chunks.
  static constexpr int kParts = 4;
  bool raise(int part, const Point& point, LowerBound& lower_bound) const;

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace mbench::search
