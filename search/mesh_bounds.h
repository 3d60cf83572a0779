// A floor under the time of every layout on a mesh, whatever its micro batch, schedule, recompute and sharding of state.
//
// A step is no shorter than what its samples take the device's stream of a stage, one after the other, nothing waited for but what a
// micro batch meets itself (bounds.h). On a machine without latencies, tiles, hosts and switches of algorithm an op takes the most
// of figures that grow evenly with the samples (FLOPs, bytes of activations, bytes on links) or not at all (bytes of weights). So the
// larger a micro batch is the less it takes a sample, and none takes less a sample than one of the whole batch. Of a pipeline's stages the
// longest takes no less than the mean of them.
#pragma once
#include "search/bounds.h"

namespace mbench::search {

class MeshBounds {
 public:
  explicit MeshBounds(const Machine& machine);
  // Seconds; 0 where nothing is known: no layers can be recorded, or the machine has tables of what was measured instead of figures.
  // Several threads may ask.
  double seconds(const Point& mesh) const;
  // Of all devices, above idle ones (LowerBound::busy_joules); 0 likewise.
  double busy_joules(const Point& mesh) const;

 private:
  bool known_;
  Machine machine_;
  Bounds ideal_;
};

}  // namespace mbench::search
