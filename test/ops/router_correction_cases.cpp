#include "engine/ops/router_correction.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

const std::int64_t kExperts[] = {1, 8, 33, 256, 4096};
constexpr std::int64_t kMost = 8192;

void reference(const ops::AddCounts& op, Doubles& v) {
  const Values &counts = v[op.counts], before = v[op.load];
  Values& load = v.out(op.load);
  for (std::size_t e = 0; e < load.size(); ++e) load[e] = before[e] + counts[e];
}

ops::AddCounts make_counts(Tensors& t, std::int64_t n) {
  return {t.ids({n}, 1000), t.inout({n}, DType::f32)};
}

void reference(const ops::MoveCorrection& op, Doubles& v) {
  const Values before = v[op.load], correction = v[op.correction];
  Values &load = v.out(op.load), &moved = v.out(op.correction);
  for (std::size_t e = 0; e < moved.size(); ++e) {
    moved[e] = correction[e] + (before[e] < op.mean ? op.speed : before[e] > op.mean ? -op.speed : 0);
    load[e] = 0;
  }
}

ops::MoveCorrection make_move(Tensors& t, std::int64_t n) {
  return {t.inout({n}, DType::f32), t.inout({n}, DType::f32), 0.1f, 0.125f};
}

const Cases<ops::AddCounts> add_counts(reference, [](CaseList<ops::AddCounts>& cases) {
  for (const std::int64_t n : kExperts)
    cases.add(fmt::format("{} experts", n), [=](Tensors& t) { return make_counts(t, n); }, {.cpu = {1e-6}});
  cases.timed("256 experts", [](Tensors& t) { return make_counts(t, 256); });
  cases.huge("8192 experts", [](Tensors& t) { return make_counts(t, kMost); });
});

const Cases<ops::MoveCorrection> move_correction(reference, [](CaseList<ops::MoveCorrection>& cases) {
  for (const std::int64_t n : kExperts)
    cases.add(fmt::format("{} experts", n), [=](Tensors& t) { return make_move(t, n); }, {.cpu = {1e-6}});
  cases.timed("256 experts", [](Tensors& t) { return make_move(t, 256); });
  cases.huge("8192 experts", [](Tensors& t) { return make_move(t, kMost); });
});

}  // namespace
}  // namespace mbench::test
