#include "engine/ops/dropout.h"

#include "engine/ops/bias_dropout_add.h"
#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

const RngKey kKey{0x123456789ABCDEFull, 77, 5};

bool kept(double p, std::int64_t element) {
  return Philox::word(kKey, static_cast<std::uint64_t>(element)) >= Philox::drop_bound(p);
}

std::int64_t element_of(const ops::HiddenMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t w = i % s[2], b = i / s[2] % s[1], q = i / s[2] / s[1];
  return ((m.sample0 + b) * m.seq + m.seq0 + q) * s[2] + w;
}

std::int64_t element_of(const ops::HeadMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t k = i % s[3], q = i / s[3] % s[2], a = i / s[3] / s[2] % s[1],
                     b = i / s[3] / s[2] / s[1];
  return (((m.sample0 + b) * m.heads + m.head0 + a) * s[2] + q) * s[3] + k;
}

template <class Map>
void check_dropout(DType type, const Shape& shape, const Map& map, float p) {
  CAPTURE(name_of(type), shape.str(), p);
  OpTest test;
  const Tensor x = test.random(shape, type, 1, 0.5, 1.5), y = test.garbage(shape, type);
  const Tensor mask = test.empty(shape, DType::u8);
  const ops::DropoutSpec spec{p, kKey};
  test.run(ops::Dropout{x, y, mask, spec, map});
  const Values v = OpTest::get(x);
  Values want(v.size()), want_mask(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    const bool keep = p == 0 || kept(p, element_of(map, shape, static_cast<std::int64_t>(i)));
    want_mask[i] = keep;
    want[i] = keep ? v[i] / (1 - static_cast<double>(p)) : 0;
  }
  CHECK(OpTest::get(mask) == want_mask);
  check_close(OpTest::get(y), want, epsilon(type), 0);
  // Without a mask the gradient draws the same words again; in place it does not read what it wrote.
  const Tensor dx = test.garbage(shape, type);
  test.run(ops::DropoutGrad{x, dx, mask, spec, map});
  CHECK(OpTest::get(dx) == OpTest::get(y));
  test.run(ops::DropoutGrad{x, dx, Tensor(), spec, map});
  CHECK(OpTest::get(dx) == OpTest::get(y));
  const Tensor again = test.put(shape, type, v);
  test.run(ops::Dropout{again, again, Tensor(), spec, map});
  CHECK(OpTest::get(again) == OpTest::get(y));
}

}  // namespace

TEST_CASE("dropout draws the word of the global element, whatever the alignment of a row") {
  for (DType type : kFloatTypes)
    for (float p : {0.0f, 0.1f, 0.75f}) {
      check_dropout(type, {3, 2, 7}, ops::HiddenMap{11, 4, 3}, p);
      check_dropout(type, {5, 3, 1027}, ops::HiddenMap{5, 0, 1000001}, p);
      check_dropout(type, {2, 3, 37, 37}, ops::HeadMap{8, 2, 1}, p);
      check_dropout(type, {1, 2, 64, 64}, ops::HeadMap{16, 3, 1 << 20}, p);
    }
}

TEST_CASE("dropout with probability one leaves zeros") {
  OpTest test;
  const Tensor x = test.random({3, 2, 50}, DType::f32, 1), y = test.garbage({3, 2, 50});
  test.run(ops::Dropout{x, y, Tensor(), {1.0f, kKey}, ops::HiddenMap{3, 0, 0}});
  for (double v : OpTest::get(y)) CHECK(v == 0);
}

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

  const Tensor heads = test.put({2, 4, 9, 9}, DType::f32, Values(2 * 4 * 81, 1.0)),
               all = test.empty({2, 4, 9, 9});
  test.run(ops::Dropout{heads, all, Tensor(), spec, ops::HeadMap{4, 0, 0}});
  const Tensor two = test.empty({1, 2, 9, 9});
  test.run(ops::Dropout{heads.part(0, {1, 2, 9, 9}), two, Tensor(), spec, ops::HeadMap{4, 2, 1}});
  CHECK(OpTest::get(two) == OpTest::get(all.part((4 + 2) * 81, {1, 2, 9, 9})));
}

TEST_CASE("bias_dropout_add is residual plus dropped sum, with and without each part") {
  for (DType type : kFloatTypes)
    for (float p : {0.0f, 0.25f})
      for (bool has_bias : {false, true})
        for (bool in_place : {false, true}) {
          CAPTURE(name_of(type), p, has_bias, in_place);
          OpTest test;
          const Shape shape{5, 3, 1029};
          const ops::HiddenMap map{9, 2, 4};
          const Tensor x = test.random(shape, type, 1), residual = test.random(shape, type, 2);
          const Tensor bias = has_bias ? test.random({1029}, type, 3) : Tensor();
          const Tensor y = in_place ? x : test.garbage(shape, type), mask = test.empty(shape, DType::u8);
          const Values vx = OpTest::get(x), vr = OpTest::get(residual);
          const Values vb = has_bias ? OpTest::get(bias) : Values(1029, 0.0);
          test.run(ops::BiasDropoutAdd{x, bias, residual, y, mask, {p, kKey}, map});
          Values want(vx.size()), want_mask(vx.size());
          for (std::size_t i = 0; i < vx.size(); ++i) {
            const bool keep = p == 0 || kept(p, element_of(map, shape, static_cast<std::int64_t>(i)));
            want[i] = vr[i] + (keep ? (vx[i] + vb[i % 1029]) / (1 - static_cast<double>(p)) : 0);
            want_mask[i] = keep;
          }
          check_close(OpTest::get(y), want, epsilon(type), 1e-6);
          CHECK(OpTest::get(mask) == want_mask);
        }
}
