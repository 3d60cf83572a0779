#include <set>

#include "engine/ops/cross_entropy.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

constexpr std::int64_t kColumns[] = {1, 31, 33, 256, 1027};
constexpr std::int64_t kMoreColumns[] = {1024, 25216};

void reference(const ops::RowMax& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& max = v.out(op.max);
  const std::int64_t n = op.x.shape().cols();
  for (std::size_t r = 0; r < max.size(); ++r) {
    max[r] = -INFINITY;
    for (std::int64_t j = 0; j < op.valid; ++j) max[r] = std::fmax(max[r], x[r * n + j]);
  }
}

ops::RowMax make_max(Tensors& t, std::int64_t rows, std::int64_t n, DType type, std::int64_t valid) {
  return {t.in({rows, n}, type), t.out({rows}), valid};
}

const Cases<ops::RowMax> row_max(reference, [](CaseList<ops::RowMax>& cases) {
  const Within exact{.cpu = kExact, .kernel = kExact};
  for_types_and(kColumns, [&](DType type, std::int64_t n) {
    for (const std::int64_t valid : std::set{n, n / 2, std::int64_t{0}})
      cases.add(
          fmt::format("{}, {} valid", label(type, {6, n}), valid),
          [=](Tensors& t) { return make_max(t, 6, n, type, valid); }, exact);
  });
  cases.add(
      "past NaN",
      [](Tensors& t) {
        const double nan = std::nan("");
        return ops::RowMax{t.values({1, 4}, DType::f32, {nan, -3, -2, nan}), t.out({1}), 4};
      },
      exact);
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(
        label(type, s), [=](Tensors& t) { return make_max(t, s[0], s[1], type, s[1] - s[1] / 7); }, exact);
  });
  cases.timed("logits",
              [](Tensors& t) { return make_max(t, kBenchTokens, kBenchVocabulary, DType::f32, kBenchWords); });
  cases.huge("logits", [](Tensors& t) { return make_max(t, kHugeLogits[0], kHugeLogits[1], DType::bf16, 50257); });
});

void reference(const ops::ExpSum& op, Doubles& v) {
  const Values &x = v[op.logits], &max = v[op.max], &targets = v[op.targets];
  Values &sum = v.out(op.sum), &target = v.out(op.target);
  const std::int64_t n = op.logits.shape().cols();
  for (std::size_t r = 0; r < max.size(); ++r) {
    const auto hit = static_cast<std::int64_t>(targets[r]) - op.first_column;
    sum[r] = 0;
    target[r] = hit >= 0 && hit < op.valid ? x[r * n + hit] - max[r] : 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double e = j < op.valid ? std::exp(x[r * n + j] - max[r]) : 0;
      sum[r] += e;
      if (op.exp) v.out(op.exp)[r * n + j] = e;
    }
  }
}

enum class Exp { dropped, kept, in_place };

ops::ExpSum make_sum(Tensors& t, std::int64_t rows, std::int64_t n, DType type, Exp exp, std::int64_t first,
                     std::int64_t valid, std::int64_t words) {
  const Tensor logits = t.in({rows, n}, type, -3, 3), max = t.in({rows}, DType::f32, 2.5, 3);
  ops::ExpSum op{logits, max, t.ids({rows}, words), first, valid, t.out({rows}), t.out({rows}), Tensor()};
  if (exp == Exp::kept) op.exp = t.out({rows, n});
  if (exp == Exp::in_place) op.exp = t.over({logits});
  return op;
}

const Cases<ops::ExpSum> exp_sum(reference, [](CaseList<ops::ExpSum>& cases) {
  const Within within{.cpu = {1e-6, 2e-6}, .kernel = {1e-6, 5e-6}, .gpu = 2};
  for (const Exp exp : {Exp::dropped, Exp::kept, Exp::in_place}) {
    const std::string how = exp == Exp::dropped ? "" : exp == Exp::kept ? " kept" : " over the logits";
    for_types_and(kColumns, [&](DType type, std::int64_t n) {
      if (exp == Exp::in_place && type != DType::f32) return;
      const std::int64_t valid = exp == Exp::kept ? n : n - n / 4;
      cases.add(
          label(type, {6, n}) + how, [=](Tensors& t) { return make_sum(t, 6, n, type, exp, n / 3, valid, 2 * n); },
          within);
    });
    for_types_and(kMoreColumns, [&](DType type, std::int64_t n) {
      if (exp == Exp::in_place) return;
      cases.unemulated(
          label(type, {21, n}) + how,
          [=](Tensors& t) { return make_sum(t, 21, n, type, exp, 0, n - n / 9, n - n / 9); }, within);
    });
  }
  cases.timed("logits", [](Tensors& t) {
    return make_sum(t, kBenchTokens, kBenchVocabulary, DType::f32, Exp::dropped, 0, kBenchWords, kBenchWords);
  });
  cases.huge("logits", [](Tensors& t) {
    return make_sum(t, kHugeLogits[0], kHugeLogits[1], DType::bf16, Exp::kept, 0, 50257, 50257);
  });
});

void reference(const ops::MaxExpSum& op, Doubles& v) {
  const Values &x = v[op.logits], &targets = v[op.targets];
  Values &max = v.out(op.max), &sum = v.out(op.sum), &target = v.out(op.target);
  const std::int64_t n = op.logits.shape().cols();
  for (std::size_t r = 0; r < max.size(); ++r) {
    max[r] = -INFINITY, sum[r] = 0;
    for (std::int64_t j = 0; j < op.valid; ++j) max[r] = std::fmax(max[r], x[r * n + j]);
    for (std::int64_t j = 0; j < op.valid; ++j) sum[r] += std::exp(x[r * n + j] - max[r]);
    const auto hit = static_cast<std::int64_t>(targets[r]);
    target[r] = hit >= 0 && hit < op.valid ? x[r * n + hit] - max[r] : 0;
  }
}

ops::MaxExpSum make_both(Tensors& t, const Tensor& logits, std::int64_t valid) {
  const Shape rows{logits.shape()[0]};
  return {logits, t.ids(rows, logits.shape()[1]), valid, t.out(rows), t.out(rows), t.out(rows)};
}

const Cases<ops::MaxExpSum> max_exp_sum(reference, [](CaseList<ops::MaxExpSum>& cases) {
  const Within within{.cpu = {1e-6, 2e-6}, .kernel = {1e-6, 5e-6}, .gpu = 2};
  for (const double low : {-3.0, -300.0})  // the largest logits take all of the sum, or a part
    for_types_and(kColumns, [&](DType type, std::int64_t n) {
      for (const std::int64_t valid : std::set{n, n / 2, std::int64_t{0}})
        cases.add(
            fmt::format("{}, {} valid, from {}", label(type, {6, n}), valid, low),
            [=](Tensors& t) {
              return make_both(t, t.in({6, n}, type, low, 3), valid);
            },
            within);
    });
  // Whatever comes first: logits that rise and fall, a column that is never drawn, and all but one of them.
  cases.add(
      "rising, falling and minus infinity",
      [](Tensors& t) {
        constexpr std::int64_t n = 300;
        std::vector<double> x;
        for (std::int64_t j = 0; j < n; ++j) x.push_back(0.25 * static_cast<double>(j));
        for (std::int64_t j = 0; j < n; ++j) x.push_back(-0.25 * static_cast<double>(j));
        for (std::int64_t j = 0; j < n; ++j) x.push_back(j % 3 == 0 ? 1 : -INFINITY);
        for (std::int64_t j = 0; j < n; ++j) x.push_back(j == n - 1 ? -2 : -INFINITY);
        return make_both(t, t.values({4, n}, DType::f32, x), n);
      },
      within);
  for_types_and(kMoreColumns, [&](DType type, std::int64_t n) {
    cases.unemulated(
        label(type, {21, n}),
        [=](Tensors& t) {
          return make_both(t, t.in({21, n}, type, -3, 3), n - n / 9);
        },
        within);
  });
  cases.timed("logits", [](Tensors& t) {
    return make_both(t, t.in({kBenchTokens, kBenchVocabulary}, DType::f32, -3, 3), kBenchWords);
  });
  cases.huge("logits", [](Tensors& t) {
    return make_both(t, t.in({kHugeLogits[0], kHugeLogits[1]}, DType::bf16, -3, 3), 50257);
  });
});

void reference(const ops::CrossEntropyLoss& op, Doubles& v) {
  double loss = 0;
  for (std::int64_t r = 0; r < op.sum.numel(); ++r)
    loss += (op.weight ? v[op.weight][r] : 1) * (std::log(v[op.sum][r]) - v[op.target][r]);
  v.out(op.loss)[0] = (op.factor ? v[op.factor][0] : op.inv_weight_sum) * loss;
}

ops::CrossEntropyLoss make_loss(Tensors& t, std::int64_t rows, bool weighted) {
  const Tensor sum = t.in({rows}, DType::f32, 1, 100), target = t.in({rows}, DType::f32, -5, 0);
  return {sum, target, weighted ? t.in({rows}, DType::f32, 0, 1) : Tensor(), 0.01f, t.out({1})};
}

const Cases<ops::CrossEntropyLoss> cross_entropy_loss(reference, [](CaseList<ops::CrossEntropyLoss>& cases) {
  for (const std::int64_t rows : {1, 33, 2500})
    for (const bool weighted : {false, true})
      cases.add(fmt::format("[{}]{}", rows, weighted ? " weighted" : ""),
                [=](Tensors& t) { return make_loss(t, rows, weighted); }, {.cpu = {0, 2e-6}, .kernel = {0, 1e-6}});
  cases.add("[33], its factor in memory",
            [](Tensors& t) {
              ops::CrossEntropyLoss op = make_loss(t, 33, true);
              op.factor = t.values({1}, DType::f32, {0.03});
              return op;
            },
            {.cpu = {0, 2e-6}, .kernel = {0, 1e-6}});
  cases.timed("tokens", [](Tensors& t) { return make_loss(t, kBenchTokens, true); });
  cases.huge("tokens", [](Tensors& t) { return make_loss(t, kHugeLogits[0], true); });
});

void reference(const ops::CrossEntropyGrad& op, Doubles& v) {
  const Values &from = v[op.source()], &sum = v[op.sum], &targets = v[op.targets];
  Values& out = v.out(op.dlogits);
  const std::int64_t n = op.dlogits.shape().cols();
  for (std::size_t r = 0; r < sum.size(); ++r) {
    const double weight = (op.factor ? v[op.factor][0] : op.scale) * (op.weight ? v[op.weight][r] : 1);
    const auto hit = static_cast<std::int64_t>(targets[r]) - op.first_column;
    for (std::int64_t j = 0; j < n; ++j) {
      const double e = op.exp ? from[r * n + j] : std::exp(from[r * n + j] - v[op.max][r]);
      out[r * n + j] = j < op.valid ? weight * (e / sum[r] - (j == hit)) : 0;
    }
  }
}

struct From {
  DType type, to;
  bool exp, weighted;
};

ops::CrossEntropyGrad make_grad(Tensors& t, std::int64_t rows, std::int64_t n, const From& f, std::int64_t first,
                                std::int64_t valid) {
  const Tensor from = t.in({rows, n}, f.type, f.exp ? 0 : -3, f.exp ? 1 : 3);
  ops::CrossEntropyGrad op;
  (f.exp ? op.exp : op.logits) = from;
  if (!f.exp) op.max = t.in({rows}, DType::f32, 2, 3);
  op.sum = t.in({rows}, DType::f32, 20, 30);
  op.targets = t.ids({rows}, n + 2);
  if (f.weighted) op.weight = t.in({rows}, DType::f32, 0, 1);
  op.scale = 0.25f, op.first_column = first, op.valid = valid;
  op.dlogits = f.type == f.to ? t.over({from}) : t.out({rows, n}, f.to);
  return op;
}

const Cases<ops::CrossEntropyGrad> cross_entropy_grad(reference, [](CaseList<ops::CrossEntropyGrad>& cases) {
  const Within within{.cpu = {2e-6}, .kernel = {1e-7, 4e-6}, .gpu = 2};
  for (const DType type : kFloatTypes)
    for (const DType to : kFloatTypes)
      for (const bool exp : {false, true}) {
        if (exp && type != DType::f32) continue;
        const auto name = [&](std::int64_t rows, std::int64_t n) {
          return fmt::format("{} to {}{}", label(type, {rows, n}), name_of(to), exp ? " from exponentials" : "");
        };
        for (const std::int64_t n : kColumns)
          cases.add(
              name(5, n),
              [=](Tensors& t) {
                return make_grad(t, 5, n, {type, to, exp, n > 100}, 1, n - n / 5);
              },
              within);
        for (const std::int64_t n : kMoreColumns)
          cases.unemulated(
              name(21, n),
              [=](Tensors& t) {
                return make_grad(t, 21, n, {type, to, exp, true}, 0, n - n / 9);
              },
              within);
      }
  cases.add(
      "its factor in memory",
      [](Tensors& t) {
        ops::CrossEntropyGrad op = make_grad(t, 5, 33, {DType::f32, DType::f32, false, true}, 1, 30);
        op.factor = t.values({1}, DType::f32, {0.75});
        return op;
      },
      within);
  cases.timed("logits", [](Tensors& t) {
    return make_grad(t, kBenchTokens, kBenchVocabulary, {DType::f32, DType::f32, false, false}, 0, kBenchWords);
  });
  cases.huge("logits", [](Tensors& t) {
    return make_grad(t, kHugeLogits[0], kHugeLogits[1], {DType::bf16, DType::bf16, false, true}, 0, 50257);
  });
});

}  // namespace
}  // namespace mbench::test
