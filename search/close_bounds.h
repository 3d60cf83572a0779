// Closer floors than those of bounds.h, for the layouts that these leave undecided.
//
// The engine's code is recorded with all that the layout asks for, how state is sharded and where it lives too, on models of one to
// four layers a stage, in as many stages as have ends and a middle. What the actions on a micro batch take alone follows for a
// chunk of so many layers, what they keep and have at most, and what is left to do behind the last of them: reducing gradients,
// the optimizer. Then
//
//   time    of each stage: the first micro batch comes to it through those before it; all its actions, messages in; and what is
//           left to do then, here, or behind the last micro batch's way back in the first stage.
//   memory  of the stages that may be the fullest: state, what the first step leaves to later ones, and what the actions of the
//           schedule's beginning take and give back in turn.
//
// A recording serves all schedules, all numbers of stages that have the same peers, and of layers. Nothing is waited for but what a
// rank does itself. More layers than four take as much more for each as the third or the fourth did, whichever is less, and all is
// taken 0.2 % lower. Where gradients of several layers are reduced together, or whole parameters have owners, that is no rule, and what depends on it is left out.
#pragma once
#include <memory>

#include "search/bounds.h"

namespace mbench::search {

class CloseBounds {
 public:
  // `bounds` must outlive it.
  CloseBounds(const Machine& machine, const Bounds& bounds);
  ~CloseBounds();
  // No less than `floor`, which is that of `bounds`; equal to it where no layers can be recorded that stand for the layout's. Several
  // threads may ask.
  LowerBound lower_bound(const Point& point, const LowerBound& lower_bound) const;

  // Two parts of it that are told by fewer recordings.
  // Seconds that the ranks that share state are busy with it, one group or way of copies: each micro batch gathers every layer's
  // weights, or reduces their gradients, and a group does one thing at a time. From recordings of one sample without what is recomputed;
  // 0 where micro batches leave state where it is.
  double traffic(const Point& point) const;
  // Seconds of the actions on micro batches, as if all state were on the device, and whole where weights are: layouts that differ in
  // that alone have it in common.
  double actions(const Point& point) const;

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace mbench::search
