// What came of a point. Records hold SI numbers, or MiB if their names say so. What is unknown is null ("n/a" in a table), never guessed.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/category.h"
#include "engine/base/gemm_choice.h"
#include "engine/base/time_part.h"
#include "engine/point/hosts.h"
#include "engine/point/outcome.h"
#include "engine/point/point.h"
#include "engine/point/soak.h"
#include "engine/point/statistics.h"
#include "engine/point/trainer_log.h"

namespace mbench {

struct MemoryAnatomy {  // MiB at the moment of the peak, on the rank with the highest peak
  std::array<double, kCategories> mib{};
  double operator[](Category c) const { return mib[static_cast<std::size_t>(c)]; }
};

// Tensors of one name at the moment of the peak, on the rank with the highest peak.
struct PeakTensor {
  std::string name;  // "linear output"; "all others"
  double mib = 0;
  bool operator==(const PeakTensor&) const = default;
};
// Their order in a row: the largest first, then by name.
inline bool is_before(const PeakTensor& a, const PeakTensor& b) {
  return a.mib != b.mib ? a.mib > b.mib : a.name < b.name;
}

struct TimeAnatomy {  // milliseconds of the mean step by what the slowest rank spent them on; the sum is the mean step
  TimeByPart ms{};
  double operator[](TimePart p) const { return ms[static_cast<std::size_t>(p)]; }
};

// Sizes of the collectives and messages of the mean step in MiB, on the rank whose sum is largest. Sizes are as in nccl-tests: of an
// all-gather the whole output, of a reduce-scatter the whole input, of an all-to-all or a message what the rank sends.
struct CommunicationByAxis {
  ByAxis mib{};
};

// Where a simulated step time is to be expected, in ms. It follows from published runs of the same kind: measured time over simulated time.
struct TimeInterval {
  double low = 0, high = 0;
  std::int64_t rows = 0;  // how many such runs
  std::string about;      // "dense models with megatron-core on one node"
};

struct PointResult {
  Point point;
  std::string id;
  std::int64_t world = 1;
  std::string device;
  bool simulated = false;
  Outcome outcome = Outcome::ok;
  std::string reason;  // one line; empty for ok unless there is something to say
  // For a row from another trainer's log: the program that ran it, such as "megatron-lm", and what else the log says. Empty: mbench itself.
  std::string measured_by;
  std::optional<TrainerLog> log;
  // Where it ran, with the host of rank 0 first. And the environment variables of its ranks that bear on communication and libraries, as
  // rank 0 had them. Empty if it did not run, or nothing recorded them.
  std::vector<Host> hosts;
  std::map<std::string, std::string> variables;

  // If ok; each is a line of the table in engine/point/metrics.cpp.
  std::optional<Statistics> iteration_ms;
  std::optional<TimeAnatomy> time_anatomy_ms;
  std::optional<CommunicationByAxis> communication_mib;
  std::optional<double> samples_per_s, samples_per_s_stddev, tokens_per_s;
  std::optional<double> tflops_per_device, mfu, mfu_causal, hfu, peak_tflops;
  std::string peak_source;
  std::optional<double> peak_memory_mib;
  std::vector<double> peak_memory_by_rank_mib;
  std::optional<double> last_rank_memory_mib;  // the last rank's, which is on the last stage, as some tables print it
  std::optional<MemoryAnatomy> memory_anatomy_mib;
  std::vector<PeakTensor> peak_tensors_mib;  // the largest first; empty where the data decide sizes
  std::optional<double> reserved_memory_mib, device_memory_mib;
  std::optional<double> library_memory_mib;  // workspaces and scratch outside the arena: the maximum over ranks
  // The arena in host memory, of the rank that holds most there; nothing where no rank holds any (offload none).
  std::optional<double> host_memory_mib;
  std::optional<MemoryAnatomy> host_memory_anatomy_mib;
  std::optional<double> communication_fraction, bubble_fraction;
  // On a GPU, of rank 0: the GEMMs for which measured times decided where their epilogues run.
  std::vector<GemmChoice> gemm_epilogues;
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::vector<double> auxiliary_losses;           // added to the loss that is minimised; empty where the model has none
  std::optional<std::int64_t> skipped_steps;      // fp16 steps whose gradients overflowed
  std::optional<std::int64_t> parameters;         // trained
  std::optional<std::int64_t> frozen_parameters;  // where there are adapters
  // Tokens of the fullest expert over the mean, where the data decide (router learned): the mean over layers and micro batches.
  std::optional<double> expert_imbalance;
  // What sensors reported during the measured steps: means over these steps and over the ranks' devices.
  std::optional<double> power_w, utilization, clock_mhz;
  std::string throttle_reasons;  // what held clocks down, in nvidia-smi's words, or "none"; empty: unknown
  std::string device_faults;     // that devices reported in the measured steps: "Xid 79 on rank 3 after 80 min"
  // On a CPU: the share of the measured time in which each rank's main thread had a core.
  std::vector<double> cpu_share_by_rank;
  // Of a run that took turns with another (mbench sweep --take-turns): the steps of a turn. For every measured step, the CPU time of the
  // ranks' main threads, on average. CPU time passes while a rank computes or polls, but not while it waits for a core.
  std::optional<std::int64_t> turn_steps;
  std::vector<double> turn_cpu_ms;
  // Of each rank, the median of its own steps, with the time that it waits for others.
  std::vector<double> step_ms_by_rank;
  // Of each rank, the time of its measured steps outside collectives, messages and waiting for them. It is the step less communication and
  // bubble, by the clocks of `communication_fraction`. A rank that is slow by itself is long here. One that waits for it is not.
  std::vector<StepParts> compute_ms_by_rank;
  // Of a point that did not run to its end: the steps that it had measured, as its rank 0 saw them. Also the losses of those steps and of
  // the warm-up.
  std::vector<double> partial_ms, partial_losses;
  std::optional<TimeInterval> iteration_ms_interval;  // of a simulated step
  // Of a step, all devices together; on CPUs, of all sockets of the hosts. `energy_source`: what counted it, or why it is unknown.
  std::optional<double> energy_joules, tokens_per_joule;
  std::string energy_source;
  // Of a soak: its windows of time. In that case the samples of iteration_ms are the windows' medians. Its other figures are of all steps.
  // Losses and norms are of as many steps as a run without a soak has.
  std::optional<Soak> soak;
};

// The row of a point that did not run to its end: its outcome, and why.
PointResult not_run(const Point& point, Outcome outcome, const std::string& reason);

nlohmann::ordered_json result_to_json(const PointResult& result);
PointResult result_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace mbench
