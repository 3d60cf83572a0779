#include <cmath>
#include <limits>

#include "engine/ops/clip_scale.h"
#include "test/ops/cases.h"

namespace mbench::test {
namespace {

void reference(const ops::ClipScale& op, Doubles& v) {
  Values& step = v.out(op.by_step);
  const double unscale = step[ops::kStepUnscale], norm = std::sqrt(v[op.squares][0]) * unscale;
  step[ops::kStepNorm] = norm;
  step[ops::kStepGradScale] = !std::isfinite(norm) ? std::nan("")
                              : op.clip > 0        ? unscale * std::min(1.0, op.clip / (norm + 1e-6))
                                                   : unscale;
}

ops::ClipScale make(Tensors& t, double squares, double unscale, float clip) {
  Values step(ops::kAdamStep, 0.5);
  step[ops::kStepUnscale] = unscale;
  return {t.values({1}, DType::f32, {squares}), t.changed(t.values({ops::kAdamStep}, DType::f32, step)), clip};
}

const Cases<ops::ClipScale> clip_scale(reference, [](CaseList<ops::ClipScale>& cases) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double squares : {0.0, 0.04, 9.0, 4e18, infinity, std::nan("")})
    for (const double unscale : {1.0, 1.0 / 65536})
      for (const float clip : {0.0f, 1.0f})
        cases.add(fmt::format("{} unscaled by {}, clip {}", squares, unscale, clip),
                  [=](Tensors& t) { return make(t, squares, unscale, clip); }, {.cpu = {2e-7}, .kernel = kExact});
  cases.timed("a norm", [](Tensors& t) { return make(t, 9, 1, 1); });
  cases.huge("a norm", [](Tensors& t) { return make(t, 9, 1, 1); });
});

}  // namespace
}  // namespace mbench::test
