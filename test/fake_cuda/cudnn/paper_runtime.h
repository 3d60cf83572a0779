// Instead of the GPU behind the CUDA runtime and cuDNN's last step, for a program linked with --wrap: which
// GPU there is, memory of the host, and a record of what would have run.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cuda {

// The compute capability of the GPU, 90 or 80, and that GPU as cuDNN writes one: an H200 or an A100.
void be(int capability);
std::string device();

struct Step {
  bool kernel = false;                          // one of the engine's own; else one of cuDNN's plans
  std::map<std::int64_t, const void*> tensors;  // of a plan: address by number
  const void* workspace = nullptr;
};

std::vector<Step>& steps();

}  // namespace fake_cuda
