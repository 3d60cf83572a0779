#include "test/fake_cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/base/fp8.h"
#include "engine/base/half.h"

namespace fake_cuda {
bool is_fp8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

// An FP8 operand is stored k after k, column after column: `inner` counts along k.
float scale_at(const void* scales, std::int32_t mode, const Layout& l, std::uint64_t inner, std::uint64_t outer) {
  const auto* all = static_cast<const float*>(scales);
  const std::uint64_t blocks = (l.rows + 127) / 128;
  if (mode == 3) return all[outer];                                               // OUTER_VEC_32F
  if (mode == 4) return all[inner / 128 * l.cols + outer];                        // VEC128_32F
  if (mode == 5) return all[outer / 128 * ((blocks + 3) / 4 * 4) + inner / 128];  // BLK128x128_32F
  return *all;
}

namespace {

using mbench::bf16;
using mbench::f16;

float get(const void* from, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_16BF:
      return mbench::to_float(static_cast<const bf16*>(from)[i]);
    case CUDA_R_16F:
      return mbench::to_float(static_cast<const f16*>(from)[i]);
    case CUDA_R_8F_E4M3:
      return mbench::to_float(static_cast<const mbench::e4m3*>(from)[i]);
    case CUDA_R_8F_E5M2:
      return mbench::to_float(static_cast<const mbench::e5m2*>(from)[i]);
    case CUDA_R_64F:  // enough for values that f32 has
      return static_cast<float>(static_cast<const double*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}

void put(void* to, cudaDataType_t type, std::int64_t i, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<bf16*>(to)[i] = mbench::from_float<bf16>(value);
      break;
    case CUDA_R_16F:
      static_cast<f16*>(to)[i] = mbench::from_float<f16>(value);
      break;
    case CUDA_R_64F:
      static_cast<double*>(to)[i] = value;
      break;
    default:
      static_cast<float*>(to)[i] = value;
  }
}

// To the 10 bits of fraction that TF32 has, to nearest even.
float tf32(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xFFFu + ((bits >> 13) & 1u)) & ~0x1FFFu);
}

// As rows x cols in f32, column after column, whatever it is stored as.
std::vector<float> unpacked(const void* from, const Layout& l, cublasOperation_t op, std::int64_t batch, bool tf) {
  const auto rows = static_cast<std::int64_t>(l.rows), cols = static_cast<std::int64_t>(l.cols);
  std::vector<float> all(static_cast<std::size_t>(rows * cols));
  for (std::int64_t j = 0; j < cols; ++j)
    for (std::int64_t i = 0; i < rows; ++i) {
      const float x = get(from, l.type, batch * l.stride + j * l.ld + i);
      all[static_cast<std::size_t>(op == CUBLAS_OP_N ? j * rows + i : i * cols + j)] = tf ? tf32(x) : x;
    }
  return all;
}

// sum[j][i] += over k in [from, to); a: [k][m], b: [n][k].
void add_terms(std::vector<float>& sum, const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
               std::size_t n, std::size_t k, std::size_t from, std::size_t to) {
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t x = from; x < to; ++x) {
      const float factor = b[j * k + x];
      const float* column = &a[x * m];
      float* out = &sum[j * m];
      for (std::size_t i = 0; i < m; ++i) out[i] += column[i] * factor;
    }
}

std::vector<float> multiply(const Gemm& p, std::int64_t batch) {
  const std::size_t m = p.m(), n = p.n(), k = p.k();
  const bool tf = p.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
  auto a = unpacked(p.A, p.a, p.description.op_a, batch, tf);
  auto b = unpacked(p.B, p.b, p.description.op_b, batch, tf);
  if (is_fp8(p.a.type)) {  // a: [k][m], b: [n][k]
    const Description& e = p.description;
    for (std::size_t x = 0; x < k; ++x)
      for (std::size_t i = 0; i < m; ++i) a[x * m + i] *= scale_at(e.scale_a, e.mode_a, p.a, x, i);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t x = 0; x < k; ++x) b[j * k + x] *= scale_at(e.scale_b, e.mode_b, p.b, x, j);
  }
  const auto slices = static_cast<std::size_t>(p.order.slices), chunk = p.order.chunk;
  const std::size_t each = (k + slices - 1) / slices, step = chunk == 0 ? each : chunk;
  std::vector<float> sum(m * n, 0.0f), part(m * n);
  for (std::size_t slice = 0; slice < k; slice += each)
    for (std::size_t from = slice; from < std::min(slice + each, k); from += step) {
      std::fill(part.begin(), part.end(), 0.0f);
      add_terms(part, a, b, m, n, k, from, std::min({from + step, slice + each, k}));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
  return sum;
}

// The approximation by tanh, and its derivative.
constexpr float kRoot = 0.7978845608f, kCubic = 0.044715f;
float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(kRoot * (x + kCubic * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(kRoot * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRoot * (1 + 3 * kCubic * x * x);
}

bool has(const Description& d, std::uint32_t bit) {
  return (d.epilogue & bit) != 0;
}

}  // namespace

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : is_fp8(type) ? 1 : 2;
}

void compute(const Gemm& p) {
  const Description& e = p.description;
  const auto m = static_cast<std::int64_t>(p.m()), n = static_cast<std::int64_t>(p.n());
  const cudaDataType_t aux_type = e.aux_type == -1 ? p.d.type : static_cast<cudaDataType_t>(e.aux_type);
  const cudaDataType_t bias_type = e.bias_type == -1 ? p.d.type : static_cast<cudaDataType_t>(e.bias_type);
  const bool biased = has(e, CUBLASLT_EPILOGUE_BIAS), gelus = has(e, CUBLASLT_EPILOGUE_GELU), grads = has(e, 64),
             bias_grad = has(e, 16);
  for (std::int64_t batch = 0; batch < p.d.batch; ++batch) {
    std::vector<float> x = multiply(p, batch);
    const auto at = [&](std::int64_t i, std::int64_t j) -> float& { return x[static_cast<std::size_t>(j * m + i)]; };
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        float& v = at(i, j);
        v *= p.alpha;
        if (p.beta != 0) v += p.beta * get(p.C, p.c.type, batch * p.c.stride + j * p.c.ld + i);
        const std::int64_t aux = batch * e.aux_stride + j * e.aux_ld + i;
        if (biased) v += get(e.bias, bias_type, batch * e.bias_stride + i);
        if (gelus && has(e, 128)) put(e.aux, aux_type, aux, v);
        if (gelus) v = gelu(v);
        if (grads) v *= gelu_slope(get(e.aux, aux_type, aux));
        put(p.D, p.d.type, batch * p.d.stride + j * p.d.ld + i, v);
      }
    if (bias_grad)
      for (std::int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (std::int64_t j = 0; j < n; ++j) sum += at(i, j);
        put(e.bias, bias_type, batch * e.bias_stride + i, sum);
      }
    if (has(e, CUBLASLT_EPILOGUE_BGRADA) || has(e, CUBLASLT_EPILOGUE_BGRADB)) {
      const bool first = has(e, CUBLASLT_EPILOGUE_BGRADA);  // sums over k of rows of A, or of columns of B
      const auto all = first ? unpacked(p.A, p.a, e.op_a, batch, false) : unpacked(p.B, p.b, e.op_b, batch, false);
      const auto k = static_cast<std::int64_t>(p.k());
      for (std::int64_t i = 0; i < (first ? m : n); ++i) {
        float sum = 0;
        for (std::int64_t t = 0; t < k; ++t) sum += all[static_cast<std::size_t>(first ? t * m + i : i * k + t)];
        put(e.bias, bias_type, batch * e.bias_stride + i, sum);
      }
    }
  }
}

}  // namespace fake_cuda
