// The last include of the sources that CMake writes for kernels/*.cuh (mbench_kernel_sources). It has compute() of the ops that have their
// enqueue() there. Nothing else includes it.
#pragma once
#include <tuple>

#include "engine/backend/cuda/device/cuda_ops.h"

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

// Taking its address makes the compiler emit the function, for the table of ops to link with.
template <class Op>
constexpr void (*compute_if_here())(CudaOps&, const Op&) {
  if constexpr (HasKernel<Op>) return &compute<Op>;
  return nullptr;
}

template <class... Op>
constexpr auto all_here(OpList<Op...>) {
  static_assert((HasKernel<Op> || ...),
                "a header in engine/backend/cuda/kernels has enqueue(Stream&, const ops::NAME&) of no op in AllOps");
  return std::tuple(compute_if_here<Op>()...);
}

[[gnu::used]] constexpr auto kWrittenOut = all_here(AllOps());

}  // namespace
}  // namespace mbench::cuda
