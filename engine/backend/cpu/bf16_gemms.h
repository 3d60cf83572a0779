// GEMMs of bf16 operands on a CPU's bf16 instructions (AMX or AVX512_BF16), computed by oneDNN with f32 sums. A CPU without them, or a
// build without oneDNN, widens operands to f32 and uses BLAS (matmul.cpp) or block_gemm.h.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mbench::cpu {

// What a GEMM is made for; the addresses of its matrices come with each call. C[i] = alpha A[i] B[i] (+ bias) + beta C[i].
struct Bf16Shape {
  struct Place {
    std::int64_t ld = 0;
    std::int64_t batch_stride = 0;  // ignored where the batch is 1
    bool transposed = false;        // stored as cols x rows; never c
    auto operator<=>(const Place&) const = default;
  };
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // all at least 1
  Place a, b, c;
  bool to_f32 = false;  // c, and the bias; else they are bf16
  bool bias = false;    // [n], added to every row
  float alpha = 1, beta = 0;
  auto operator<=>(const Bf16Shape&) const = default;
};

class Bf16Gemm {
 public:
  virtual ~Bf16Gemm() = default;
  virtual std::size_t scratch_bytes() const = 0;
  // Called outside of parallel regions: it uses all threads. `scratch` is aligned to a cache line; `bias` is null where the shape has none.
  virtual void run(const void* a, const void* b, void* c, const void* bias, void* scratch) = 0;
};

class Bf16Gemms {
 public:
  virtual ~Bf16Gemms() = default;
  // Code for GEMMs of that shape, made at the first call and kept; valid until the next call. Null where oneDNN has only its reference
  // implementation, which is slower than widening.
  virtual Bf16Gemm* find(const Bf16Shape& shape) = 0;
  // Whether they run on matrix units (AMX), at ten times the rate of f32 and more. AVX512_BF16 reaches twice the rate of f32.
  virtual bool matrix_units() const = 0;
};

// Null where this CPU or this build has none.
std::unique_ptr<Bf16Gemms> open_bf16_gemms();

// "AMX" or "AVX512_BF16": what open_bf16_gemms() would use. Empty if it would be null.
std::string bf16_instructions();
// Whether GEMMs by them are faster than in f32: on AMX, and where AVX512_BF16 multiplies at twice the rate of f32 (AMD). Intel's runs in
// one of the two units that f32 has, so at best it keeps pace.
bool bf16_instructions_pay();
// The library with its version; empty where it is not built in.
std::string onednn_library();

}  // namespace mbench::cpu
