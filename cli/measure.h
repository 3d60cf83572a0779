// The best layouts of a search, trained for real on this machine, and whether they come in the order that was simulated.
#pragma once
#include <string>

#include "engine/point/result_fwd.h"
#include "search/search.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::cli {

struct MeasuredLayouts {
  std::string text;  // a table of both, and how well their orders agree
  bool good = true;  // every layout was measured
};
// Through an ordinary sweep in the folder `out`, whose spec can be run again. `space.base` is on a simulated machine; the
// layouts run on this one's CPU where that is one, else on its GPUs.
MeasuredLayouts measure_best(const search::Space& space, const search::SearchEnd& end, std::size_t count,
                             const std::string& out, bool immediate, bool quiet, process::Interrupt& interrupt);

// How n layouts in the order of their simulated times agree with the measured times: pairs in the same order, of all pairs.
struct Agreement {
  std::size_t alike = 0, pairs = 0;
  std::size_t best_at = 0;  // where the fastest measured stands in the simulated order, from 1
};
Agreement agreement_of(const std::vector<double>& measured_ms);

}  // namespace mbench::cli
