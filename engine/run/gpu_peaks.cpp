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
  double nvfp4 = 0;  // dense, whatever `sparse` says
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
    Row{"NVIDIA B300 SXM6 AC", 75, 1125, 2250, 2250, 4500, true, "NVIDIA HGX B300 datasheet", 13500},
    Row{"NVIDIA B200", 80, 1100, 2250, 2250, 4500, true, "NVIDIA HGX B200 datasheet", 9000},
    Row{"NVIDIA GB300", 80, 1250, 2500, 2500, 5000, true, "NVIDIA GB300 NVL72 datasheet", 15000},
    Row{"NVIDIA GB200", 80, 1250, 2500, 2500, 5000, true, "NVIDIA GB200 NVL72 datasheet", 10000},
    Row{"NVIDIA GH200 480GB", 67, 494.5, 989.5, 989.5, 1979, true, "NVIDIA GH200 datasheet"},
    Row{"NVIDIA GH200 144G HBM3e", 67, 494.5, 989.5, 989.5, 1979, true, "NVIDIA GH200 datasheet"},
    Row{"NVIDIA H20", 44, 74, 148, 148, 296, false, "NVIDIA H20 datasheet"},
    Row{"NVIDIA A800-SXM4-80GB", 19.5, 156, 312, 312, 0, false, "NVIDIA A800 datasheet"},
    Row{"NVIDIA L4", 30.3, 60, 121, 121, 242.5, true, "NVIDIA L4 datasheet"},
    Row{"NVIDIA L20", 59.8, 59.8, 119.5, 119.5, 239, false, "NVIDIA L20 datasheet"},
    Row{"NVIDIA A10G", 35, 35, 70, 70, 0, false, "NVIDIA A10G datasheet"},
    Row{"NVIDIA GeForce RTX 3090", 35.6, 35.6, 71, 71, 0, false, "NVIDIA Ampere GA102 whitepaper (RTX 3090)"},
    Row{"NVIDIA GeForce RTX 4090", 82.6, 82.6, 165.2, 165.2, 330.3, false,
        "NVIDIA Ada architecture whitepaper (RTX 4090)"},
    Row{"NVIDIA GeForce RTX 5090", 104.8, 104.8, 209.5, 209.5, 838, false,
        "NVIDIA RTX Blackwell architecture whitepaper (RTX 5090)"},
    Row{"NVIDIA RTX A6000", 38.7, 77.4, 154.8, 154.8, 0, true, "NVIDIA RTX A6000 datasheet"},
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
    case Precision::nvfp4:
      return row.nvfp4;
  }
  return 0;
}

}  // namespace

std::optional<Peak> gpu_peak(const std::string& name, Precision precision) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    const double tflops = figure(row, precision);
    if (tflops <= 0) return std::nullopt;
    const bool halved = row.sparse && precision != Precision::f32 && precision != Precision::nvfp4;
    return Peak{tflops * 1e12, fmt::format("{}: {} {} TFLOPS dense{}", row.datasheet, name_of(precision), tflops,
                                           halved ? ", half of the figure with sparsity" : "")};
  }
  return std::nullopt;
}

}  // namespace mbench
