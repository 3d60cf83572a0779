// The last include of the sources that CMake writes for kernels/*.cuh (mbench_kernel_sources). It has compute() of the ops that have their
// enqueue() there. Nothing else includes it.
#pragma once
#include <array>

#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/ops/op_list.h"

namespace mbench::cuda {

template <class Op>
void compute(CudaOps& gpu, const Op& op) {
  enqueue(gpu.kernels, op);
}

namespace {

template <class Op>
concept HasKernel = requires(KernelStream& stream, const Op& op) {
  enqueue(stream, op);
};

using Function = void (*)();

// Taking its address makes the compiler emit the function, for the table of ops to link with.
template <class Op>
Function compute_if_here() {
  if constexpr (HasKernel<Op>) return reinterpret_cast<Function>(&compute<Op>);
  return nullptr;
}

// An array of one type: a tuple of as many different ones takes nvcc ten seconds.
template <class... Op>
std::array<Function, sizeof...(Op)> all_here(OpList<Op...>) {
  static_assert((HasKernel<Op> || ...),
                "a header in engine/backend/cuda/kernels has enqueue(Stream&, const ops::NAME&) of no op in AllOps");
  return {compute_if_here<Op>()...};
}

[[gnu::used]] const auto kWrittenOut = all_here(AllOps());

}  // namespace
}  // namespace mbench::cuda
