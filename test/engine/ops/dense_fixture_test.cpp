// Matmul, biases, norms and activations against PyTorch.
#include "test/engine/ops/fixture.h"

using namespace mbench;
using fixture::Bench;
using fixture::cases;

TEST_CASE("matmul agrees with PyTorch in every transpose") {
  Bench bench;
  for (const auto& c : cases("matmul")) {
    CAPTURE(c.at("name"));
    const std::int64_t m = c.at("m"), n = c.at("n"), k = c.at("k"), batch = c.at("batch");
    const bool ta = c.at("a_transposed"), tb = c.at("b_transposed");
    const Tensor a = bench.f32(c.at("a")), b = bench.f32(c.at("b"));
    // beta 0 must not read C: NaN there would survive a multiplication by zero.
    const float beta = c.at("beta");
    const Tensor out = beta == 0 ? bench.filled({batch, m, n}, NAN) : bench.f32(c.at("c"));
    ops::Matmul op;
    op.a = ta ? ops::Matrix(a, k, m, m, 0, m * k).t() : ops::Matrix(a, m, k, k, 0, m * k);
    op.b = tb ? ops::Matrix(b, n, k, k, 0, n * k).t() : ops::Matrix(b, k, n, n, 0, n * k);
    op.c = ops::Matrix(out, m, n, n, 0, m * n);
    op.batch = batch;
    op.alpha = c.at("alpha");
    op.beta = beta;
    bench.run(op);
    bench.check("c", out, c.at("result"));
  }
}

TEST_CASE("bias_add and its gradient agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("bias_add")) {
    CAPTURE(c.at("name"));
    const Tensor x = bench.f32(c.at("x")), bias = bench.f32(c.at("bias")), dy = bench.f32(c.at("dy"));
    const Tensor y = bench.like(x), dbias = bench.like(bias, 0);
    bench.run(ops::BiasAdd{x, bias, y});
    bench.check("y", y, c.at("y"));
    bench.run(ops::BiasAdd{x, bias, x});
    bench.check("y in place", x, c.at("y"));
    bench.run(ops::BiasGrad{dy, dbias});
    bench.check("dbias", dbias, c.at("dbias"));
  }
}

TEST_CASE("parameter gradients accumulate") {
  Bench bench;
  const auto c = cases("bias_add").at(1);
  const Tensor dy = bench.f32(c.at("dy")), dbias = bench.like(bench.f32(c.at("bias")), 0);
  bench.run(ops::BiasGrad{dy, dbias});
  bench.run(ops::BiasGrad{dy, dbias});
  auto twice = c.at("dbias");
  for (auto& v : twice.at("data")) v = 2 * v.get<double>();
  bench.check("dbias of two micro batches", dbias, twice);
}

TEST_CASE("layer_norm and its gradients agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("layer_norm")) {
    CAPTURE(c.at("name"));
    const Tensor x = bench.f32(c.at("x")), gamma = bench.f32(c.at("gamma")), beta = bench.f32(c.at("beta"));
    const Tensor dy = bench.f32(c.at("dy")), residual = bench.f32(c.at("residual"));
    const Tensor y = bench.like(x), mean = bench.f32(c.at("mean")), rstd = bench.f32(c.at("rstd"));
    ops::LayerNorm forward{x, gamma, beta, y, bench.like(mean), bench.like(rstd), 1e-5f};
    bench.run(forward);
    // Around 300 an f32 input has only 3e-5 of absolute resolution, and the mean as much.
    const double tolerance = std::abs(bench.values<float>(x)[0]) > 100 ? 1e-4 : 1e-5;
    bench.check("y", y, c.at("y"), tolerance);
    bench.check("mean", forward.mean, c.at("mean"));
    bench.check("rstd", forward.rstd, c.at("rstd"));

    const Tensor dx = bench.like(x), dgamma = bench.like(gamma, 0), dbeta = bench.like(beta, 0);
    bench.run(ops::LayerNormGrad{dy, x, forward.mean, forward.rstd, gamma, {}, dx, dgamma, dbeta});
    bench.check("dx", dx, c.at("dx"), tolerance);
    bench.check("dgamma", dgamma, c.at("dgamma"), tolerance);
    bench.check("dbeta", dbeta, c.at("dbeta"));
    // With the by-passing gradient added, in place of it.
    bench.run(ops::LayerNormGrad{dy, x, forward.mean, forward.rstd, gamma, residual, residual, dgamma, dbeta});
    bench.check("dx + residual", residual, c.at("dx_residual"), tolerance);
  }
}

TEST_CASE("bias_gelu and its gradient agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("bias_gelu")) {
    CAPTURE(c.at("name"));
    const Tensor x = bench.f32(c.at("x")), bias = bench.f32(c.at("bias")), dy = bench.f32(c.at("dy"));
    const Tensor y = bench.like(x), dx = bench.like(x), dbias = bench.like(bias, 0);
    bench.run(ops::BiasGelu{x, bias, y});
    bench.check("y", y, c.at("y"));
    bench.run(ops::BiasGeluGrad{dy, x, bias, dx});
    bench.check("dx", dx, c.at("dx"));
    bench.run(ops::BiasGrad{dx, dbias});
    bench.check("dbias", dbias, c.at("dbias"));
    // The same without a bias operand, the bias added beforehand.
    bench.run(ops::BiasAdd{x, bias, x});
    bench.run(ops::BiasGelu{x, {}, y});
    bench.check("y without bias", y, c.at("y"));
    bench.run(ops::BiasGeluGrad{dy, x, {}, dy});
    bench.check("dx in place", dy, c.at("dx"));
  }
}

TEST_CASE("tanh and its gradient agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("tanh")) {
    const Tensor x = bench.f32(c.at("x")), dy = bench.f32(c.at("dy")), y = bench.like(x), dx = bench.like(x);
    bench.run(ops::Tanh{x, y});
    bench.check("y", y, c.at("y"));
    bench.run(ops::TanhGrad{dy, y, dx});
    bench.check("dx", dx, c.at("dx"));
  }
}

TEST_CASE("embedding and its gradient agree with PyTorch, whole and in shards") {
  Bench bench;
  for (const auto& c : cases("embedding")) {
    CAPTURE(c.at("name"));
    const Tensor ids = bench.i64(c.at("ids")), table = bench.f32(c.at("table")), dy = bench.f32(c.at("dy"));
    const Tensor y = bench.like(dy), dtable = bench.like(table, 0);
    bench.run(ops::Embedding{ids, table, y});
    bench.check("y", y, c.at("y"));
    bench.run(ops::EmbeddingGrad{ids, dy, dtable});
    bench.check("dtable", dtable, c.at("dtable"));

    // Two shards of the table: their outputs add up to the whole, their gradients are its parts.
    const std::int64_t rows = table.shape()[0], half = rows / 2;
    const Tensor sum = bench.like(y), whole = bench.like(table, 0);
    bench.run(ops::Embedding{ids, table.slice(0, half), sum, 0});
    bench.run(ops::Embedding{ids, table.slice(half, rows - half), sum, half, true});
    bench.check("sum of shards", sum, c.at("y"));
    bench.run(ops::EmbeddingGrad{ids, dy, whole.slice(0, half), 0});
    bench.run(ops::EmbeddingGrad{ids, dy, whole.slice(half, rows - half), half});
    bench.check("dtable of shards", whole, c.at("dtable"));
  }
}
