// CUDA's runtime: kernels, run by the emulator of a GPU's threads.
#include "test/fake_cuda/kernels.h"

#include <exception>
#include <map>
#include <mutex>
#include <random>

#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/settings.h"
#include "test/simt/emulator.h"

namespace fake_cuda {
namespace {

constexpr std::size_t kSharedUnasked = std::size_t{48} << 10;

struct Kernel {
  Bind bind;
  std::size_t shared = kSharedUnasked;  // dynamic shared memory that it may have
};

struct Kernels {
  std::mutex mutex;
  std::map<const void*, Kernel> known;
  std::uint64_t launches = 0;
};

// Never destroyed, as the engine.
Kernels& kernels() {
  static Kernels& k = *new Kernels;
  return k;
}

// By the engine's thread alone. Threads, warps and blocks go up or down, as the seed has it.
void run_kernel(const mbench::cuda::Launch& shape, const std::function<void()>& body) {
  using simt::Order;
  static auto& up = *new simt::Emulator(Order::ascending, simt::kHopper);
  static auto& down = *new simt::Emulator(Order::descending, simt::kHopper);
  static std::mt19937_64 draw(settings().seed);
  (draw() % 2 == 0 ? up : down).run("kernel", shape, body);
}

}  // namespace

void learn(const void* kernel, Bind bind) {
  const std::lock_guard lock(kernels().mutex);
  kernels().known.try_emplace(kernel, Kernel{bind});
}

std::uint64_t launches() {
  const std::lock_guard lock(kernels().mutex);
  return kernels().launches;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value) {
  const std::lock_guard lock(kernels().mutex);
  const auto it = kernels().known.find(kernel);
  if (it == kernels().known.end()) return returned(cudaErrorInvalidDeviceFunction);
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > simt::kHopper.dynamic_shared)
    return refused(cudaErrorInvalidValue, "cudaFuncSetAttribute", "shared memory beyond what a block may have");
  it->second.shared = static_cast<std::size_t>(value);
  return returned(cudaSuccess);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(kernels().mutex);
  const auto it = kernels().known.find(kernel);
  if (it == kernels().known.end()) return returned(cudaErrorInvalidDeviceFunction);
  using simt::Limits;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > Limits::kThreads || block.z != 1 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > Limits::kGridX || grid.y > Limits::kGridY || grid.z > Limits::kGridZ)
    return refused(cudaErrorInvalidConfiguration, "cudaLaunchKernel", "grid or block beyond the limits");
  if (shared > it->second.shared)
    return refused(cudaErrorInvalidValue, "cudaLaunchKernel", "shared memory that was not asked for");
  const mbench::cuda::Launch shape{grid.x, grid.y, grid.z, block.x, block.y, shared};
  const bool fails = ++kernels().launches == settings().kernel_fault;
  Engine::get().enqueue(queue, [shape, fails, body = it->second.bind(kernel, arguments)] {
    try {
      if (fails) {
        complain("kernel", "this launch was chosen to fail");
        Engine::get().stop(cudaErrorIllegalAddress);
      } else {
        run_kernel(shape, body);
      }
    } catch (const std::exception& e) {
      complain("kernel", e.what());
      Engine::get().stop(cudaErrorLaunchFailure);
    }
    return Step::done;
  });
  return returned(cudaSuccess);
}

}  // extern "C"
