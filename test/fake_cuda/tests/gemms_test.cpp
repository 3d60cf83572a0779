// The fake cuBLASLt: every epilogue against a plain reference in double, and what is refused.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <random>
#include <vector>

#include "test/catch.h"

namespace {

using Values = std::vector<float>;

struct Buffer {
  float* at = nullptr;
  std::size_t n;
  explicit Buffer(const Values& v) : n(v.size()) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&at), n * 4) == cudaSuccess);
    REQUIRE(cudaMemcpy(at, v.data(), n * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~Buffer() { cudaFree(at); }
  Values get() const {
    Values v(n);
    REQUIRE(cudaMemcpy(v.data(), at, n * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    return v;
  }
};

Values draw(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> next(-1, 1);
  Values v(n);
  for (float& x : v) x = next(engine);
  return v;
}

// C = A B of m x k and k x n, column-major, in f32.
struct Problem {
  std::size_t m = 24, n = 5, k = 70;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t aux_ld = 24;
  float* bias = nullptr;
  float* aux = nullptr;
  int algorithm = 0;
  std::uint64_t room = 1 << 20;
};

// `found_for`: of another number of columns, whose algorithm this product takes, checked or not.
cublasStatus_t multiply(const Problem& p, const Buffer& a, const Buffer& b, const Buffer& d, int* found = nullptr,
                        std::size_t found_for = 0, bool checked = false) {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t la = nullptr, lb = nullptr, ld = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_ld);
  cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, p.m, p.k, static_cast<std::int64_t>(p.m));
  cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, p.k, p.n, static_cast<std::int64_t>(p.k));
  cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, p.m, p.n, static_cast<std::int64_t>(p.m));
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.room, sizeof p.room);
  cublasLtMatmulHeuristicResult_t results[8];
  int n = 0;
  cublasLtMatrixLayout_t wb = lb, wd = ld;  // of the product that the heuristic is asked for
  if (found_for != 0) {
    cublasLtMatrixLayoutCreate(&wb, CUDA_R_32F, p.k, found_for, static_cast<std::int64_t>(p.k));
    cublasLtMatrixLayoutCreate(&wd, CUDA_R_32F, p.m, found_for, static_cast<std::int64_t>(p.m));
  }
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, la, wb, wd, wd, preference, 8, results, &n);
  if (found_for != 0)
    for (const auto layout : {wb, wd}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulHeuristicResult_t fits{};
  if (checked)
    REQUIRE(cublasLtMatmulAlgoCheck(handle, desc, la, lb, ld, ld, &results[p.algorithm].algo, &fits) ==
            CUBLAS_STATUS_SUCCESS);
  if (found) *found = n;
  void* workspace = nullptr;
  REQUIRE(cudaMalloc(&workspace, p.room) == cudaSuccess);
  if (status == CUBLAS_STATUS_SUCCESS) {
    const float one = 1, zero = 0;
    REQUIRE(p.algorithm < n);
    status = cublasLtMatmul(handle, desc, &one, a.at, la, b.at, lb, &zero, d.at, ld, d.at, ld,
                            &results[p.algorithm].algo, workspace, p.room, nullptr);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  cudaFree(workspace);
  cublasLtMatmulPreferenceDestroy(preference);
  for (const auto layout : {la, lb, ld}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
  return status;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}

struct Fixture {
  Problem p;
  Values va = draw(p.m * p.k, 1), vb = draw(p.k * p.n, 2), vbias = draw(p.m, 3), vaux = draw(p.m * p.n, 4);
  Buffer a{va}, b{vb}, d{Values(p.m * p.n)}, bias{vbias}, aux{vaux};
  Fixture() { p.bias = bias.at, p.aux = aux.at; }
  double gemm(std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t x = 0; x < p.k; ++x) sum += double{va[x * p.m + i]} * vb[j * p.k + x];
    return sum;
  }
  template <class F>
  void check(const Values& got, const F& want) const {
    for (std::size_t j = 0; j < p.n; ++j)
      for (std::size_t i = 0; i < p.m; ++i) REQUIRE(got[j * p.m + i] == Approx(want(i, j)).margin(2e-5));
  }
};

}  // namespace

TEST_CASE("several algorithms give the product, and not all of them the same bits") {
  Fixture f;
  int found = 0;
  std::vector<Values> results;
  do {
    REQUIRE(multiply(f.p, f.a, f.b, f.d, &found) == CUBLAS_STATUS_SUCCESS);
    results.push_back(f.d.get());
    f.check(results.back(), [&](auto i, auto j) { return f.gemm(i, j); });
  } while (++f.p.algorithm < found);
  CHECK(found >= 2);
  CHECK(std::any_of(results.begin(), results.end(), [&](const Values& v) { return v != results[0]; }));
}

TEST_CASE("epilogues: bias, GELU and what it keeps, their gradients, sums of operands") {
  Fixture f;
  const auto run = [&](std::uint32_t epilogue) {
    f.p.epilogue = epilogue;
    REQUIRE(multiply(f.p, f.a, f.b, f.d) == CUBLAS_STATUS_SUCCESS);
    return f.d.get();
  };
  const auto plus_bias = [&](std::size_t i, std::size_t j) { return f.gemm(i, j) + f.vbias[i]; };
  f.check(run(CUBLASLT_EPILOGUE_BIAS), plus_bias);
  f.check(run(CUBLASLT_EPILOGUE_GELU_BIAS), [&](auto i, auto j) { return gelu(plus_bias(i, j)); });
  // The gradient's input is what is there before the forward's output replaces it.
  const auto slope = [](double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; };
  const auto grad = [&](std::size_t i, std::size_t j) { return f.gemm(i, j) * slope(f.vaux[j * f.p.m + i]); };
  f.check(run(CUBLASLT_EPILOGUE_DGELU), grad);
  f.check(run(CUBLASLT_EPILOGUE_DGELU_BGRAD), grad);
  const Values sums = f.bias.get();
  for (std::size_t i = 0; i < f.p.m; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < f.p.n; ++j) sum += grad(i, j);
    REQUIRE(sums[i] == Approx(sum).margin(5e-5));
  }
  run(CUBLASLT_EPILOGUE_BGRADB);
  for (std::size_t j = 0; j < f.p.n; ++j) {
    double sum = 0;
    for (std::size_t x = 0; x < f.p.k; ++x) sum += f.vb[j * f.p.k + x];
    REQUIRE(f.bias.get()[j] == Approx(sum).margin(5e-5));
  }
  run(CUBLASLT_EPILOGUE_BGRADA);
  for (std::size_t i = 0; i < f.p.m; ++i) {
    double sum = 0;
    for (std::size_t x = 0; x < f.p.k; ++x) sum += f.va[x * f.p.m + i];
    REQUIRE(f.bias.get()[i] == Approx(sum).margin(5e-5));
  }
  f.check(run(CUBLASLT_EPILOGUE_GELU_AUX), [&](auto i, auto j) { return gelu(f.gemm(i, j)); });
  f.check(f.aux.get(), [&](auto i, auto j) { return f.gemm(i, j); });
}

TEST_CASE("an algorithm that was found for another product serves this one when a check has said so") {
  Fixture f;
  CHECK(multiply(f.p, f.a, f.b, f.d, nullptr, 128) != CUBLAS_STATUS_SUCCESS);
  REQUIRE(multiply(f.p, f.a, f.b, f.d, nullptr, 128, true) == CUBLAS_STATUS_SUCCESS);
  f.check(f.d.get(), [&](auto i, auto j) { return f.gemm(i, j); });
}

TEST_CASE("epilogues whose buffers are not as the documentation asks are refused") {
  Fixture f;
  f.p.epilogue = CUBLASLT_EPILOGUE_BIAS;
  f.p.bias = nullptr;
  CHECK(multiply(f.p, f.a, f.b, f.d) != CUBLAS_STATUS_SUCCESS);
  f.p.bias = f.bias.at + f.p.m - 1;  // too short
  CHECK(multiply(f.p, f.a, f.b, f.d) != CUBLAS_STATUS_SUCCESS);
  f.p.bias = f.bias.at;
  f.p.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  CHECK(multiply(f.p, f.a, f.b, f.d) == CUBLAS_STATUS_SUCCESS);
  f.p.aux_ld = 28;  // no multiple of 8
  CHECK(multiply(f.p, f.a, f.b, f.d) != CUBLAS_STATUS_SUCCESS);
  f.p.aux_ld = 16;  // less than the rows
  CHECK(multiply(f.p, f.a, f.b, f.d) != CUBLAS_STATUS_SUCCESS);
  f.p.aux_ld = 24;
  f.p.aux = f.aux.at + 1;
  CHECK(multiply(f.p, f.a, f.b, f.d) != CUBLAS_STATUS_SUCCESS);
}
