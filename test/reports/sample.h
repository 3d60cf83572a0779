// Results made in memory for the tests of reports.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_file.h"

namespace mbench::reports::sample {

inline nlohmann::ordered_json environment() {
  return {{"host", "node01"},          {"cpu", "AMD EPYC 7742"},   {"cores", 64},
          {"memory_bytes", 540e9},     {"device", "V100 x 8"},     {"mpi", "Open MPI 4.1.4"},
          {"blas", "OpenBLAS 0.3"},    {"compiler", "gcc 12.2"},   {"git_revision", "abc1234"},
          {"mbench_version", "0.1.0"}, {"flop_formula_version", 1}};
}

inline PointResult point(std::int64_t tp, std::int64_t pp, std::int64_t seq, const std::string& strategy) {
  PointResult r;
  r.point.model = find_preset("gpt2-345m", "test");
  r.point.tp = tp;
  r.point.pp = pp;
  r.point.seq = seq;
  r.point.strategy = strategy;
  r.point.sequence_parallel = strategy.find("sequence_parallel") != std::string::npos;
  if (strategy.find("selective") != std::string::npos) r.point.recompute = Recompute::selective;
  if (strategy == "full") r.point.recompute = Recompute::full;
  r.point.micro_batch = 4;
  r.point.global_batch = 16;
  r.point.precision = Precision::fp16;
  r.id = point_id(r.point);
  r.world = r.point.world();
  r.device = "cuda";
  r.point.device = "cuda";
  return r;
}

inline PointResult measured(PointResult r, std::vector<double> samples, double memory) {
  r.iteration_ms = statistics_of(std::move(samples));
  r.samples_per_s = 16000 / r.iteration_ms->mean;
  r.samples_per_s_stddev = *r.samples_per_s * r.iteration_ms->stddev / r.iteration_ms->mean;
  r.tokens_per_s = *r.samples_per_s * static_cast<double>(r.point.seq);
  r.tflops_per_device = 20000 / r.iteration_ms->mean;
  r.peak_tflops = 125;
  r.peak_source = "data sheet";
  r.mfu = *r.tflops_per_device / 125;
  r.peak_memory_mib = memory;
  r.peak_memory_by_rank_mib.assign(static_cast<std::size_t>(r.world), memory);
  r.memory_anatomy_mib = MemoryAnatomy{memory * .2, memory * .1, memory * .2, memory * .4, memory * .06, memory * .04};
  r.reserved_memory_mib = memory * 1.1;
  const double ms = r.iteration_ms->mean;
  r.time_anatomy_ms = TimeAnatomy{
      {ms * .5, ms * .1, ms * .1, ms * .02, ms * .03, ms * .05, ms * .05, ms * .1, 0, ms * .04, 0, ms * .01, 0}};
  r.losses = {10.8321, 10.4112, 9.9034};
  return r;
}

inline PointResult failed(PointResult r, Outcome outcome, std::string reason) {
  r.outcome = outcome;
  r.reason = std::move(reason);
  return r;
}

// Two layouts, two sequence lengths, the five strategies. Times and memory are as published for GPT-2 345M on 8 V100, but one point ran
// out of memory and one crashed.
inline ResultFile strategies() {
  ResultFile file;
  file.environment = environment();
  file.spec = {{"name", "gpt345m"},
               {"model", "gpt2-345m"},
               {"sweep",
                {{"tp,pp", {{4, 2}, {8, 1}}},
                 {"seq", {512, 2048}},
                 {"strategy", {"baseline", "sequence_parallel", "selective", "sequence_parallel+selective", "full"}}}}};
  const char* names[] = {"baseline", "sequence_parallel", "selective", "sequence_parallel+selective", "full"};
  const double times[2][2][5] = {{{288, 340, 336, 392, 412}, {527, 520, 612, 604, 721}},
                                 {{456, 538, 537, 626, 658}, {523, 558, 586, 646, 710}}};
  const double memory[2][2][5] = {{{2113, 1740, 1631, 1258, 1107}, {11862, 10382, 4450, 3005, 2161}},
                                  {{1711, 1280, 1229, 798, 753}, {7669, 5949, 3829, 2109, 1710}}};
  for (int layout = 0; layout < 2; ++layout)
    for (int seq = 0; seq < 2; ++seq)
      for (int s = 0; s < 5; ++s) {
        PointResult r = point(layout ? 8 : 4, layout ? 1 : 2, seq ? 2048 : 512, names[s]);
        const double t = times[layout][seq][s];
        if (layout == 0 && seq == 1 && s == 1)
          r = failed(r, Outcome::oom,
                     "rank 2: attention.scores needs 512.00 MiB of activations, 84.00 MiB | 31.75 GiB are free");
        else if (layout == 1 && seq == 1 && s == 4)
          r = failed(r, Outcome::crashed, "rank 5 ended by signal 11 <SIGSEGV>");
        else
          r = measured(r, {t - 2, t - 1, t, t, t + 1, t + 2}, memory[layout][seq][s]);
        file.points.push_back(r);
      }
  return file;
}

}  // namespace mbench::reports::sample
