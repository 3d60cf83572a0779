#include "engine/nn/moe/expert_gemms.h"

#include "engine/nn/linear/weight_gradient.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

using Gemm = ExpertGemm;

// Experts of equal shares are one batched product.
ops::Matmul batched(Gemm gemm, const Tensor& x, const Tensor& w, const Tensor& y, std::int64_t rows) {
  const std::int64_t in = w.shape()[2], out = w.shape()[1];
  const ops::Matrix mx(x, rows, in, in, 0, rows * in), mw(w, out, in, in, 0, out * in),
      my(y, rows, out, out, 0, rows * out);
  ops::Matmul m;
  m.batch = w.shape()[0];
  switch (gemm) {
    case Gemm::forward:
      m.a = mx, m.b = mw.t(), m.c = my;
      break;
    case Gemm::input_gradient:
      m.a = my, m.b = mw, m.c = mx;
      break;
    case Gemm::weight_gradient:
      m.a = my.t(), m.b = mx, m.c = mw;
      break;
  }
  return m;
}

}  // namespace

// The framework's module makes the products of experts in groups in one call.
void charge_expert_gemms(Context& c, const Tensor& weights, int times) {
  c.device.host_work(HostWork::gemm, c.keeps().grouped_experts ? times : times * static_cast<int>(weights.shape()[0]));
}

void multiply_by_expert(Context& c, Gemm gemm, const Tensor& x, const Tensor& w, const Tensor& y,
                        const ExpertRows& rows, float beta) {
  charge_expert_gemms(c, w);
  const FullestRank fullest(c.device, rows.fullest);
  const VaryingRows varying(c.device, gemm == Gemm::weight_gradient ? 0 : rows.deviation);
  if (!c.keeps().grouped_experts)
    return for_each_expert(rows, w.shape()[0], [&](std::int64_t e, std::int64_t first, std::int64_t count) {
      ops::Matmul m = batched(gemm, x.slice(first, count), w.slice(e, 1), y.slice(first, count), count);
      m.beta = beta;
      run(c.device, m);
    });
  if (rows.each == 0) return run(c.device, ops::GroupedMatmul{gemm, x, w, y, rows.offsets, beta});
  ops::Matmul m = batched(gemm, x, w, y, rows.each);
  m.beta = beta;
  run(c.device, m);
}

void add_gradient_by_expert(Context& c, const Tensor& x, Parameter& weight, const Tensor& y, const ExpertRows& rows) {
  if (!weight.trains) return;
  const FullestRank fullest(c.device, rows.fullest);
  if (!c.keeps().grouped_experts) {
    charge_expert_gemms(c, weight.gradient);
    return for_each_expert(
        rows, weight.gradient.shape()[0], [&](std::int64_t e, std::int64_t first, std::int64_t count) {
          WeightGradient made(c, weight, weight.gradient.slice(e, 1));
          ops::Matmul m =
              batched(Gemm::weight_gradient, x.slice(first, count), made.target(), y.slice(first, count), count);
          m.beta = made.beta();
          run(c.device, m);
          made.finish();
        });
  }
  WeightGradient made(c, weight, weight.gradient);
  multiply_by_expert(c, Gemm::weight_gradient, x, made.target(), y, rows, made.beta());
  made.finish();
}

}  // namespace mbench::nn
