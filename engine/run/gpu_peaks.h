// Dense peaks of GPUs by the name that CUDA gives them: the denominator of MFU. Each is from a datasheet, with its source. A GPU or
// precision that is not listed has no peak, and its MFU is n/a.
#pragma once
#include <optional>
#include <string>

#include "engine/point/choices.h"

namespace mbench {

struct Peak {
  double flops = 0;  // per second
  std::string source;
};

std::optional<Peak> gpu_peak(const std::string& name, Precision precision);

}  // namespace mbench
