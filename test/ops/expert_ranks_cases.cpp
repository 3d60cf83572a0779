#include "engine/ops/expert_ranks.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

struct VisitSizes {
  std::int64_t tokens, k, experts, each;
};
// One expert and rank; experts of a rank in one slot after the other and apart; as many ranks as experts; one rank for all.
constexpr VisitSizes kVisitSizes[] = {{1, 1, 1, 1}, {5, 3, 8, 2}, {33, 8, 64, 8}, {64, 2, 6, 1}, {9, 6, 64, 64}};

void reference(const ops::ExpertRanks& op, Doubles& v) {
  const Values& experts = v[op.experts];
  Values& ranks = v.out(op.ranks);
  const auto k = static_cast<std::size_t>(op.experts.shape().cols());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto rank_of = [&](std::size_t at) { return std::floor(experts[at] / static_cast<double>(op.each)); };
    ranks[i] = rank_of(i);
    for (std::size_t j = i / k * k; j < i; ++j)
      if (rank_of(j) == rank_of(i)) ranks[i] = -1;
  }
}

ops::ExpertRanks make(Tensors& t, const VisitSizes& z) {
  return {t.ids({z.tokens, z.k}, z.experts), z.each, t.out({z.tokens, z.k}, DType::i64)};
}

const Cases<ops::ExpertRanks> expert_ranks(reference, [](CaseList<ops::ExpertRanks>& cases) {
  const Within exact{.cpu = kExact, .kernel = kExact};
  for (const VisitSizes& z : kVisitSizes)
    cases.add(
        fmt::format("{} tokens, {} of {} experts, {} a rank", z.tokens, z.k, z.experts, z.each),
        [=](Tensors& t) { return make(t, z); }, exact);
  cases.timed("8 of 256", [](Tensors& t) { return make(t, {4096, 8, 256, 32}); });
  cases.enqueued(1, [](Tensors& t) { return make(t, {64, 2, 8, 2}); });
  cases.huge("8 of 256", [](Tensors& t) { return make(t, {524288, 8, 256, 4}); });
});

}  // namespace
}  // namespace mbench::test
