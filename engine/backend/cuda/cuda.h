// What the rest of the engine sees of CUDA. Every binary has these functions. In a binary built without CUDA (no toolkit was found),
// stub.cpp answers.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/fp64_gemm.h"
#include "engine/device/gpu.h"
#include "engine/device/stream_device.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

struct DeviceOptions {
  int ordinal = 0;
  std::size_t memory_limit = 0;                   // bytes; 0: what the GPU has
  std::string note;                               // added to the device's name, such as how it is shared
  std::function<std::unique_ptr<Gauge>()> gauge;  // reads the sensors of this GPU; empty: none can be read
  // For offloaded tensors: memory of the host, and the host's processor as a device on memory that it is given. Empty: nothing can be
  // offloaded.
  std::function<std::unique_ptr<RawMemory>()> host_memory;
  std::function<std::unique_ptr<Device>(std::unique_ptr<RawMemory>)> host_device;
  bool tf32 = false;  // f32 GEMMs round their operands to TF32, for the tensor cores
};

// Whether this binary can use CUDA at all.
bool built_in();
// The GPUs of this process; empty where there is none. Throws unsupported if the binary has no CUDA.
std::vector<Gpu> gpus();
// Why gpus() is empty: no driver, no GPU.
std::string why_none();
// "CUDA 13.0, driver 13.0, cuBLASLt 13.0.2, cuDNN 9.19.0": what is loaded. Empty if the binary has no CUDA.
std::string libraries();
// Why attention "flash" cannot run; nothing where it can. It covers the limits of cuDNN's fused attention that the CPU's does not have. The
// same in every binary.
inline std::optional<std::string> why_no_flash(bool f32, double dropout) {
  if (f32)
    return "attention flash in f32 on a GPU is not built into this binary, need precision bf16 or fp16, or "
           "attention core";
  if (dropout > 0)
    return fmt::format(
        "attention flash on a GPU with dropout {}, need dropout 0 or attention core. cuDNN draws masks of its own; a "
        "mask here is the same on every device and layout",
        dropout);
  return std::nullopt;
}
// Why GEMMs of 8 or 4 bits cannot run on a GPU of that compute capability (90: 9.0), with such scales.
inline std::optional<std::string> why_no_fp8(int capability, ops::Fp8Blocks by) {
  const auto need = [&](std::string_view what, std::string_view least, std::string_view instead) {
    return fmt::format("{} on a GPU of compute capability {}.{}, need {}, or {}", what, capability / 10,
                       capability % 10, least, instead);
  };
  if (of_nvfp4(by)) {
    if (capability >= 100) return std::nullopt;
    return need("precision nvfp4", "10.0 or more", "precision bf16");
  }
  if (capability < 89) return need("precision fp8", "8.9 or more", "precision bf16");
  switch (by) {
    case ops::Fp8Blocks::whole_rows:
      if (capability == 90) return std::nullopt;
      return need("fp8_recipe rowwise", "9.0, for which cuBLASLt has scales of rows", "fp8_recipe tensorwise");
    case ops::Fp8Blocks::rows:
    case ops::Fp8Blocks::squares:
      if (capability == 90) return std::nullopt;
      return need("fp8_recipe blockwise", "9.0, for which cuBLASLt has scales of blocks", "fp8_recipe tensorwise");
    case ops::Fp8Blocks::mx:
      if (capability >= 100) return std::nullopt;
      return need("fp8_recipe mxfp8", "10.0 or more, for which cuBLASLt has MX's scales", "fp8_recipe tensorwise");
    default:
      return std::nullopt;
  }
}
// Throws unsupported, saying what is missing, if there is no such GPU or this binary has no CUDA.
std::unique_ptr<StreamDevice> open_device(const DeviceOptions& options);
// On the GPU that this thread has opened.
Fp64Gemm fp64_gemm(std::int64_t n, double value);

}  // namespace mbench::cuda
