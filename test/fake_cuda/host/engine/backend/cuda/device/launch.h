// Found before the engine's header of this path. It has the same launch(), which first registers the kernel with the fake GPU, as a
// real compiler does for a real one.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "test/fake_cuda/kernels.h"

#define launch launch_known
#include_next "engine/backend/cuda/device/launch.h"
#undef launch

namespace mbench::cuda {

template <class... Params, class... Args>
void launch(std::string_view op, const Launch& shape, cudaStream_t stream, void (*kernel)(Params...), Args&&... args) {
  fake_cuda::learn(kernel);
  launch_known(op, shape, stream, kernel, std::forward<Args>(args)...);
}

}  // namespace mbench::cuda
