#include "engine/ops/attention_merge.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::AttentionMerge& op, Doubles& v) {
  const Shape& s = op.out.shape();
  const Values &out = v[op.out], &part = v[op.added], &lse = v[op.lse], &part_lse = v[op.added_lse];
  Values &merged = v.out(op.out), &all = v.out(op.lse);
  for (std::int64_t q = 0; q < s[0]; ++q)
    for (std::int64_t head = 0; head < s[1] * s[2]; ++head) {
      const std::size_t at = static_cast<std::size_t>(head * s[0] + q);
      const double a = std::exp(lse[at]), b = std::exp(part_lse[at]), sum = a + b;
      all[at] = std::log(sum);
      for (std::int64_t i = 0; i < s[3]; ++i) {
        const std::size_t x = static_cast<std::size_t>((q * s[1] * s[2] + head) * s[3] + i);
        merged[x] = sum == 0 ? 0 : (a * out[x] + b * part[x]) / sum;
      }
    }
}

// Every fifth row of one set has seen no key, every seventh of the other.
Values statistics(const Shape& s, std::int64_t unseen, double low) {
  Values values;
  for (std::int64_t i = 0; i < s[1] * s[2] * s[0]; ++i)
    values.push_back(i % unseen == unseen - 1 ? -INFINITY : low + static_cast<double>(i * 37 % 101) / 16);
  return values;
}

ops::AttentionMerge make(Tensors& t, const Shape& s, DType out, DType part) {
  const Shape rows{s[1], s[2], s[0]};
  return {t.changed(t.in(s, out)), t.changed(t.values(rows, DType::f32, statistics(s, 5, -2))), t.in(s, part),
          t.values(rows, DType::f32, statistics(s, 7, -3))};
}

const Cases<ops::AttentionMerge> merge(reference, [](CaseList<ops::AttentionMerge>& cases) {
  const Shape shapes[] = {{1, 1, 1, 1}, {5, 2, 3, 16}, {3, 1, 5, 31}, {9, 2, 2, 64}, {2, 1, 3, 1032}};
  for_types_and(shapes, [&](DType type, const Shape& s) {
    for (const DType sum : sum_types(type))
      cases.add(fmt::format("{} into {}", label(type, s), name_of(sum)),
                [=](Tensors& t) { return make(t, s, sum, type); },
                {.cpu = {2e-6}, .kernel = {4e-6, 4e-6, 1}, .gpu = 2});
  });
  cases.timed("gpt2-345m", [](Tensors& t) {
    return make(t, {kBenchTokens, 1, kBenchHeads, kBenchHeadDim}, DType::f32, DType::f32);
  });
  cases.enqueued(2, [](Tensors& t) { return make(t, {64, 1, 4, 64}, DType::f32, DType::bf16); });
  cases.huge("long", [](Tensors& t) { return make(t, {1 << 20, 1, 96, 128}, DType::f32, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
