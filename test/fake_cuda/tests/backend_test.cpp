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
#include "test/fake_cuda/kernels.h"
#include "test/fake_cuda/settings.h"
#include "test/ops/tensors.h"

using namespace mbench;
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
  op.x = t.in({rows, in}, DType::bf16), op.w = t.in({2, out, in}, DType::bf16), op.y = t.inout({rows, out}, DType::bf16);
  for (const auto product : {ops::GroupedMatmul::Product::forward, ops::GroupedMatmul::Product::input_gradient,
                             ops::GroupedMatmul::Product::weight_gradient})
    for (const std::int64_t first : {500, 501, 650, 900}) {
      const std::int64_t offsets[] = {0, first, rows};
      op.product = product, op.offsets = offsets;
      CHECK(launched_by([&] { run(*gpu, op); }) == 0);
    }
  const ops::Matmul fixed{ops::Matrix(op.x), ops::Matrix(op.w, out, in, in).t(), ops::Matrix(op.y)};
  CHECK(launched_by([&] { run(*gpu, fixed); }) > 0);
  CHECK(launched_by([&] { run(*gpu, fixed); }) == 0);
}

TEST_CASE("a GELU of f32 operands is our own kernel, of narrower ones cuBLASLt's") {
  for (const auto& [precision, type, own] :
       {std::tuple(Precision::f32, DType::f32, 1u), {Precision::tf32, DType::f32, 0u}, {Precision::f32, DType::bf16, 0u}}) {
    const auto gpu = open_device("cuda", 0, precision);
    Tensors t(*gpu);
    const Tensor x = t.in({64, 64}, type), w = t.in({64, 64}, type);
    ops::Matmul product{ops::Matrix(x), ops::Matrix(w).t(), ops::Matrix(t.out({64, 64}, type))};
    product.bias = t.in({64}, type), product.gelu_input = t.out({64, 64}, type);
    run(*gpu, product);
    CHECK(launched_by([&] { run(*gpu, product); }) == own);
  }
}

namespace {

std::atomic<bool> held{false};

void hold(int) {
  while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("the host runs ahead of a busy GPU by the inputs of several micro batches, and their values arrive") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  int* to = nullptr;
  constexpr int kUploads = 16;  // of four micro batches
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&to), 2 * kUploads * sizeof(int)) == cudaSuccess);
  int waits = 0;
  cuda::Staging staging(stream, [&](cudaEvent_t e) {
    if (cudaEventQuery(e) == cudaSuccess) return;
    ++waits;
    held = false;
    REQUIRE(cudaEventSynchronize(e) == cudaSuccess);
  });
  fake_cuda::learn(hold);
  held = true;
  int none = 0;
  void* arguments[] = {&none};
  REQUIRE(cudaLaunchKernel(reinterpret_cast<const void*>(hold), dim3(1), dim3(1), arguments, 0, stream) == cudaSuccess);
  std::vector<int> values(2 * kUploads);
  std::iota(values.begin(), values.end(), 100);
  for (int i = 0; i < 2 * kUploads; ++i) {
    staging.upload(reinterpret_cast<std::byte*>(to + i), std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(i), 1)));
    if (i == kUploads - 1) CHECK(waits == 0);
  }
  CHECK(waits > 0);
  std::vector<int> got(values.size());
  staging.download(reinterpret_cast<const std::byte*>(to), std::as_writable_bytes(std::span(got)));
  CHECK(got == values);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  cudaFree(to);
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
    CHECK_THROWS_WITH(fill(), Contains("out of memory at test (other)") && Contains("the limit of 112.00 MiB, 32.0"));
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
