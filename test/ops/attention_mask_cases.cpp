#include "engine/ops/attention_mask.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::AttentionMask& op, Doubles& v) {
  Values& mask = v.out(op.mask);
  const std::int64_t queries = op.mask.shape()[1], keys = op.mask.shape()[2];
  for (std::int64_t i = 0; i < op.mask.numel(); ++i) {
    const std::int64_t b = i / keys / queries, q = i / keys % queries, k = i % keys;
    mask[i] = op.keep ? v[op.keep][b * keys + k] == 0 : k > q;
    if (op.bounds && (k < v[op.bounds][q] || k >= v[op.bounds][queries + q])) mask[i] = 1;
  }
}

// Of documents of 7 and 12 keys in turn.
Tensor bounds_of(Tensors& t, std::int64_t queries, std::int64_t keys) {
  Values first, end;
  for (std::int64_t q = 0, from = 0, length = 7; q < queries; ++q) {
    if (q == from + length) from = q, length = 19 - length;
    first.push_back(static_cast<double>(from)), end.push_back(static_cast<double>(std::min(keys, from + length)));
  }
  first.insert(first.end(), end.begin(), end.end());
  return t.values({2, queries}, DType::i64, first);
}

ops::AttentionMask make(Tensors& t, std::int64_t batch, std::int64_t queries, std::int64_t keys, bool padding,
                        bool bounded = false) {
  const Tensor keep = padding ? t.mask({batch, keys}, 0.7) : Tensor();
  return {keep, t.out({batch, queries, keys}, DType::u8), bounded ? bounds_of(t, queries, keys) : Tensor()};
}

const Cases<ops::AttentionMask> attention_mask(reference, [](CaseList<ops::AttentionMask>& cases) {
  for (const std::int64_t keys : {1, 31, 33, 64, 255})
    for (const bool padding : {false, true})
      for (const std::int64_t queries : {std::int64_t{5}, keys})
        if (queries == 5 || keys <= 64)
          cases.add(fmt::format("[{}, {}] {}", queries, keys, padding ? "padding" : "causal"),
                    [=](Tensors& t) { return make(t, padding ? 3 : 1, queries, keys, padding); });
  for (const std::int64_t keys : {1, 33, 64})
    for (const bool padding : {false, true})
      cases.add(fmt::format("[{}, {}] {} within bounds", keys, keys, padding ? "padding" : "causal"),
                [=](Tensors& t) { return make(t, padding ? 3 : 1, keys, keys, padding, true); });
  cases.timed("causal", [](Tensors& t) { return make(t, 1, kBenchTokens, kBenchTokens, false); });
  cases.huge("causal", [](Tensors& t) { return make(t, 1, 65536, 65536, false); });
  cases.huge("padding", [](Tensors& t) { return make(t, 8, 65536, 65536, true); });
});

}  // namespace
}  // namespace mbench::test
