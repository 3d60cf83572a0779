// Products on the GPU: their bits from device to device, and what tf32 rounds. Needs a GPU.
#include "engine/device/stream_device.h"
#include "engine/platform/fp64_gemm.h"
#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

namespace {

struct Sizes {
  std::int64_t m, n, k;
};

// x [m, k] times w^T, w [n, k], as a linear layer's forward.
Matmul forward(Tensors& t, const Sizes& z, DType type) {
  const Tensor x = t.in({z.m, z.k}, type), w = t.in({z.n, z.k}, type);
  return {Matrix(x), Matrix(w).t(), Matrix(t.out({z.m, z.n}, type))};
}

}  // namespace

TEST_CASE("an FP64 GEMM, for the check of a machine") {
  const auto gpu = open_device("cuda", 0);
  constexpr std::int64_t kSize = 96;
  const Fp64Gemm gemm = fp64_gemm_on("cuda")(kSize, 0.5);
  CHECK(gemm.result() == std::vector<double>(kSize * kSize, 0));
  for (int i = 0; i < 2; ++i) gemm.run();
  CHECK(gemm.result() == std::vector<double>(kSize * kSize, 0.25 * kSize));
}

// The choice of algorithms may change how long a product takes, not what it gives: two devices choose for
// themselves.
TEST_CASE("the same products on a device opened anew give the same bits") {
  const auto pass = [] {
    const auto gpu = open_device("cuda", 0);
    Tensors t(*gpu);
    for (const DType type : kFloatTypes) {
      const Sizes z{64, 96, 1024};
      for (int call = 0; call < 3; ++call) run(*gpu, forward(t, z, type));
      const Tensor dy = t.in({z.k, z.m}, type), x = t.in({z.k, z.n}, type);
      Matmul weight{Matrix(dy).t(), Matrix(x), Matrix(t.inout({z.m, z.n}, type))};
      weight.beta = 1;
      run(*gpu, weight);
    }
    std::vector<std::vector<std::byte>> bits;
    for (const std::size_t i : t.results()) bits.push_back(t.bits(i));
    return bits;
  };
  const auto first = pass();
  for (int again = 0; again < 2; ++again) CHECK(pass() == first);
}

// Zeros say nothing about algorithms, so that no choice is made by the time the step is recorded.
TEST_CASE("a product whose algorithm is not chosen yet can be recorded, and gives the same bits") {
  const auto gpu = open_device("cuda", 0);
  Tensors t(*gpu);
  const Sizes z{512, 256, 512};
  const Tensor x = t.in({z.m, z.k}, DType::bf16), w = t.in({z.n, z.k}, DType::bf16), y = t.out({z.m, z.n}, DType::bf16);
  const Matmul product{Matrix(x), Matrix(w).t(), Matrix(y)};
  run(*gpu, product);
  std::vector<std::byte> values(x.bytes()), want(y.bytes()), got(y.bytes());
  gpu->read(x, values);
  gpu->read(y, want);
  const auto other = open_device("cuda", 0);  // which has made no choice
  Tensors fresh(*other);
  const Tensor x2 = fresh.in({z.m, z.k}, DType::bf16), w2 = fresh.in({z.n, z.k}, DType::bf16),
               y2 = fresh.out({z.m, z.n}, DType::bf16);
  const Matmul again{Matrix(x2), Matrix(w2).t(), Matrix(y2)};
  run(*other, ops::Fill{x2, 0});
  run(*other, again);
  other->write(x2, values);
  const auto step = other->record([&] { run(*other, again); });
  other->synchronize();
  other->read(y2, got);
  CHECK(got == want);
  run(*other, ops::Fill{y2, 0});
  step->replay();
  other->read(y2, got);
  CHECK(got == want);
}

TEST_CASE("tf32 rounds the operands of f32 products, and of no others") {
  const auto at = [](Precision precision, DType type) {
    const auto gpu = open_device("cuda", 0, precision);
    Tensors t(*gpu);
    run(*gpu, forward(t, {32, 48, 2048}, type));
    return t.now(t.results().at(0));
  };
  for (const DType type : {DType::bf16, DType::f16}) CHECK(at(Precision::tf32, type) == at(Precision::f32, type));
  const auto f32 = at(Precision::f32, DType::f32), tf32 = at(Precision::tf32, DType::f32);
  double worst = 0, size = 0;
  for (std::size_t i = 0; i < f32.size(); ++i) {
    worst = std::max(worst, std::fabs(tf32[i] - f32[i]));
    size += f32[i] * f32[i];
  }
  size = std::sqrt(size / static_cast<double>(f32.size()));
  INFO("largest difference " << worst << " of values of " << size);
  CHECK(worst > 1e-6 * size);  // 10 bits of fraction
  CHECK(worst < 5e-3 * size);
}

// Fused or separate, the op is the same, and what it adds to is added to once, however often the two were timed.
TEST_CASE("the clock chooses where the epilogue of a large product runs, once, and the device says what it chose") {
  Twin twin;
  const auto& device = dynamic_cast<StreamDevice&>(twin.gpu());
  const Sizes large{512, 256, 64}, small{32, 48, 64};
  const auto gelu = [](const Sizes& z) {
    return [z](Tensors& t, Device& on) {
      Matmul op = forward(t, z, DType::bf16);
      op.bias = t.in({z.n}, DType::bf16);
      op.gelu_input = t.out({z.m, z.n}, DType::bf16);
      run(on, op);
    };
  };
  const auto bias_gradient = [](Tensors& t, Device& on) {
    const Tensor dy = t.in({64, 512}, DType::bf16), x = t.in({64, 256}, DType::bf16);
    Matmul op{Matrix(dy).t(), Matrix(x), Matrix(t.inout({512, 256}, DType::bf16))};
    op.beta = 1;
    op.bias_gradient = t.inout({512}, DType::bf16);
    run(on, op);
  };
  twin.compare("small", gelu(small));
  CHECK(device.gemm_choices().empty());
  for (int call = 0; call < 2; ++call) twin.compare("GELU", gelu(large));
  REQUIRE(device.gemm_choices().size() == 1);
  for (int call = 0; call < 2; ++call) twin.compare("gradient of a bias", bias_gradient);
  const std::vector<GemmChoice> choices = device.gemm_choices();
  REQUIRE(choices.size() == 2);
  CHECK(choices[0].gemm == "512 x 256 x 64, bf16 to bf16, bias, GELU");
  CHECK(choices[1].gemm == "512 x 256 x 64, bf16 to bf16, gradient of bias");
  for (const GemmChoice& c : choices) {
    INFO(c.gemm << ": " << c.fused_us << " and " << c.separate_us << " us");
    CHECK((c.fused_us > 0 && c.separate_us > 0));
  }
  CHECK(choices[0].fused == (choices[0].separate_us >= 0.9 * choices[0].fused_us));
  CHECK(choices[1].fused == (choices[1].fused_us < 0.9 * choices[1].separate_us));  // behind the GEMM by default
}
