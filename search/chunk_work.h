// What a micro batch takes of the chunks of a layout, put together from the layers and ends of recorded small models.
#pragma once
#include <array>

#include "engine/plan/plan.h"
#include "engine/point/point.h"
#include "search/recorded_stage.h"
#include "search/small_model.h"

namespace mbench::search {

// A layer, and the ends of the model. `first`: the embedding. `last`: the head. `both`: both ends in one stage. Such a stage does its
// fixed work for a micro batch once, and has a table shared by embedding and logits once.
template <class T>
struct Parts {
  T layer{}, first{}, last{}, both{};
  const T& end_of(const ChunkPlan& c) const { return c.first && c.last ? both : c.first ? first : last; }
};
struct Work {
  Busy forward, backward;
};

// What a micro batch takes of each chunk. `work`: of its layers of each kind; null where the model has none. The first kind's has the ends.
struct ChunkWork {
  const Point& point;
  std::size_t first = 0;  // the first kind
  std::array<const Parts<Work>*, kLayerKinds> work{};

  Busy of(const ChunkPlan& c, Busy Work::*way) const {
    Busy busy;
    const auto count = kinds_of(point, c);
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (work[k]) busy = busy + work[k]->layer.*way * count[k];
    return has_known_end(point, c) ? busy + work[first]->end_of(c).*way : busy;
  }
  Busy both_ways(const ChunkPlan& c) const { return of(c, &Work::forward) + of(c, &Work::backward); }
};

}  // namespace mbench::search
