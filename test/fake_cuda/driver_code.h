// What was loaded into the fake driver: code that a library compiled for a GPU. It is remembered, never run.
#pragma once
#include <string>
#include <vector>

namespace fake_cuda {

struct LoadedKernel {
  std::string name;
  int capability;  // what its code is compiled for, 90 for 9.0; 0: no code of a GPU
};

// In the order in which they were asked for.
std::vector<LoadedKernel>& loaded_kernels();

}  // namespace fake_cuda
