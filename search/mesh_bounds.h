// A lower bound of the time of every layout on a mesh, whatever its micro batch, schedule, recompute and sharding of state.
//
// A step is no shorter than the work of its samples on a stage's device stream, one after the other. Only waits within a micro batch
// count (bounds.h). The machine is idealized: no latencies, tiles, hosts or switches of algorithm.
//
// There an op's time is the maximum of figures. Some are proportional to the samples: FLOPs, bytes of activations, bytes on links. The
// others are constant: bytes of weights. So time per sample falls as the micro batch grows, and is least for one micro batch of the
// whole batch. The longest stage of a pipeline takes no less than their mean.
#pragma once
#include "search/bounds.h"

namespace mbench::search {

class MeshBounds {
 public:
  explicit MeshBounds(const sim::Machine& machine);
  // Seconds; 0 where nothing is known: no layers can be recorded, or the machine has tables of what was measured instead of figures.
  // Several threads may ask.
  double seconds(const Point& mesh) const;
  // Of all devices, above idle ones (LowerBound::busy_joules); 0 likewise.
  double busy_joules(const Point& mesh) const;

 private:
  bool known_;
  sim::Machine machine_;
  Bounds ideal_;
};

}  // namespace mbench::search
