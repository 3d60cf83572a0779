#include "engine/ops/adafactor.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::AdafactorSums& op, Doubles& v) {
  const Values& grad = v[op.grad];
  Values &row = v.out(op.row), &column = v.out(op.column);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double g = op.grad_scale * grad[i], square = g * g + op.eps;
    row[i / column.size()] += square;
    column[i % column.size()] += square;
  }
}

void reference(const ops::AdafactorMoments& op, Doubles& v) {
  Values &row = v.out(op.row), &column = v.out(op.column);
  double rows = 0, columns = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    rows += row[i] = op.beta2 * row[i] + (1.0 - op.beta2) * v[op.row_sum][i] / static_cast<double>(op.cols);
  for (std::size_t i = 0; i < column.size(); ++i)
    columns += column[i] = op.beta2 * column[i] + (1.0 - op.beta2) * v[op.column_sum][i] / static_cast<double>(op.rows);
  v.out(op.mean)[0] = op.mean_of_rows ? rows / static_cast<double>(op.rows) : columns / static_cast<double>(op.cols);
}

template <class Op>
double update(const Op& op, const Doubles& v, std::size_t i) {
  const std::size_t cols = v[op.column].size();
  return op.grad_scale * v[op.grad][i] / std::sqrt(v[op.row][i / cols] / v[op.mean][0] * v[op.column][i % cols]);
}

void reference(const ops::AdafactorSquares& op, Doubles& v) {
  double& sum = v.out(op.sum)[0];
  for (std::size_t i = 0; i < v[op.grad].size(); ++i) sum += std::pow(update(op, v, i), 2);
}

void reference(const ops::AdafactorUpdate& op, Doubles& v) {
  Values& p = v.out(op.param);
  const double rms = std::sqrt(v[op.squares][0] / static_cast<double>(op.elements));
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] -= op.lr * (update(op, v, i) / std::max(1.0, rms / op.clip) + op.weight_decay * p[i]);
  if (op.model) v.out(op.model) = p;
}

const Shape kMatrices[] = {{1, 1}, {33, 1}, {1, 70}, {7, 33}, {130, 64}, {65, 257}};

ops::AdafactorSums sums(Tensors& t, const Shape& s, DType grad) {
  return {t.in(s, grad, -4, 4), t.inout({s[0]}, DType::f32, 0, 1), t.inout({s[1]}, DType::f32, 0, 1), 0.25f, 1e-3f};
}

ops::AdafactorMoments moments(Tensors& t, std::int64_t rows, std::int64_t cols, bool mean_of_rows) {
  ops::AdafactorMoments op;
  op.row_sum = t.in({rows}, DType::f32, 0, 1), op.column_sum = t.in({cols}, DType::f32, 0, 1);
  op.row = t.inout({rows}, DType::f32, 0, 1), op.column = t.inout({cols}, DType::f32, 0, 1);
  op.mean = t.out({1});
  op.rows = mean_of_rows ? rows : 4 * rows, op.cols = mean_of_rows ? 2 * cols : cols;
  op.mean_of_rows = mean_of_rows, op.beta2 = 0.7f;
  return op;
}

ops::AdafactorSquares squares(Tensors& t, const Shape& s, DType grad) {
  return {t.in(s, grad),
          t.in({s[0]}, DType::f32, 0.1, 1),
          t.in({s[1]}, DType::f32, 0.1, 1),
          t.values({1}, DType::f32, {0.5}),
          t.inout({1}, DType::f32, 0, 1),
          0.25f};
}

ops::AdafactorUpdate whole_update(Tensors& t, const Shape& s, DType grad, DType model, double rms) {
  ops::AdafactorUpdate op;
  op.param = t.inout(s, DType::f32), op.grad = t.in(s, grad);
  op.row = t.in({s[0]}, DType::f32, 0.1, 1), op.column = t.in({s[1]}, DType::f32, 0.1, 1);
  op.mean = t.values({1}, DType::f32, {0.5});
  op.elements = 2 * s.numel();
  op.squares = t.values({1}, DType::f32, {rms * rms * static_cast<double>(op.elements)});
  if (model != DType::f32) op.model = t.out(s, model);
  op.lr = 0.01f, op.weight_decay = 0.1f, op.grad_scale = 0.25f;
  return op;
}

const Within kSumWithin{.cpu = {1e-6, 2e-6}, .kernel = {2e-6, 4e-6}};

const Cases<ops::AdafactorSums> adafactor_sums(reference, [](CaseList<ops::AdafactorSums>& cases) {
  for_types_and(kMatrices, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s), [=](Tensors& t) { return sums(t, s, type); }, kSumWithin);
  });
  cases.timed("4096 x 1024", [](Tensors& t) { return sums(t, {4096, 1024}, DType::f32); });
  cases.huge("vocabulary", [](Tensors& t) { return sums(t, {1 << 18, 16384}, DType::f32); });
});

const Cases<ops::AdafactorMoments> adafactor_moments(reference, [](CaseList<ops::AdafactorMoments>& cases) {
  for (const bool of_rows : {false, true})
    for (const std::int64_t n : {1, 33, 700})
      cases.add(
          fmt::format("{} rows, the mean of {}", n, of_rows ? "rows" : "columns"),
          [=](Tensors& t) { return moments(t, n, 70, of_rows); }, kSumWithin);
  cases.timed("4096 x 1024", [](Tensors& t) { return moments(t, 4096, 1024, true); });
  cases.huge("vocabulary", [](Tensors& t) { return moments(t, 1 << 18, 16384, true); });
});

const Cases<ops::AdafactorSquares> adafactor_squares(reference, [](CaseList<ops::AdafactorSquares>& cases) {
  for_types_and(kMatrices, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s), [=](Tensors& t) { return squares(t, s, type); }, kSumWithin);
  });
  cases.timed("4096 x 1024", [](Tensors& t) { return squares(t, {4096, 1024}, DType::f32); });
  cases.huge("vocabulary", [](Tensors& t) { return squares(t, {1 << 18, 16384}, DType::f32); });
});

const Cases<ops::AdafactorUpdate> adafactor_update(reference, [](CaseList<ops::AdafactorUpdate>& cases) {
  const Within within{.cpu = {2e-7, 2e-6}, .kernel = {2e-7, 2e-6}};
  for_types_and(kMatrices, [&](DType type, const Shape& s) {
    for (const double rms : {0.5, 3.0})
      for (const DType model : {DType::f32, DType::bf16})
        cases.add(
            fmt::format("{}, weights in {}, rms {}", label(type, s), name_of(model), rms),
            [=](Tensors& t) { return whole_update(t, s, type, model, rms); }, within);
  });
  cases.timed("4096 x 1024", [](Tensors& t) { return whole_update(t, {4096, 1024}, DType::f32, DType::f32, 2); });
  cases.huge("vocabulary", [](Tensors& t) { return whole_update(t, {1 << 18, 16384}, DType::f32, DType::bf16, 2); });
});

}  // namespace
}  // namespace mbench::test
