// The library: what a training step of a transformer costs, from a spec, without running it.
//
//   #include <mbench/mbench.h>
//   const mbench::Spec spec = mbench::parse_spec(R"({"model": "llama-3-8b", "tp": 8, "seq": 8192, "global_batch": 128})");
//   mbench::Simulator h100("8xH100-SXM5-80GB", {.framework = "megatron-core"});
//   const mbench::Result row = h100.simulate(spec);    // row.metric("iteration_ms"), row.metric("mfu"), row.memory_mib()
//
// Units stand in the names: _ms, _mib (2^20 bytes), _s. Fractions are of 1. Unknown is nothing, never 0. What is wrong is an Error.
#pragma once
#include "error.h"
#include "plan.h"
#include "result.h"
#include "simulator.h"
#include "spec.h"

namespace mbench {

/// "0.2.0". Before 1.0.0 a minor version may change names; a patch may not.
MBENCH_EXPORT std::string version();

}  // namespace mbench
