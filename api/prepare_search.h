// How the commands and the library begin a search.
#pragma once
#include "api/memory_margin.h"
#include "api/point_simulator.h"
#include "engine/point/result_fwd.h"
#include "search/search.h"

namespace mbench::api {

// The space of a search, limited to what its framework supports, and the machine to search on. `simulator` and `recordings` outlive it.
struct PreparedSearch {
  search::Space space;
  MemoryMargin margin;
  search::SearchTarget place;
};
// `margin` as --memory-margin. Throws bad_input for a space, machine or framework that cannot be read.
PreparedSearch prepare_search(const search::SpaceOptions& options, const std::string& margin, PointSimulator& simulator,
                              sim::Recordings& recordings);

// The best and the front, each layout once, best first, with the interval of each time.
ResultFile result_file_of(const search::Space& space, const search::SearchEnd& end, const sim::Machine& machine);

}  // namespace mbench::api
