#include "engine/ops/dropout.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

const RngKey kKey{0x123456789ABCDEFull, 77, 5};

}  // namespace

TEST_CASE("dropout keeps about the share it should, and other sites, steps and seeds draw other masks") {
  OpTest test;
  const Shape shape{64, 1, 4096};
  const Tensor one = test.put(shape, DType::f32, Values(64 * 4096, 1.0)), y = test.empty(shape);
  const auto mean = [&](const RngKey& key) {
    test.run(ops::Dropout{one, y, Tensor(), {0.1f, key}, ops::HiddenMap{64, 0, 0}});
    const Values v = OpTest::get(y);
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  CHECK(mean(kKey) == Approx(1).margin(0.003));
  const Values first = OpTest::get(y);
  for (RngKey key : {RngKey{1, 77, 5}, RngKey{kKey.seed, 78, 5}, RngKey{kKey.seed, 77, 6}}) {
    CHECK(mean(key) == Approx(1).margin(0.003));
    CHECK(OpTest::get(y) != first);
  }
}

TEST_CASE("slices of the sequence, the batch and the heads drop what the whole tensor drops") {
  OpTest test;
  const ops::DropoutSpec spec{0.3f, kKey};
  const Shape whole{6, 4, 33};
  const Tensor one = test.put(whole, DType::f32, Values(6 * 4 * 33, 1.0)), y = test.empty(whole);
  test.run(ops::Dropout{one, y, Tensor(), spec, ops::HiddenMap{6, 0, 0}});
  for (std::int64_t s0 : {0, 3}) {  // three positions, all samples
    const Tensor part = test.empty({3, 4, 33});
    test.run(ops::Dropout{one.slice(0, 3), part, Tensor(), spec, ops::HiddenMap{6, s0, 0}});
    CHECK(OpTest::get(part) == OpTest::get(y.slice(s0, 3)));
  }
  const Tensor sample = test.empty({6, 1, 33});
  test.run(ops::Dropout{one.part(0, {6, 1, 33}), sample, Tensor(), spec, ops::HiddenMap{6, 0, 2}});
  for (std::int64_t s = 0; s < 6; ++s)
    CHECK(OpTest::get(sample.slice(s, 1)) == OpTest::get(y.part((s * 4 + 2) * 33, {1, 1, 33})));

  const Tensor heads = test.put({2, 4, 9, 9}, DType::f32, Values(2 * 4 * 81, 1.0)), all = test.empty({2, 4, 9, 9});
  test.run(ops::Dropout{heads, all, Tensor(), spec, ops::HeadMap{4, 0, 0}});
  const Tensor two = test.empty({1, 2, 9, 9});
  test.run(ops::Dropout{heads.part(0, {1, 2, 9, 9}), two, Tensor(), spec, ops::HeadMap{4, 2, 1}});
  CHECK(OpTest::get(two) == OpTest::get(all.part((4 + 2) * 81, {1, 2, 9, 9})));
}
