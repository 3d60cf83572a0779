#include "engine/ops/rotary.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Rotary& op, Doubles& v) {
  const Values &x = v[op.x], &angles = v[op.angles];
  Values& y = v.out(op.x);
  const Shape& s = op.x.shape();
  const std::int64_t half = op.turned() / 2;
  for (std::int64_t row = 0; row < s[0] * s[1] * s[2]; ++row)
    for (std::int64_t head = 0; head < op.heads; ++head)
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t a = row * s[3] + head * op.head_dim + op.first + i, b = a + half;
        const std::int64_t angle = row / s[2] / s[1] * half + i;
        const double cosine = angles[angle], sine = (op.back ? -1 : 1) * angles[s[0] * half + angle];
        y[a] = x[a] * cosine - x[b] * sine;
        y[b] = x[b] * cosine + x[a] * sine;
      }
}

// Groups of `heads` turned heads and one that is not.
struct Form {
  std::int64_t seq, batch, groups, heads, head_dim, first, turned;
};

// Angles as a table has them, so that turning back undoes what turning did.
Values table(const Form& f) {
  Values values;
  for (const bool sine : {false, true})
    for (std::int64_t s = 0; s < f.seq; ++s)
      for (std::int64_t i = 0; i < f.turned / 2; ++i) {
        const double angle = static_cast<double>(s) / std::pow(3.0, static_cast<double>(i));
        values.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
  return values;
}

ops::Rotary make(Tensors& t, const Form& f, DType type, bool back) {
  const Tensor x = t.changed(t.in({f.seq, f.batch, f.groups, (f.heads + 1) * f.head_dim}, type));
  const Tensor angles = t.values({2, f.seq, f.turned / 2}, DType::f32, table(f));
  return {x, angles, f.heads, f.head_dim, f.first, back};
}

const Cases<ops::Rotary> rotary(reference, [](CaseList<ops::Rotary>& cases) {
  // All of a head; the first half of it; the last third; ragged ones.
  const Form forms[] = {{5, 2, 2, 2, 16, 0, 16}, {7, 1, 3, 5, 32, 0, 16}, {3, 2, 2, 1, 48, 32, 16},
                        {4, 3, 1, 3, 10, 0, 10}, {3, 2, 2, 2, 7, 1, 4},   {2, 1, 1, 1, 2, 0, 2}};
  for (const bool back : {false, true})
    for_types_and(forms, [&](DType type, const Form& f) {
      cases.add(fmt::format("{} {}x{}x{} groups of {} heads of {}, {} from {} on{}", name_of(type), f.seq, f.batch,
                            f.groups, f.heads, f.head_dim, f.turned, f.first, back ? ", back" : ""),
                [=](Tensors& t) { return make(t, f, type, back); }, {.cpu = {1e-6}, .gpu = 2});
    });
  const auto packed = [](std::int64_t seq, std::int64_t groups, std::int64_t heads) {
    return Form{seq, 1, groups, heads, 128, 0, 128};
  };
  cases.timed("gpt2-345m, packed", [](Tensors& t) {
    return make(t, {kBenchTokens, 1, kBenchHeads, 2, kBenchHeadDim, 0, kBenchHeadDim}, DType::f32, false);
  });
  cases.enqueued(1, [=](Tensors& t) { return make(t, packed(64, 2, 2), DType::bf16, false); });
  cases.huge("groups", [=](Tensors& t) { return make(t, packed(1 << 20, 8, 17), DType::bf16, false); });
});

}  // namespace
}  // namespace mbench::test
