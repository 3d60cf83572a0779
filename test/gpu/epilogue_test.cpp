// Products with every epilogue on the GPU against the CPU, over shapes that cuBLASLt's epilogues take and
// shapes that are left to our own kernels. Needs a GPU.
#include <fmt/format.h>

#include "test/gpu/twin.h"

using namespace mbench;
using namespace mbench::test;
using ops::Matmul;
using ops::Matrix;

namespace {

struct Sizes {
  std::int64_t m, n, k;
};
// Aligned; a ragged leading dim of the auxiliary tensor; ragged everywhere; single elements; no terms.
constexpr Sizes kSizes[] = {{128, 96, 256}, {32, 512, 48}, {48, 100, 64}, {33, 65, 129},
                            {1, 1, 1},      {5, 7, 3},     {16, 24, 0}};

std::string label(const char* what, const Sizes& z, DType type) {
  return fmt::format("{} {}x{}x{} {}", what, z.m, z.n, z.k, name_of(type));
}

// x [m, k] times w^T, w [n, k], as a linear layer's forward.
Matmul forward(Inputs& in, const Sizes& z, DType type, const Tensor& y) {
  const std::int64_t ld = std::max<std::int64_t>(z.k, 1);
  const Tensor x = in.floats({z.m, ld}, type), w = in.floats({z.n, ld}, type);
  return {Matrix(x, z.m, z.k, ld), Matrix(w, z.n, z.k, ld).t(), Matrix(y)};
}

// Twice the same call: the first chooses how, the second runs what was chosen. Both must be right.
template <class F>
void for_shapes(Twin& twin, const char* what, F&& op) {
  for (const DType type : kFloatTypes)
    for (const Sizes& z : kSizes)
      for (int call = 0; call < 2; ++call)
        twin.compare(label(what, z, type), [&](Inputs& in) { op(in, z, type); });
}

}  // namespace

TEST_CASE("products with a bias agree with the CPU") {
  Twin twin;
  for_shapes(twin, "bias", [](Inputs& in, const Sizes& z, DType type) {
    Matmul op = forward(in, z, type, in.garbage({z.m, z.n}, type));
    op.bias = in.floats({z.n}, type);
    in.run(op);
  });
}

TEST_CASE("products with a GELU agree with the CPU") {
  Twin twin;
  for (const bool bias : {true, false})
    for_shapes(twin, bias ? "bias and gelu" : "gelu", [&](Inputs& in, const Sizes& z, DType type) {
      Matmul op = forward(in, z, type, in.garbage({z.m, z.n}, type));
      op.gelu_input = in.garbage({z.m, z.n}, type);
      if (bias) op.bias = in.floats({z.n}, type);
      in.run(op);
    });
}

TEST_CASE("products with the gradient of a GELU agree with the CPU") {
  Twin twin;
  for_shapes(twin, "gelu gradient", [](Inputs& in, const Sizes& z, DType type) {
    Matmul op = forward(in, z, type, in.garbage({z.m, z.n}, type));
    op.gelu_grad_input = in.floats({z.m, z.n}, type, -3, 3);
    in.run(op);
  });
}

TEST_CASE("products with the gradient of a bias agree with the CPU, and add to it once") {
  Twin twin;
  for (const bool wide : {true, false})
    for_shapes(twin, wide ? "bias gradient in f32" : "bias gradient",
               [&](Inputs& in, const Sizes& z, DType type) {
                 if (z.k == 0) return;
                 const DType to = wide ? DType::f32 : type;
                 const Tensor dy = in.floats({z.k, z.m}, type), x = in.floats({z.k, z.n}, type);
                 Matmul op{Matrix(dy).t(), Matrix(x), Matrix(in.floats({z.m, z.n}, to))};
                 op.beta = 1;
                 op.bias_gradient = in.floats({z.m}, to);
                 in.run(op);
                 in.run(op);
               });
}

TEST_CASE("epilogues on tensors that start anywhere agree with the CPU") {
  Twin twin;
  for (const DType type : kFloatTypes)
    for (const std::int64_t skip : {1, 8})
      twin.compare(fmt::format("epilogues {} elements in, {}", skip, name_of(type)), [&](Inputs& in) {
        const Sizes z{64, 96, 32};
        const auto from = [&](const Tensor& all, const Shape& shape) { return all.part(skip, shape); };
        const Tensor y = in.garbage({skip + z.m * z.n}, type), kept = in.garbage({skip + z.m * z.n}, type);
        Matmul op = forward(in, z, type, from(y, {z.m, z.n}));
        op.bias = from(in.floats({skip + z.n}, type), {z.n});
        op.gelu_input = from(kept, {z.m, z.n});
        in.run(op);
        Matmul grad = forward(in, z, type, in.garbage({z.m, z.n}, type));
        grad.gelu_grad_input = op.gelu_input;
        in.run(grad);
      });
}

// The choice of algorithms may change how long a product takes, not what it gives: two devices choose for
// themselves.
TEST_CASE("the same products on a device opened anew give the same bits") {
  const auto pass = [] {
    const auto gpu = open_device("cuda", 0);
    Inputs in(*gpu, 7);
    for (const DType type : kFloatTypes) {
      const Sizes z{64, 96, 1024};
      for (int call = 0; call < 3; ++call) in.run(forward(in, z, type, in.garbage({z.m, z.n}, type)));
      const Tensor dy = in.floats({z.k, z.m}, type), x = in.floats({z.k, z.n}, type);
      Matmul weight{Matrix(dy).t(), Matrix(x), Matrix(in.floats({z.m, z.n}, type))};
      weight.beta = 1;
      in.run(weight);
    }
    return in.values();
  };
  const auto first = pass();
  for (int again = 0; again < 2; ++again) CHECK(pass() == first);
}

TEST_CASE("tf32 rounds the operands of f32 products, and of no others") {
  const auto at = [](Precision precision, DType type) {
    const auto gpu = open_device("cuda", 0, precision);
    Inputs in(*gpu, 3);
    const Sizes z{32, 48, 2048};
    const Tensor c = in.garbage({z.m, z.n}, type);
    in.run(forward(in, z, type, c));
    return in.values()[0];
  };
  for (const DType type : {DType::bf16, DType::f16})
    CHECK(at(Precision::tf32, type) == at(Precision::f32, type));
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
