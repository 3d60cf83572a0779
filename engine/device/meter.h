// Counts what was executed on a device: FLOPs, bytes moved by kernels, bytes and seconds of communication.
// The metrics come from here; the closed formulas are what the tests compare them with.
#pragma once
#include <cstdint>

#include "engine/base/time_part.h"

namespace mbench {

// What one op costs on any device: arithmetic, and bytes that must cross the memory bus at least once.
struct Cost {
  double flops = 0;
  double bytes = 0;
  bool matmul = false;  // runs on the matrix units and counts towards hfu
  double epilogue = 0;  // the part of flops in a GEMM's epilogue, which does not count towards hfu
};

struct Meter {
  double flops = 0;         // of every op
  double matmul_flops = 0;  // of GEMMs without their epilogues, recompute included
  double bytes = 0;
  std::uint64_t launches = 0;
  ByAxis communication_bytes{};      // of collectives and messages: sizes as CommunicationByAxis has them
  double host_copy_bytes = 0;        // between the device's memory and its host's, both ways
  double communication_seconds = 0;  // host time spent in collectives
  double bubble_seconds = 0;         // host time a pipeline stage waited for its neighbours' messages
  // By what it was spent on. Ops of a stream are in it only while a trace is taken. A real device has no `host` in it:
  // that is what is left of a step.
  TimeByPart seconds{};
  void charge(const Cost& c) {
    flops += c.flops;
    if (c.matmul) matmul_flops += c.flops - c.epilogue;
    bytes += c.bytes;
    ++launches;
  }
  void add(const Meter& m) {
    flops += m.flops;
    matmul_flops += m.matmul_flops;
    bytes += m.bytes;
    launches += m.launches;
    for (std::size_t i = 0; i < communication_bytes.size(); ++i) communication_bytes[i] += m.communication_bytes[i];
    host_copy_bytes += m.host_copy_bytes;
    communication_seconds += m.communication_seconds;
    bubble_seconds += m.bubble_seconds;
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += m.seconds[i];
  }
  void reset() { *this = Meter(); }
  // What was counted since `before`, without seconds.
  Meter since(const Meter& before) const {
    Meter more;
    more.flops = flops - before.flops;
    more.matmul_flops = matmul_flops - before.matmul_flops;
    more.bytes = bytes - before.bytes;
    more.launches = launches - before.launches;
    for (std::size_t i = 0; i < communication_bytes.size(); ++i)
      more.communication_bytes[i] = communication_bytes[i] - before.communication_bytes[i];
    more.host_copy_bytes = host_copy_bytes - before.host_copy_bytes;
    return more;
  }
};

}  // namespace mbench
