// The emulator itself: that it computes what kernels say, and finds what they must not do.
#include "test/simt/emulator.h"

#include <simt_host.h>

#include "test/catch.h"

using namespace mbench;
using simt::Emulator;

namespace {

cuda::Launch blocks_of(unsigned blocks, unsigned x, unsigned y = 1, std::size_t shared = 0) {
  cuda::Launch shape;
  shape.grid_x = blocks, shape.block_x = x, shape.block_y = y, shape.shared = shared;
  return shape;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

__global__ void number_threads(int* to) {
  const int own = static_cast<int>((blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  to[own] = own;
}

__global__ void reverse_block(int* to) {
  __shared__ cuda::SharedArray<int, 96> shared;
  const int own = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  shared[own] = own;
  __syncthreads();
  to[own] = shared[n - 1 - own];
}

__global__ void reverse_dynamic(int* to) {
  auto shared = cuda::dynamic_shared<int>();
  const int own = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  shared[own] = own;
  __syncthreads();
  to[own] = shared[n - own - 1];
}

__global__ void no_barrier(int* to) {  // a race
  __shared__ cuda::SharedArray<int, 64> shared;
  const int own = static_cast<int>(threadIdx.x);
  shared[own] = own;
  to[own] = shared[own ^ 1];
}

__global__ void some_at_barrier(int*) {
  if (threadIdx.x < 40) __syncthreads();
}

__global__ void two_barriers(int*) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void half_warp(int* to) {
  if (threadIdx.x < 16) to[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, 1, 1);
}

__global__ void part_of_mask(int* to) {
  to[threadIdx.x] = __shfl_xor_sync(0xFFFFu, 1, 1);
}

__global__ void beyond_shared(int*) {
  __shared__ cuda::SharedArray<int, 32> shared;
  shared[static_cast<int>(threadIdx.x)] = 1;
}

__global__ void beyond_dynamic(int*) {
  cuda::dynamic_shared<int>()[threadIdx.x] = 1;
}

__global__ void much_shared(int*) {
  __shared__ cuda::SharedArray<double, 7000> shared;
  shared[0] = 1;
}

__global__ void unset_shared(float* to) {
  __shared__ cuda::SharedArray<float, 1> shared;
  if (threadIdx.x == 0) *to = shared[0];
  shared[0] = 1;
}

__global__ void warp_words(int* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int* own = to + 4 * threadIdx.x;
  own[0] = __shfl_xor_sync(0xFFFFFFFFu, lane + 100 * warp, 5);
  own[1] = __shfl_down_sync(0xFFFFFFFFu, lane, 3);
  own[2] = __shfl_sync(0xFFFFFFFFu, lane + 100 * warp, 7);
  own[3] = static_cast<int>(__ballot_sync(0xFFFFFFFFu, lane % 4 == 1));
  __syncwarp();
}

__global__ void different_shuffles(double* to) {
  double x = threadIdx.x;
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, i);
  to[threadIdx.x] = x;
}

}  // namespace

TEST_CASE("threads of all blocks run, in either order") {
  for (auto order : {simt::Order::ascending, simt::Order::descending}) {
    std::vector<int> to(5 * 32 * 3, -1);
    Emulator(order).launch("number", blocks_of(5, 32, 3), number_threads, to.data());
    for (int i = 0; i < static_cast<int>(to.size()); ++i) CHECK(to[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("what is in shared memory before a barrier is there after it") {
  for (auto order : {simt::Order::ascending, simt::Order::descending})
    for (bool dynamic : {false, true}) {
      std::vector<int> to(96, -1);
      Emulator emulator(order);
      emulator.launch("reverse", blocks_of(2, 96, 1, dynamic ? 96 * sizeof(int) : 0),
                      dynamic ? reverse_dynamic : reverse_block, to.data());
      for (int i = 0; i < 96; ++i) CHECK(to[static_cast<std::size_t>(i)] == 95 - i);
    }
}

TEST_CASE("a missing barrier shows as a result that depends on the order") {
  std::vector<int> up(64), down(64);
  Emulator(simt::Order::ascending).launch("race", blocks_of(1, 64), no_barrier, up.data());
  Emulator(simt::Order::descending).launch("race", blocks_of(1, 64), no_barrier, down.data());
  CHECK(up != down);
}

TEST_CASE("shuffles and ballots see the lanes of their own warp") {
  std::vector<int> to(4 * 64);
  Emulator().launch("warp", blocks_of(1, 64), warp_words, to.data());
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, warp = t / 32;
    const int* own = &to[static_cast<std::size_t>(4 * t)];
    CHECK(own[0] == (lane ^ 5) + 100 * warp);
    CHECK(own[1] == (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(own[2] == 7 + 100 * warp);
    CHECK(own[3] == 0x22222222);
  }
  std::vector<double> sums(64);
  Emulator().launch("sums", blocks_of(1, 64), different_shuffles, sums.data());
  for (int t = 0; t < 64; ++t) CHECK(sums[static_cast<std::size_t>(t)] == (t < 32 ? 496 : 1520));
}

TEST_CASE("threads that part before a barrier or a shuffle are found, with both places") {
  int to[64];
  Emulator emulator;
  const auto run = [&](auto kernel, unsigned threads) {
    return error_of([&] { emulator.launch("odd", blocks_of(1, threads), kernel, static_cast<int*>(to)); });
  };
  CHECK(run(some_at_barrier, 64).find("[odd] threads must wait at one place") == 0);
  CHECK(run(some_at_barrier, 64).find("has ended") != std::string::npos);
  CHECK(run(two_barriers, 64).find("is at a barrier in") != std::string::npos);
  CHECK(run(half_warp, 32).find("is at its warp's") != std::string::npos);
  CHECK(run(part_of_mask, 32).find("mask 0xffff") != std::string::npos);
  CHECK(run(part_of_mask, 16).find("mask") != std::string::npos);
}

TEST_CASE("shared memory: indices beyond it, too much of it, and values that were never written") {
  int to = 0;
  Emulator emulator;
  CHECK(error_of([&] { emulator.launch("b", blocks_of(1, 33), beyond_shared, &to); }).find("got 32, need 0 ... 31") !=
        std::string::npos);
  CHECK(error_of([&] { emulator.launch("b", blocks_of(1, 9, 1, 32), beyond_dynamic, &to); }).find("got 8") !=
        std::string::npos);
  CHECK(error_of([&] { emulator.launch("b", blocks_of(1, 1), much_shared, &to); }).find("56000 bytes") !=
        std::string::npos);
  for (int again = 0; again < 2; ++again) {
    float unset = 0;
    emulator.launch("unset", blocks_of(1, 32), unset_shared, &unset);
    CHECK(std::isnan(unset));
  }
}

TEST_CASE("launches beyond a device's limits are refused") {
  int to[1];
  const auto refused = [&](const cuda::Launch& shape, const simt::Limits& limits) {
    return error_of(
        [&] { Emulator(simt::Order::ascending, limits).launch("big", shape, beyond_dynamic, static_cast<int*>(to)); });
  };
  CHECK(refused(blocks_of(1, 1025), simt::kHopper).find("threads of a launch, got 1025") != std::string::npos);
  CHECK(refused(blocks_of(1, 32, 33), simt::kHopper).find("threads of a launch, got 1056") != std::string::npos);
  cuda::Launch tall = blocks_of(1, 1);
  tall.grid_y = 65536;
  CHECK(refused(tall, simt::kHopper).find("blocks in y") != std::string::npos);
  CHECK(refused(blocks_of(1, 1, 1, std::size_t{100} << 10), simt::kAda).find("8.9") != std::string::npos);
  CHECK(refused(blocks_of(1, 1, 1, std::size_t{100} << 10), simt::kAmpere).empty());
  CHECK(refused(blocks_of(1, 1, 1, std::size_t{164} << 10), simt::kAmpere).find("8.0") != std::string::npos);
  CHECK(refused(blocks_of(1, 1, 1, std::size_t{227} << 10), simt::kHopper).empty());
  CHECK(refused(blocks_of(1, 1, 1, std::size_t{228} << 10), simt::kHopper).find("9.0") != std::string::npos);
}
