#include "engine/run/gpu_peaks.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace mbench {
namespace {

// TFLOP/s, 0 where the GPU has no such arithmetic or its datasheet does not say. f32 of the ordinary cores,
// 16 bit of the tensor cores with f32 accumulation. `sparse`: the datasheet's tensor figures are with
// sparsity, here halved.
struct Row {
  std::string_view name;  // exactly as CUDA says it
  double f32, tf32, bf16, fp16, fp8;
  bool sparse;
  std::string_view datasheet;
};

constexpr std::array kRows = {
    Row{"NVIDIA H200", 67, 494.5, 989.5, 989.5, 1979, true, "NVIDIA H200 datasheet (SXM)"},
    Row{"NVIDIA H200 NVL", 60, 417.5, 835.5, 835.5, 1670.5, true, "NVIDIA H200 datasheet (NVL)"},
    Row{"NVIDIA H100 80GB HBM3", 67, 494.5, 989.5, 989.5, 1979, true, "NVIDIA H100 datasheet (SXM)"},
    Row{"NVIDIA H100 NVL", 60, 417.5, 835.5, 835.5, 1670.5, true, "NVIDIA H100 datasheet (NVL)"},
    Row{"NVIDIA H100 PCIe", 51, 378, 756.5, 756.5, 1513, true, "NVIDIA H100 PCIe datasheet"},
    Row{"NVIDIA A100-SXM4-80GB", 19.5, 156, 312, 312, 0, false, "NVIDIA A100 datasheet"},
    Row{"NVIDIA A100-SXM4-40GB", 19.5, 156, 312, 312, 0, false, "NVIDIA A100 datasheet"},
    Row{"NVIDIA A100 80GB PCIe", 19.5, 156, 312, 312, 0, false, "NVIDIA A100 datasheet"},
    Row{"NVIDIA A100-PCIE-40GB", 19.5, 156, 312, 312, 0, false, "NVIDIA A100 datasheet"},
    Row{"NVIDIA L40S", 91.6, 183, 362, 362, 733, false, "NVIDIA L40S datasheet"},
    Row{"Tesla V100-SXM2-16GB", 15.7, 0, 0, 125, 0, false, "NVIDIA V100 datasheet (SXM2)"},
    Row{"Tesla V100-SXM2-32GB", 15.7, 0, 0, 125, 0, false, "NVIDIA V100 datasheet (SXM2)"},
    Row{"Tesla V100-PCIE-16GB", 14, 0, 0, 112, 0, false, "NVIDIA V100 datasheet (PCIe)"},
    Row{"Tesla V100-PCIE-32GB", 14, 0, 0, 112, 0, false, "NVIDIA V100 datasheet (PCIe)"},
    Row{"NVIDIA TITAN RTX", 16.3, 0, 0, 130.5, 0, false, "NVIDIA Turing architecture whitepaper (TITAN RTX)"},
    Row{"TITAN RTX", 16.3, 0, 0, 130.5, 0, false, "NVIDIA Turing architecture whitepaper (TITAN RTX)"},
    Row{"Tesla T4", 8.1, 0, 0, 65, 0, false, "NVIDIA T4 datasheet"},
};

double figure(const Row& row, Precision precision) {
  switch (precision) {
    case Precision::f32:
      return row.f32;
    case Precision::tf32:
      return row.tf32;
    case Precision::bf16:
      return row.bf16;
    case Precision::fp16:
      return row.fp16;
    case Precision::fp8:
      return row.fp8;
  }
  return 0;
}

}  // namespace

std::optional<Peak> gpu_peak(const std::string& name, Precision precision) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    const double tflops = figure(row, precision);
    if (tflops <= 0) return std::nullopt;
    const bool halved = row.sparse && precision != Precision::f32;
    return Peak{tflops * 1e12, fmt::format("{}: {} {} TFLOPS dense{}", row.datasheet, name_of(precision),
                                           tflops, halved ? ", half of the figure with sparsity" : "")};
  }
  return std::nullopt;
}

}  // namespace mbench
