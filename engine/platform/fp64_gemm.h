// FP64 GEMMs outside the engine, which has no such type.
#pragma once
#include <string>

#include "engine/device/fp64_gemm.h"

namespace mbench::platform {

// What makes them on a kind of device; null where there is nothing: a simulated one. On "cuda" the GPU is the one that the calling
// thread has opened.
MakeFp64Gemm fp64_gemm_on(const std::string& kind);

}  // namespace mbench::platform
