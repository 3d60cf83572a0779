// The peaks that measured MFU is held against are those of the machine files, by the names that CUDA gives
// the GPUs.
#include "engine/run/gpu_peaks.h"

#include "engine/sim/machine/machine.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

TEST_CASE("peaks of GPUs are those of the machines to simulate") {
  const std::pair<const char*, const char*> pairs[] = {
      {"NVIDIA H200", "H200-SXM5-141GB"},
      {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
      {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
      {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"},
      {"Tesla V100-SXM2-16GB", "V100-SXM2-16GB"},
      {"Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
      {"NVIDIA TITAN RTX", "TITAN-RTX"},
      {"NVIDIA H20", "H20-SXM5-96GB"},
      {"NVIDIA H100 NVL", "H100-NVL-94GB"},
      {"NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB"},
      {"NVIDIA B200", "B200-180GB"},
      {"NVIDIA B300 SXM6 AC", "B300-288GB"},
      {"NVIDIA GB200", "GB200-NVL72"},
      {"NVIDIA GB300", "GB300-NVL72"},
      {"NVIDIA GH200 480GB", "GH200-96GB"},
      {"NVIDIA GH200 144G HBM3e", "GH200-144GB"},
      {"NVIDIA L4", "L4"},
      {"NVIDIA L20", "L20"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA A10G", "A10G"},
      {"NVIDIA GeForce RTX 3090", "RTX-3090"},
      {"NVIDIA GeForce RTX 4090", "RTX-4090"},
      {"NVIDIA GeForce RTX 5090", "RTX-5090"},
      {"NVIDIA RTX A6000", "RTX-A6000"},
  };
  for (const auto& [gpu, machine] : pairs) {
    const Machine m = find_machine(machine, "test");
    for (const Precision p : {Precision::f32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp8}) {
      INFO(gpu << " " << name_of(p));
      const auto peak = gpu_peak(gpu, p);
      const double expected = m.device.peak_flops[static_cast<std::size_t>(p)];
      CHECK(peak.has_value() == (expected > 0));
      if (peak) CHECK(peak->flops == Approx(expected));
      if (peak) CHECK(peak->source.find("dense") != std::string::npos);
    }
  }
}

TEST_CASE("a GPU that is not listed, or is shared, has no peak") {
  CHECK_FALSE(gpu_peak("NVIDIA H2000", Precision::bf16));
  CHECK_FALSE(gpu_peak("NVIDIA H200 (shared by 2 ranks, messages through host memory)", Precision::bf16));
  CHECK_FALSE(gpu_peak("", Precision::f32));
}
