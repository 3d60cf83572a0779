// cuDNN's last step before a GPU, recorded instead of taken: for a program linked with --wrap.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cuda {

// The fake GPU of settings().capability, 90 or 80, as cuDNN writes one: an H200 or an A100.
std::string device_for_cudnn();

// What cuDNN says its version is; 0: its own.
std::size_t& cudnn_version();

// A plan that would have run.
struct Execution {
  std::map<std::int64_t, const void*> tensors;  // address by number
  const void* workspace = nullptr;
  std::uint64_t launches = 0;  // of the engine's own kernels by then
};

std::vector<Execution>& executions();

}  // namespace fake_cuda
