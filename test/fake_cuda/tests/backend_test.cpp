// The backend on the fake GPU, where it must be seen what it launched and what the GPU has left.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>

#include "engine/backend/cuda/device/staging.h"
#include "engine/backend/cuda/matmul/matmul_description.h"
#include "engine/ops/grouped_matmul.h"
#include "engine/ops/matmul.h"
#include "engine/ops/run.h"
#include "engine/platform/registry.h"
#include "test/catch.h"
#include "test/fake_cuda/engine.h"
#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/kernels.h"
#include "test/fake_cuda/settings.h"
#include "test/ops/tensors.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::test;
using Catch::Contains;

namespace {

// Kernels of our own that `work` launches.
template <class Work>
std::uint64_t launched_by(const Work& work) {
  const std::uint64_t before = fake_cuda::launches();
  work();
  return fake_cuda::launches() - before;
}

}  // namespace

// To compare algorithms takes kernels: fingerprints of what they give.
TEST_CASE("products with other rows in each step are not measured, those of one shape are") {
  const auto gpu = open_device("cuda", 0);
  Tensors t(*gpu);
  constexpr std::int64_t rows = 1024, in = 512, out = 256;
  ops::GroupedMatmul op;
  op.x = t.in({rows, in}, DType::bf16), op.w = t.in({2, out, in}, DType::bf16),
  op.y = t.inout({rows, out}, DType::bf16);
  for (const auto gemm : {ops::GroupedMatmul::Gemm::forward, ops::GroupedMatmul::Gemm::input_gradient,
                          ops::GroupedMatmul::Gemm::weight_gradient})
    for (const std::int64_t first : {500, 501, 650, 900}) {
      const std::int64_t offsets[] = {0, first, rows};
      op.gemm = gemm, op.offsets = offsets;
      CHECK(launched_by([&] { run(*gpu, op); }) == 0);
    }
  const ops::Matmul fixed{ops::Matrix(op.x), ops::Matrix(op.w, out, in, in).t(), ops::Matrix(op.y)};
  CHECK(launched_by([&] { run(*gpu, fixed); }) > 0);
  CHECK(launched_by([&] { run(*gpu, fixed); }) == 0);
}

TEST_CASE("a GELU of f32 operands is our own kernel, of narrower ones cuBLASLt's") {
  for (const auto& [precision, type, own] : {std::tuple(Precision::f32, DType::f32, 1u),
                                             {Precision::tf32, DType::f32, 0u},
                                             {Precision::f32, DType::bf16, 0u}}) {
    const auto gpu = open_device("cuda", 0, precision);
    Tensors t(*gpu);
    const Tensor x = t.in({64, 64}, type), w = t.in({64, 64}, type);
    ops::Matmul gemm{ops::Matrix(x), ops::Matrix(w).t(), ops::Matrix(t.out({64, 64}, type))};
    gemm.bias = t.in({64}, type), gemm.gelu_input = t.out({64, 64}, type);
    run(*gpu, gemm);
    CHECK(launched_by([&] { run(*gpu, gemm); }) == own);
  }
}

namespace {

std::atomic<bool> held{false};

// Work that ends when nothing is held any more. Other streams go on meanwhile.
void hold(cudaStream_t stream) {
  held = true;
  fake_cuda::Engine::get().enqueue(fake_cuda::queue_of(stream),
                                   [] { return held ? fake_cuda::Step::blocked : fake_cuda::Step::done; });
}

bool passes(cudaEvent_t e, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (cudaEventQuery(e) != cudaSuccess) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

TEST_CASE("the host runs ahead of a busy GPU by the inputs of several micro batches, and their values arrive") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  int* to = nullptr;
  constexpr int kUploads = 16;  // of four micro batches
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&to), 3 * kUploads * sizeof(int)) == cudaSuccess);
  int waits = 0;
  const auto gpu = open_device("cuda", 0);
  cuda::Staging staging(stream, gpu->memory(), [&](cudaEvent_t e) {
    if (passes(e, std::chrono::milliseconds(held ? 2000 : 20000))) return;
    ++waits;
    held = false;
    REQUIRE(cudaEventSynchronize(e) == cudaSuccess);
  });
  hold(stream);
  std::vector<int> values(3 * kUploads);
  std::iota(values.begin(), values.end(), 100);
  for (int i = 0; i < 3 * kUploads; ++i) {
    staging.upload(reinterpret_cast<std::byte*>(to + i),
                   std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(i), 1)));
    if (i == 2 * kUploads - 1) CHECK(waits == 0);  // twice: in slots, and in buffers while the slots are taken
  }
  CHECK(waits == 1);
  std::vector<int> got(values.size());
  staging.download(reinterpret_cast<const std::byte*>(to), std::as_writable_bytes(std::span(got)));
  CHECK(got == values);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  cudaFree(to);
  cudaStreamDestroy(stream);
}

TEST_CASE("an upload crosses the link while the GPU is busy, and reaches its place after the work given before") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  constexpr std::size_t kInts = 400000;  // 1.6 MB: the larger of two uploads, each of several pieces
  for (const std::size_t count : {kInts / 4, kInts}) {
    int *to = nullptr, *before = nullptr;
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&to), count * sizeof(int)) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&before), count * sizeof(int)) == cudaSuccess);
    const auto gpu = open_device("cuda", 0);
    const std::size_t charged = gpu->memory().library();
    {
      cuda::Staging staging(stream, gpu->memory(),
                            [&](cudaEvent_t e) { REQUIRE(cudaEventSynchronize(e) == cudaSuccess); });
      CHECK(gpu->memory().library() == charged + (std::size_t{4} << 20));
      std::vector<int> old(count, 7), values(count), got(count);
      std::iota(values.begin(), values.end(), 1);
      staging.upload(reinterpret_cast<std::byte*>(to), std::as_bytes(std::span(old)));
      hold(stream);
      REQUIRE(cudaMemcpyAsync(before, to, count * sizeof(int), cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
      staging.upload(reinterpret_cast<std::byte*>(to), std::as_bytes(std::span(values)));
      values.assign(count, -1);  // the upload has its own copy
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      held = false;
      staging.download(reinterpret_cast<const std::byte*>(before), std::as_writable_bytes(std::span(got)));
      CHECK(got == old);
      staging.download(reinterpret_cast<const std::byte*>(to), std::as_writable_bytes(std::span(got)));
      std::iota(values.begin(), values.end(), 1);
      CHECK(got == values);
    }
    CHECK(gpu->memory().library() == charged);
    cudaFree(to), cudaFree(before);
  }
  cudaStreamDestroy(stream);
}

TEST_CASE("the arena leaves a GPU room for what libraries load, and says what did not fit") {
  const std::size_t had = fake_cuda::settings().memory;
  fake_cuda::changeable_settings().memory = std::size_t{128} << 20;
  {
    const auto gpu = open_device("cuda", 0);
    std::vector<Tensor> held;
    const auto fill = [&] {
      for (;;) held.push_back(gpu->empty({4 << 20}, DType::u8, Category::other, "test"));
    };
    CHECK_THROWS_WITH(fill(), Contains("out of memory at test (other)") && Contains("the limit of 112.00 MiB, 36.0"));
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    CHECK(free >= std::size_t{16} << 20);
  }
  fake_cuda::changeable_settings().memory = had;
}

TEST_CASE("a library that finds no memory is out of memory, any other failure is not") {
  const auto kind_of = [](cublasStatus_t status) {
    try {
      cuda::need(status, "cublasLtMatmul");
    } catch (const Error& e) {
      return e.kind();
    }
    return ErrorKind::wrong;
  };
  CHECK(kind_of(CUBLAS_STATUS_ALLOC_FAILED) == ErrorKind::out_of_memory);
  CHECK(kind_of(CUBLAS_STATUS_EXECUTION_FAILED) == ErrorKind::internal);
}
