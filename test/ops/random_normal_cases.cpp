#include "engine/ops/random_normal.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

const RngKey kKey{42, 9, 0};

double normal(const RngKey& key, std::uint64_t element) {
  const auto w = Philox::block(key, element / 4);
  const std::size_t pair = element / 2 % 2 * 2;
  const double r = std::sqrt(-2 * std::log((w[pair] + 1.0) / 4294967296.0));
  const double angle = 2 * 3.14159265358979323846 * w[pair + 1] / 4294967296.0;
  return element % 2 == 0 ? r * std::cos(angle) : r * std::sin(angle);
}

void reference(const ops::RandomNormal& op, Doubles& v) {
  Values& x = v.out(op.x);
  const std::int64_t cols = op.x.shape().cols();
  for (std::int64_t i = 0; i < op.x.numel(); ++i)
    x[i] = op.mean + op.stddev * normal(op.key, (op.row0 + i / cols) * op.global_cols + op.col0 + i % cols);
}

struct Part {
  Shape shape;
  std::int64_t global_cols, row0, col0;
};

ops::RandomNormal make(Tensors& t, const Part& p) {
  return {t.out(p.shape), 0.5f, kKey, p.global_cols, p.row0, p.col0};
}

const Cases<ops::RandomNormal> random_normal(reference, [](CaseList<ops::RandomNormal>& cases) {
  const Within within{.cpu = {5e-7}, .kernel = {2e-7, 2e-6}};
  std::vector<Part> parts{
      {{7, 33}, 33, 0, 0}, {{7, 33}, 33, 5, 0}, {{1}, 1, 0, 0}, {{1027}, 1027, 0, 0}, {{0, 5}, 5, 0, 0}};
  for (const std::int64_t col0 : {0, 1, 2, 3, 255}) parts.push_back({{5, 31}, 1024 + 3, 1000003, col0});
  for (const Part& p : parts)
    cases.add(
        fmt::format("{} of {} columns from {}, {}", p.shape, p.global_cols, p.row0, p.col0),
        [=](Tensors& t) { return make(t, p); }, within);
  cases.add(
      "around 1.5",
      [](Tensors& t) {
        ops::RandomNormal op = make(t, {{7, 33}, 33, 5, 0});
        op.mean = 1.5f;
        return op;
      },
      within);
  cases.unemulated(
      "[300, 1001]",
      [](Tensors& t) {
        return make(t, {{300, 1001}, 1001, 7, 0});
      },
      within);
  cases.timed("16 Mi", [](Tensors& t) { return make(t, {{16384, 1024}, 1024, 0, 0}); });
  cases.huge("8 Gi", [](Tensors& t) { return make(t, {{8 << 20, 1024}, 1024, 0, 0}); });
});

}  // namespace
}  // namespace mbench::test
