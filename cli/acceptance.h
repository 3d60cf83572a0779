// What an acceptance of a machine has found, and its verdict: PASS, or FAIL with reasons. Data, and its JSON and page.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "health/figures.h"

namespace mbench::cli {

struct AcceptedStep {
  std::string label;
  PointResult measured;
  std::optional<PointResult> simulated;
};

struct Acceptance {
  std::string spec, machine, started;
  double peers = 0.1,
         data_sheet = 0.15;  // how much worse something may be than its peers; than the machine's file or a simulation
  int ranks = 1, repeat = 3;
  std::string soak;              // as it was asked for; empty: none
  health::Health before, after;  // checks before and after training
  std::vector<AcceptedStep> steps;
  std::vector<std::string> gates;  // of the spec, that failed: "iteration_ms 29210 is more than 28000 (tp 8)"
};

// One figure and its expected value.
struct Compared {
  std::string what, measured, reference;
  double share = 0;  // by how much less it does in a time; negative: more
  double allowed = 0;
  bool rate = true;  // else a time
  bool failed() const { return share > allowed; }
};
// Each figure of each rank or group in both checks, and each step, the worst first by share over allowed.
std::vector<Compared> compared(const Acceptance& a);

// Why the machine is not accepted, a line each; empty: it passes. Reasons are figures that stand out, wrong data, faults of devices,
// points that did not run, and gates of the spec that failed. Others are steps slower than simulated, stragglers, and drift and dips of a soak.
std::vector<std::string> reasons_to_fail(const Acceptance& a);

// {"schema": "mbench.accept/1", "verdict", "reasons", "worst", "steps", ...}
nlohmann::ordered_json acceptance_to_json(const Acceptance& a);
// One page: the verdict, the worst five, the steps, the figures, hosts and devices, what was measured.
std::string acceptance_page(const Acceptance& a);

}  // namespace mbench::cli
