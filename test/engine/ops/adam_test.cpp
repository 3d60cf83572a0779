#include "engine/ops/adam.h"

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("adam follows its formula over several steps and refreshes the 16-bit weights") {
  for (DType grad_type : kFloatTypes)
    for (DType model_type : {DType::f32, DType::bf16, DType::f16})
      for (std::int64_t n : {1, 1027, 30000}) {
        CAPTURE(name_of(grad_type), name_of(model_type), n);
        OpTest test;
        const Tensor param = test.random({n}, DType::f32, 1), m = test.put({n}, DType::f32, Values(n, 0.0)),
                     v = test.put({n}, DType::f32, Values(n, 0.0));
        const Tensor model = model_type == DType::f32 ? Tensor() : test.garbage({n}, model_type);
        Values p = OpTest::get(param), wm(p.size(), 0.0), wv(p.size(), 0.0);
        for (std::int64_t step = 1; step <= 4; ++step) {
          const Tensor grad = test.random({n}, grad_type, 10 + static_cast<unsigned>(step), -64, 64);
          const Values g = OpTest::get(grad);
          test.run(ops::Adam{param, grad, m, v, model, 0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f / 64, step});
          for (std::size_t i = 0; i < p.size(); ++i) {
            const double gi = g[i] / 64;
            wm[i] = 0.9f * wm[i] + (1 - 0.9f) * gi;
            wv[i] = 0.95f * wv[i] + (1 - 0.95f) * gi * gi;
            const double mh = wm[i] / (1 - std::pow(0.9f, step)), vh = wv[i] / (1 - std::pow(0.95f, step));
            p[i] -= 0.01f * (mh / (std::sqrt(vh) + 1e-8f) + 0.1f * p[i]);
          }
        }
        check_close(OpTest::get(param), p, 1e-5, 1e-6);
        check_close(OpTest::get(m), wm, 1e-5, 1e-7);
        check_close(OpTest::get(v), wv, 1e-5, 1e-7);
        if (model) CHECK(OpTest::get(model) == OpTest::get(test.put({n}, model_type, OpTest::get(param))));
      }
}

TEST_CASE("adam spares ranges from weight decay, wherever they begin and end") {
  constexpr std::int64_t n = 30000;
  std::vector<ops::ElementRange> ranges{{0, 3},       {64, 1027},    {1030, 1031},
                                        {2040, 2060}, {8192, 20000}, {29999, n}};
  OpTest test;
  const auto zeros = [&] { return test.put({n}, DType::f32, Values(n, 0.0)); };
  const Tensor start = test.random({n}, DType::f32, 1), grad = test.random({n}, DType::f32, 2);
  const auto step = [&](float decay, ops::ElementRanges undecayed) {
    const Tensor param = test.put({n}, DType::f32, OpTest::get(start));
    ops::Adam op{param, grad, zeros(), zeros(), Tensor(), 0.01f, 0.9f, 0.95f, 1e-8f, decay};
    op.undecayed = undecayed;
    test.run(op);
    return OpTest::get(param);
  };
  const Values decayed = step(0.5f, {}), spared = step(0, {}), mixed = step(0.5f, ranges);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (next < ranges.size() && i == ranges[next].end) ++next;
    const bool inside = next < ranges.size() && i >= ranges[next].begin;
    const auto at = static_cast<std::size_t>(i);
    if (mixed[at] != (inside ? spared : decayed)[at]) FAIL("element " << i);
  }
  for (const std::vector<ops::ElementRange>& wrong : std::vector<std::vector<ops::ElementRange>>{
           {{0, n + 1}}, {{5, 5}}, {{-1, 4}}, {{0, 4}, {4, 8}}, {{10, 12}, {0, 3}}})
    CHECK_THROWS_AS(step(0.5f, wrong), Error);
}
