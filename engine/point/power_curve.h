// Watts that a device of a machine to simulate draws, by what it is doing, without its host.
#pragma once
#include "engine/base/time_part.h"

namespace mbench {

struct PowerCurve {
  double idle = 0;           // clocks up, memory held, nothing runs: it waits for its host
  double gemm = 0;           // large GEMMs and fused attention
  double memory = 0;         // ops that stream through memory
  double communication = 0;  // exposed collectives, and waiting for another device
};

// What it draws in a part of a step.
constexpr double watts_of(TimePart part, const PowerCurve& watts) {
  switch (part) {
    case TimePart::gemms:
    case TimePart::attention:
      return watts.gemm;
    case TimePart::elementwise:
    case TimePart::optimizer:
    case TimePart::copies:
      return watts.memory;
    case TimePart::host:
      return watts.idle;
    case TimePart::bubble:  // a kernel waits for the message
    case TimePart::communication_tp:
    case TimePart::communication_cp:
    case TimePart::communication_dp:
    case TimePart::communication_ep:
    case TimePart::communication_pp:
    case TimePart::communication_other:
      break;
  }
  return watts.communication;
}

}  // namespace mbench
