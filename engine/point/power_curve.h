// Watts that a device of a machine to simulate draws, by what it is doing, without its host.
#pragma once

namespace mbench {

struct PowerCurve {
  double idle = 0;           // clocks up, memory held, nothing runs: it waits for its host
  double gemm = 0;           // large GEMMs and fused attention
  double memory = 0;         // ops that stream through memory
  double communication = 0;  // exposed collectives, and waiting for another device
};

}  // namespace mbench
