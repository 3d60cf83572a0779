// What training to a number of tokens takes: time, devices, money and energy, on a machine whose devices fail now and then.
//
// Closed forms. Failures of the job come at random, on average every M = (mean time between failures of a device) / devices. A
// checkpoint holds the job up for d seconds after every t seconds of work. R seconds after a failure the job is back at its last
// checkpoint; it may fail again during them. Then work of T seconds takes, on average,
//
//     M exp(R / M) (exp((t + d) / M) - 1) T / t
//
// The best t is near sqrt(2 d M) - d [Young], to which Daly's estimate adds two terms. The formula and the estimate are Daly's. What is
// not known stays unknown here.
//
//   Young: J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974.
//   Daly: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
//   Systems 22 (2006).
#pragma once
#include <cstdint>
#include <optional>

#include "reports/cost/range.h"

namespace mbench::reports {

// Facts of the step.
struct StepFacts {
  double seconds = 0, tokens = 0;  // on average, on the slowest rank; of the global batch
  std::int64_t devices = 1;
  double checkpoint_bytes = 0;   // of all ranks together: what a run goes on from
  std::optional<double> joules;  // of all devices
};

// What was asked for the run.
struct RunAsked {
  Range tokens;
  std::optional<Range> price;                 // of a device for an hour
  std::optional<Range> device_mtbf;           // seconds
  std::optional<Range> restart;               // seconds from a failure until the job works again
  std::optional<Range> checkpoint_bandwidth;  // bytes/s, of all ranks together
  std::optional<Range> watts;                 // of a device, all that it takes its share of included
};

struct RunCost {
  Range steps, work;                          // seconds of only training
  std::optional<Range> job_mtbf, checkpoint;  // seconds; of one checkpoint
  // The best interval, in seconds of work between two checkpoints. Known where failures, restarts and checkpoints all are.
  std::optional<Range> interval;
  std::optional<Range> failures;  // how many the run meets on average
  std::optional<Range> goodput;   // the share of the time that is training
  std::optional<Range> elapsed;   // seconds
  // Of `elapsed`, or without it of only the work, which is then the least.
  Range device_hours;
  std::optional<Range> money, joules;
};

RunCost cost_of(const StepFacts& step, const RunAsked& asked);

// The parts of it, all in seconds. The best interval between checkpoints of d seconds where the job fails every M on average.
double best_interval(double checkpoint, double job_mtbf);
// How long work of that many seconds takes on average.
double expected_seconds(double work, double interval, double checkpoint, double restart, double job_mtbf);

}  // namespace mbench::reports
