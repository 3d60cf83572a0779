// A libcuda.so.1 for machines without a GPU: it takes the code that cuDNN compiles and remembers the kernels,
// and that is all it can do. The test that links it thereby sees what cuDNN would give a GPU.
#pragma once
#include <string>
#include <vector>

namespace fake_cuda {

struct Kernel {
  std::string name;
  int capability;  // what its code is compiled for, 90 for 9.0; 0: no code of a GPU
};

// In the order cuDNN asked for them.
std::vector<Kernel>& kernels();

}  // namespace fake_cuda
