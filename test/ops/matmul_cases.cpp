#include "engine/ops/matmul.h"
#include "test/ops/cases.h"
#include "test/ops/gelu.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Matmul;
using ops::Matrix;

std::int64_t place(const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
  if (m.transposed) std::swap(r, c);
  return m.offset + i * m.batch_stride + r * m.ld + c;
}

void reference(const Matmul& op, Doubles& v) {
  const Values &a = v[op.a.data], &b = v[op.b.data];
  const Tensor& first = op.gelu_input ? op.gelu_input : op.c.data;  // of the product with its bias
  Values& c = v.out(op.c.data);
  for (std::int64_t i = 0; i < op.batch; ++i)
    for (std::int64_t r = 0; r < op.c.rows; ++r)
      for (std::int64_t j = 0; j < op.c.cols; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < op.a.cols; ++k) sum += a[place(op.a, i, r, k)] * b[place(op.b, i, k, j)];
        double& out = c[place(op.c, i, r, j)];
        out = op.alpha * sum + (op.beta == 0 ? 0 : op.beta * out) + (op.bias ? v[op.bias][j] : 0);
        const std::int64_t flat = r * op.c.cols + j;
        if (op.gelu_grad_input) out *= gelu_slope(v[op.gelu_grad_input][flat]);
        if (!op.gelu_input) continue;
        v.out(first)[flat] = out;
        out = gelu(out);
      }
  if (!op.bias_gradient) return;
  for (std::int64_t r = 0; r < op.a.rows; ++r)
    for (std::int64_t k = 0; k < op.a.cols; ++k) v.out(op.bias_gradient)[r] += a[place(op.a, 0, r, k)];
}

struct Sizes {
  std::int64_t m, n, k, batch = 1;
};
struct Types {
  DType in, out;
};
enum Turned { none = 0, a = 1, b = 2, both = 3 };

std::string name(const Sizes& z, const Types& t) {
  return fmt::format("{} to {} {}x{}x{}{}", name_of(t.in), name_of(t.out), z.m, z.n, z.k,
                     z.batch > 1 ? fmt::format(" batch {}", z.batch) : "");
}

// Matrices with a gap of `gap` elements after every row and between those of a batch.
Matmul make(Tensors& t, const Sizes& z, const Types& types, int turned, std::int64_t gap, float alpha, float beta) {
  const auto matrix = [&](std::int64_t rows, std::int64_t cols, bool turn, const auto& tensor) {
    if (turn) std::swap(rows, cols);
    const std::int64_t ld = cols + gap, stride = rows * ld + gap;
    const Matrix m(tensor({gap + std::max<std::int64_t>(1, z.batch * stride)}), rows, cols, ld, gap, stride);
    return turn ? m.t() : m;
  };
  const auto in = [&](const Shape& s) { return t.in(s, types.in); };
  const Matrix left = matrix(z.m, z.k, turned & a, in), right = matrix(z.k, z.n, turned & b, in);
  const Matrix c = matrix(z.m, z.n, false, [&](const Shape& s) {
    return gap == 0 && beta == 0 ? t.out(s, types.out) : t.inout(s, types.out);
  });
  return {left, right, c, z.batch, alpha, beta};
}

enum class Epilogue { bias, bias_gelu, gelu, gelu_grad };
constexpr const char* kEpilogues[] = {" with a bias", " with a bias and GELU", " with GELU", " with GELU's gradient"};

// As a linear layer's forward, or the gradient through its activation.
Matmul make_epilogue(Tensors& t, const Sizes& z, DType type, Epilogue epilogue) {
  const std::int64_t ld = std::max<std::int64_t>(z.k, 1);
  const Tensor x = t.in({z.m, ld}, type), w = t.in({z.n, ld}, type);
  Matmul op{Matrix(x, z.m, z.k, ld), Matrix(w, z.n, z.k, ld).t(), Matrix(t.out({z.m, z.n}, type))};
  if (epilogue == Epilogue::gelu_grad) {
    op.gelu_grad_input = t.in({z.m, z.n}, type, -4, 4);
    return op;
  }
  if (epilogue != Epilogue::gelu) op.bias = t.in({z.n}, type);
  if (epilogue != Epilogue::bias) op.gelu_input = t.out({z.m, z.n}, type);
  return op;
}

// As a linear layer's weight gradient, which adds the bias's.
Matmul make_weight_gradient(Tensors& t, const Sizes& z, DType type, DType gradients) {
  const Tensor dy = t.in({z.k, z.m}, type), x = t.in({z.k, z.n}, type);
  Matmul op{Matrix(dy).t(), Matrix(x), Matrix(t.inout({z.m, z.n}, gradients))};
  op.beta = 1, op.bias_gradient = t.inout({z.m}, gradients);
  return op;
}

// Sums of k products lie this far from those in double.
double sum_error(std::int64_t k) {
  return 1e-6 * std::sqrt(static_cast<double>(k) + 1);
}
Within within(std::int64_t k) {
  return {.cpu = {sum_error(k)}, .kernel = kExact, .gpu = 2, .calls = 2};
}
// Each op that an epilogue is made of rounds once more.
Within epilogue_within(DType type, std::int64_t k, double roundings) {
  return {.cpu = {4 * epsilon(type) + sum_error(k), 2e-6, roundings}, .calls = 2};
}

void add_products(CaseList<Matmul>& cases) {
  const auto add = [&](const Sizes& z, const Types& types, int turned, std::int64_t gap, float alpha, float beta) {
    const std::string how =
        fmt::format("{} layout {} gap {} alpha {} beta {}", name(z, types), turned, gap, alpha, beta);
    Within limits = within(z.k);
    if (types.out != types.in && types.out != DType::f32) limits.gpu = 0;  // cuBLASLt has no such product
    cases.unemulated(
        how, [=](Tensors& t) { return make(t, z, types, turned, gap, alpha, beta); }, limits);
  };
  for (const DType in : kFloatTypes)
    for (const DType out : kFloatTypes)
      for (int turned = 0; turned < 4; ++turned) {
        add({17, 29, 23}, {in, out}, turned, 3, 1, 0);
        add({5, 33, 7, 6}, {in, out}, turned, 3, 0.5f, 1);
        add({1, 1, 1, 2}, {in, out}, turned, 3, 2, -0.25f);
        add({4, 3, 2}, {in, out}, turned, 0, 1, 0);  // into NaN
        if (out != in && out != DType::f32) continue;
        for (const Sizes& z : {Sizes{5, 7, 3}, Sizes{33, 65, 129}, Sizes{16, 24, 40, 6}})
          for (const float beta : {0.0f, 1.0f}) add(z, {in, out}, turned, 8, 0.5f, beta);
        add({256, 192, 512}, {in, out}, turned, 8, 0.5f, turned % 2 == 0 ? 1.0f : 0.0f);
      }
  // Over the borders of the panels in which the CPU widens 16-bit operands.
  for (const DType in : {DType::bf16, DType::f16})
    for (const DType out : {DType::f32, DType::bf16}) {
      add({515, 7, 2050}, {in, out}, b, 3, 1, 1);
      add({3, 520, 2049}, {in, out}, a, 0, 1, 0);
      add({514, 516, 9, 3}, {in, out}, none, 3, 1, 0.5f);
    }
  for (const DType out : {DType::f32, DType::f16}) {  // and of those in which it splits fp16
    add({1026, 5, 9}, {DType::f16, out}, a, 3, 0.5f, 1);
    add({3, 1027, 2051, 2}, {DType::f16, out}, b, 3, 1, 0.5f);
  }
  // Over no terms, where no library is asked.
  for (const DType type : kFloatTypes)
    for (const std::int64_t n : {1, 31, 33, 64, 255, 1027})
      for (const std::int64_t batch : {1, 3})
        for (const float beta : {0.0f, 1.0f, 0.3f}) {
          const Sizes z{3, n, 0, batch};
          cases.add(
              fmt::format("{} beta {}", name(z, {type, type}), beta),
              [=](Tensors& t) {
                return make(t, z, {type, type}, none, 5, 1, beta);
              },
              within(0));
        }
  cases.add(
      "over no terms, into NaN",
      [](Tensors& t) {
        return make(t, {5, 7, 0}, {DType::bf16, DType::bf16}, none, 0, 1, 0);
      },
      within(0));
}

void add_epilogues(CaseList<Matmul>& cases) {
  for (const DType type : kFloatTypes) {
    // Aligned; a ragged leading dim of the auxiliary tensor; ragged everywhere; single elements; no terms.
    for (const Sizes& z : {Sizes{128, 96, 256}, Sizes{32, 512, 48}, Sizes{48, 100, 64}, Sizes{33, 65, 129},
                           Sizes{19, 1030, 8}, Sizes{1, 1, 1}, Sizes{5, 7, 3}, Sizes{16, 24, 0}})
      for (const Epilogue e : {Epilogue::bias, Epilogue::bias_gelu, Epilogue::gelu, Epilogue::gelu_grad})
        cases.unemulated(
            name(z, {type, type}) + kEpilogues[static_cast<int>(e)],
            [=](Tensors& t) { return make_epilogue(t, z, type, e); },
            epilogue_within(type, z.k, e == Epilogue::bias || e == Epilogue::gelu_grad ? 2 : 4));
    for (const DType gradients : sum_types(type))
      for (const Sizes& z : {Sizes{128, 96, 256}, Sizes{48, 100, 64}, Sizes{33, 65, 129}, Sizes{1, 1, 1},
                             Sizes{13, 7, 50}, Sizes{64, 24, 333}})
        cases.unemulated(name(z, {type, gradients}) + " with a bias's gradient",
                         [=](Tensors& t) { return make_weight_gradient(t, z, type, gradients); },
                         {.cpu = {2e-5}, .calls = 2});
  }
}

// The gradients of y = gelu(x w^T + b), from what its forward kept.
void add_gradients(CaseList<Matmul>& cases) {
  const Sizes z{3, 5, 4};
  const DType f = DType::f32;
  cases.gradient(
      "x of x w^T",
      [=](Tensors& t) {
        return make(t, z, {f, f}, b, 0, 1, 0);
      },
      [=](Tensors& t, const Matmul& op) {
        const Tensor dy = t.in({z.m, z.n}, f), dx = t.out({z.m, z.k});
        return Backward{Matmul{Matrix(dy, z.m, z.n, z.n), op.b.t(), Matrix(dx)}, {op.c.data, dy, {{op.a.data, dx}}}};
      });
  cases.gradient(
      "w and b of x w^T + b", [=](Tensors& t) { return make_epilogue(t, z, f, Epilogue::bias); },
      [=](Tensors& t, const Matmul& op) {
        const Tensor dy = t.in({z.m, z.n}, f), dw = t.inout({z.n, z.k}, f), db = t.inout({z.n}, f);
        Matmul grad{Matrix(dy).t(), op.a, Matrix(dw)};
        grad.beta = 1, grad.bias_gradient = db;
        return Backward{grad, {op.c.data, dy, {{op.b.data, dw}, {op.bias, db}}}};
      });
  // dy through the GELU, by the product of an identity: the slope by the bias of one row.
  cases.gradient(
      "b of gelu(x w^T + b)",
      [=](Tensors& t) {
        return make_epilogue(t, {1, 5, 4}, f, Epilogue::bias_gelu);
      },
      [=](Tensors& t, const Matmul& op) {
        const Tensor one = t.values({1, 1}, f, {1}), dy = t.in({1, 5}, f), db = t.out({1, 5});
        Matmul grad{Matrix(one), Matrix(dy), Matrix(db)};
        grad.gelu_grad_input = op.gelu_input;
        return Backward{grad, {op.c.data, dy, {{op.bias, db}}}};
      });
}

void add_timed(CaseList<Matmul>& cases) {
  constexpr DType f32 = DType::f32, b16 = DType::bf16, f16 = DType::f16;
  constexpr std::int64_t tokens = kBenchTokens, width = kBenchWidth, ffn = kBenchFfn;
  const auto add = [&](const char* what, const Sizes& z, int turned, const Types& types = {DType::f32, DType::f32}) {
    cases.timed(what, [=](Tensors& t) { return make(t, z, types, turned, 0, 1, 0); });
  };
  add("qkv", {tokens, 3 * width, width}, b);
  add("proj", {tokens, width, width}, b);
  add("fc1", {tokens, ffn, width}, b);
  add("fc2", {tokens, width, ffn}, b);
  add("fc1 dx", {tokens, width, ffn}, none);
  add("fc1 dw", {ffn, width, tokens}, a);
  add("logits", {tokens, kBenchVocabulary, width}, b);
  add("fc1 bf16", {tokens, ffn, width}, b, {b16, b16});
  add("fc1 dw bf16", {ffn, width, tokens}, a, {b16, f32});
  add("fc1 f16", {tokens, ffn, width}, b, {f16, f16});
  for (const DType type : {f32, b16})
    cases.timed(type == f32 ? "scores" : "scores bf16", [=](Tensors& t) {
      const Tensor qkv = t.in({tokens, 3 * width}, type), scores = t.out(kScores, type);
      const auto part = [&](std::int64_t i) {
        return Matrix(qkv, tokens, kBenchHeadDim, 3 * width, i * kBenchHeadDim, 3 * kBenchHeadDim);
      };
      return Matmul{part(0), part(1).t(), Matrix(scores, tokens, tokens, tokens, 0, tokens * tokens), kBenchHeads};
    });
  cases.enqueued(1, [](Tensors& t) { return make(t, {256, 256, 256}, {DType::bf16, DType::bf16}, none, 0, 1, 0); });
  cases.huge("over no terms", [](Tensors& t) {
    return make(t, {65536, 65536, 0, 2}, {DType::bf16, DType::bf16}, none, 0, 1, 0);
  });
}

const Cases<Matmul> matmul(reference, [](CaseList<Matmul>& cases) {
  add_products(cases);
  add_epilogues(cases);
  add_gradients(cases);
  add_timed(cases);
});

}  // namespace
}  // namespace mbench::test
