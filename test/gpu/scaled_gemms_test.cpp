// FP8 and FP4 GEMMs with scales of rows or blocks, which only some GPUs have: there they agree with the CPU's, elsewhere they say what they need.
// On the fake GPU, one of compute capability 9.0, those of rows, of 1 x 128 and of 128 x 128 run. So it is with FP8 operands that lie turned.
#include "engine/backend/cuda/cuda.h"
#include "engine/device/fp8_layouts.h"
#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::test;
using ops::Fp8Blocks;

namespace {

// Tensor cores keep some 13 bits of a block's sum, which is then added in f32.
constexpr double kLooser = 10;

Fp8Blocks blocks_of(const Case& c) {
  for (const auto& [name, by] : {std::pair{"by blocks", Fp8Blocks::rows},
                                 {"by rows", Fp8Blocks::whole_rows},
                                 {"by MX", Fp8Blocks::mx},
                                 {"of NVFP4", Fp8Blocks::nv}})
    if (c.name.find(name) != std::string::npos) return by;
  FAIL("[scaled GEMMs] case " << c.name << ", got no kind of scales, need one of those above");
  return Fp8Blocks::tensor;
}

// What the refusal of a GPU that lacks them says; nothing for others.
std::optional<std::string> why_lacking(const Case& c, int capability) {
  if (c.name.find("turned") == std::string::npos) return cuda::why_no_fp8(capability, blocks_of(c));
  if (multiplies_turned_fp8(capability)) return std::nullopt;
  return "FP8 operands that lie along their outer dim";
}

// Empty where it ran.
std::string refusal_of(const Case& c, Device& gpu) {
  Tensors tensors(gpu, {});
  try {
    c.make(tensors)->run(gpu);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("products with scales of rows or blocks agree with the CPU's, or the GPU lacks them and says so") {
  Twin twin;
  const Gpu gpu = gpus().at(0);
  int compared = 0, lacking = 0, old = 0;
  for (const OpCases& op : all_op_cases())
    if (op.op == ops::Fp8Matmul::name)
      for (Case c : op.unemulated) {
        if (c.within.gpu > 0) continue;  // cases_test.cpp has these
        CAPTURE(c.name);
        c.within.gpu = kLooser;
        const std::string refusal = refusal_of(c, twin.gpu());
        if (refusal.find("need a binary built with CUDA 12.9") != std::string::npos) {
          ++old;
        } else if (const auto why = why_lacking(c, 10 * gpu.major + gpu.minor)) {
          CHECK_THAT(refusal, Catch::Contains(*why));
          ++lacking;
        } else {
          CHECK(refusal == "");
          twin.compare(c);
          ++compared;
        }
      }
  CHECK(compared + lacking + old == 21);
  if (gpu.major >= 9 && old == 0) CHECK(compared >= 6);
}

TEST_CASE("scales of rows and of blocks of 128 are for compute capability 9.0, those of MX and NVFP4 from 10.0 on") {
  for (const Fp8Blocks by : {Fp8Blocks::whole_rows, Fp8Blocks::rows, Fp8Blocks::squares}) {
    CHECK_FALSE(cuda::why_no_fp8(90, by));
    for (const int capability : {80, 89, 100, 120}) CHECK(cuda::why_no_fp8(capability, by));
  }
  for (const Fp8Blocks by : {Fp8Blocks::mx, Fp8Blocks::nv, Fp8Blocks::nv_squares}) {
    for (const int capability : {100, 103, 120}) CHECK_FALSE(cuda::why_no_fp8(capability, by));
    for (const int capability : {80, 89, 90}) CHECK(cuda::why_no_fp8(capability, by));
  }
}

TEST_CASE("FP8 operands of any layout are for compute capability 10.0 to 11 and from 13.0 on") {
  for (const int capability : {100, 103, 110, 130}) CHECK(multiplies_turned_fp8(capability));
  for (const int capability : {80, 89, 90, 120, 121}) CHECK_FALSE(multiplies_turned_fp8(capability));
}

TEST_CASE("a GEMM of operands whose scales are elements of an array gives the bits of one whose scales lie alone") {
  const auto gpu = open_device("cuda", 0);
  if (cuda::why_no_fp8(10 * gpus().at(0).major + gpus().at(0).minor, Fp8Blocks::tensor)) return;
  Tensors t(*gpu);
  const Tensor a = t.in({32, 64}, DType::e4m3, -4, 4), b = t.in({48, 64}, DType::e5m2, -4, 4);
  const Tensor scales = t.values({4}, DType::f32, {0, 0.25, 0.5, 0});
  const Tensor of_a = t.values({1}, DType::f32, {0.25}), of_b = t.values({1}, DType::f32, {0.5});
  const Tensor alone = t.out({32, 48}, DType::bf16), within = t.out({32, 48}, DType::bf16);
  mbench::run(*gpu, ops::Fp8Matmul{{a, of_a}, {b, of_b}, alone, 0});
  mbench::run(*gpu, ops::Fp8Matmul{{a, scales.slice(1, 1)}, {b, scales.slice(2, 1)}, within, 0});
  std::vector<std::byte> first(alone.bytes()), second(within.bytes());
  gpu->read(alone, first);
  gpu->read(within, second);
  const bool same_bits = first == second;
  CHECK(same_bits);
}
