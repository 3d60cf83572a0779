// Launches kernels on a stream and turns CUDA's error codes into Errors that name the op. A failed launch throws here. A failure while the
// kernel runs shows at the next wait (CudaDevice names the op enqueued last).
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/backend/cuda/kernels/launch_shape.h"
#include "engine/base/error.h"

namespace mbench::cuda {

// Throws unless `code` is success: out_of_memory if the device is full, else internal. `where` is the op or the call.
inline void cuda_check(std::string_view where, cudaError_t code) {
  if (code == cudaSuccess) return;
  const ErrorKind kind = code == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::internal;
  fail(kind, where, "CUDA call failed, got {} ({})", cudaGetErrorName(code), cudaGetErrorString(code));
}

// Shared memory that a block may have without opting in.
inline constexpr std::size_t kSharedUnasked = std::size_t{48} << 10;

// kernel<<<...>>>(args...), the arguments converted to the kernel's parameters.
template <class... Params, class... Args>
void launch(std::string_view op, const Launch& shape, cudaStream_t stream, void (*kernel)(Params...), Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "as many arguments as the kernel has parameters");
  if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return;  // nothing to do
  const void* function = reinterpret_cast<const void*>(kernel);
  if (shape.shared > kSharedUnasked)
    cuda_check(op, cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape.shared)));
  std::tuple<Params...> values(std::forward<Args>(args)...);
  std::apply(
      [&](Params&... value) {
        std::array<void*, sizeof...(Params) + 1> pointers{static_cast<void*>(&value)..., nullptr};
        cuda_check(op, cudaLaunchKernel(function, dim3(shape.grid_x, shape.grid_y, shape.grid_z),
                                        dim3(shape.block_x, shape.block_y, 1), pointers.data(), shape.shared, stream));
      },
      values);
}

}  // namespace mbench::cuda
