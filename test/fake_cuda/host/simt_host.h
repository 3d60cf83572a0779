// The emulator's words for kernels, where CUDA's own headers are included too: theirs give way.
#pragma once
#include <cuda_runtime_api.h>

#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#include "test/simt/simt_host.h"
