#include "engine/ops/route.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::GroupScore, ops::RouterRule, ops::RouterScore;

// A token's scores and probabilities, and the log of the sum of its exponentials.
struct TokenScores {
  Values scores, probs, softmax;
  double sum = 0, log_sum = 0;  // of the scores; of the logits
  TokenScores(const Values& all, std::int64_t token, std::int64_t n, RouterScore kind) {
    double top = -INFINITY, exps = 0;
    for (std::int64_t e = 0; e < n; ++e) top = std::fmax(top, all[token * n + e]);
    for (std::int64_t e = 0; e < n; ++e) exps += std::exp(all[token * n + e] - top);
    log_sum = top + std::log(exps);
    for (std::int64_t e = 0; e < n; ++e) {
      const double logit = all[token * n + e];
      softmax.push_back(std::exp(logit - log_sum));
      scores.push_back(kind == RouterScore::softmax ? softmax.back() : 1 / (1 + std::exp(-logit)));
      sum += scores.back();
    }
    for (const double score : scores) probs.push_back(score / (sum + 1e-20));
  }
};

// The best of those not taken, the first where several are; taken ones are NaN.
std::size_t take_best(Values& values) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i]) && (best == values.size() || values[i] > values[best])) best = i;
  values.at(best) = std::nan("");
  return best;
}

std::vector<std::size_t> chosen_by_score(const ops::Route& op, Values values) {
  const std::size_t groups = op.rule.groups, size = values.size() / groups;
  for (double& value : values)
    if (std::isnan(value)) value = -INFINITY;
  Values of_group;
  for (std::size_t g = 0; g < groups; ++g) {
    Values group(values.begin() + g * size, values.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    of_group.push_back(op.rule.group_score == GroupScore::best_two && size > 1 ? group[0] + group[1] : group[0]);
  }
  for (std::int64_t i = 0; i < op.rule.chosen_groups; ++i) take_best(of_group);
  for (std::size_t e = 0; e < values.size(); ++e)
    if (!std::isnan(of_group[e / size])) values[e] = std::nan("");
  std::vector<std::size_t> chosen;
  for (std::int64_t j = 0; j < op.experts.shape().cols(); ++j) chosen.push_back(take_best(values));
  return chosen;
}

// As the header says.
std::vector<std::size_t> chosen_by_position(const ops::Route& op, std::int64_t token) {
  const std::int64_t n = op.number(), k = op.experts.shape().cols(), batch = op.logits.shape()[1];
  const bool limited = op.rule.chosen_groups < op.rule.groups;
  const std::int64_t groups = limited ? op.rule.groups : 1, chosen_groups = limited ? op.rule.chosen_groups : 1;
  const std::int64_t size = n / groups, each = (k + chosen_groups - 1) / chosen_groups;
  std::int64_t stride = op.rule.local ? 1 : std::max<std::int64_t>(1, size / each);
  while (std::gcd(stride, size) > 1) ++stride;
  const std::int64_t s = token / batch, b = token % batch;
  const std::int64_t g = (op.map.sample0 + b) * op.map.seq +
                         (op.map.turn > 0 && s >= op.map.turn ? op.map.seq1 + s - op.map.turn : op.map.seq0 + s);
  std::vector<std::size_t> chosen;
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t visit = g * chosen_groups + j % chosen_groups, group = visit % groups;
    chosen.push_back(group * size + (visit / groups * each + j / chosen_groups) * stride % size);
  }
  return chosen;
}

void reference(const ops::Route& op, Doubles& v) {
  const Values& logits = v[op.logits];
  Values &experts = v.out(op.experts), &weights = v.out(op.weights);
  const std::int64_t n = op.number(), k = op.experts.shape().cols();
  for (std::int64_t token = 0; token < op.logits.shape().rows(); ++token) {
    const TokenScores of(logits, token, n, op.rule.score);
    Values values = of.scores;
    if (op.correction)
      for (std::int64_t e = 0; e < n; ++e) values[e] += v[op.correction][e];
    const auto chosen = op.rule.balanced ? chosen_by_position(op, token) : chosen_by_score(op, values);
    double sum = 0;
    for (const std::size_t e : chosen) sum += of.scores[e];
    for (std::int64_t j = 0; j < k; ++j) {
      experts[token * k + j] = static_cast<double>(chosen[j]);
      weights[token * k + j] = op.rule.scale * of.scores[chosen[j]] / (op.rule.renormalise ? sum + 1e-20 : 1);
    }
  }
}

struct Form {
  const char* name;
  RouterRule rule;
  bool corrected = false;
};
const Form kForms[] = {
    {"softmax", {}},
    {"softmax renormalised", {RouterScore::softmax, true}},
    {"sigmoid", {RouterScore::sigmoid, false, 0.7f}},
    {"sigmoid renormalised and corrected", {RouterScore::sigmoid, true, 2.5f}, true},
    {"softmax corrected", {RouterScore::softmax, false, 1}, true},
};
RouterRule grouped(RouterRule rule, std::int64_t groups, std::int64_t chosen, GroupScore score) {
  rule.groups = groups, rule.chosen_groups = chosen, rule.group_score = score;
  return rule;
}

ops::Route make(Tensors& t, const Shape& s, std::int64_t k, DType type, const RouterRule& rule, bool corrected) {
  ops::Route op;
  op.logits = t.in(s, type, -4, 4);
  if (corrected) op.correction = t.in({s.cols()}, DType::f32, -0.2, 0.2);
  op.rule = rule;
  op.map = {2 * s[0] + 9, s[0] + 5, 2};
  op.experts = t.out({s.rows(), k}, DType::i64), op.weights = t.out({s.rows(), k});
  return op;
}

// Experts that are each other's for no token.
Tensor drawn_experts(Tensors& t, std::int64_t tokens, std::int64_t k, std::int64_t n) {
  Values experts;
  for (std::int64_t token = 0; token < tokens; ++token)
    for (std::int64_t j = 0; j < k; ++j)
      experts.push_back(static_cast<double>((5 * token + j * ops::balanced_stride(n, k)) % n));
  return t.values({tokens, k}, DType::i64, experts);
}

void reference(const ops::RouteGrad& op, Doubles& v) {
  const Values &dweights = v[op.dweights], &logits = v[op.logits], &experts = v[op.experts];
  Values& out = v.out(op.dlogits);
  const std::int64_t n = op.logits.shape().cols(), k = op.experts.shape().cols();
  const auto tokens = static_cast<double>(op.losses.tokens);
  for (std::int64_t token = 0; token < op.logits.shape().rows(); ++token) {
    const TokenScores of(logits, token, n, op.rule.score);
    const auto expert = [&](std::int64_t j) { return static_cast<std::int64_t>(experts[token * k + j]); };
    // To the scores: of the weights, then of the probabilities of the balance loss.
    Values d(n, 0.0), dprobs(n, 0.0);
    double sum = 1e-20, gemm = 0, mean = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += of.scores[expert(j)];
      gemm += of.scores[expert(j)] * dweights[token * k + j];
    }
    for (std::int64_t j = 0; j < k; ++j)
      d[expert(j)] += op.rule.scale * (op.rule.renormalise ? dweights[token * k + j] / sum - gemm / (sum * sum)
                                                           : dweights[token * k + j]);
    if (op.losses.balance != 0)
      for (std::int64_t e = 0; e < n; ++e) {
        dprobs[e] = op.losses.balance * static_cast<double>(n) * v[op.counts][e] / (tokens * tokens * k);
        mean += dprobs[e] * of.probs[e];
      }
    for (std::int64_t e = 0; e < n; ++e) d[e] += (dprobs[e] - mean) / of.sum;
    double dot = 0;
    for (std::int64_t e = 0; e < n; ++e) dot += of.softmax[e] * d[e];
    for (std::int64_t e = 0; e < n; ++e) {
      out[token * n + e] = op.rule.score == RouterScore::softmax ? of.softmax[e] * (d[e] - dot)
                                                                 : of.scores[e] * (1 - of.scores[e]) * d[e];
      out[token * n + e] += 2 * op.losses.z / tokens * of.log_sum * of.softmax[e];
    }
  }
}

ops::RouteGrad make_grad(Tensors& t, const Shape& s, std::int64_t k, DType type, const RouterRule& rule,
                         const ops::RouterLosses& losses) {
  ops::RouteGrad op;
  op.dweights = t.in({s.rows(), k}, DType::f32), op.logits = t.in(s, type, -4, 4);
  op.experts = drawn_experts(t, s.rows(), k, s.cols());
  op.rule = rule, op.losses = losses;
  if (losses.balance != 0) op.counts = t.ids({s.cols()}, 20);
  op.dlogits = t.over({op.logits});
  return op;
}

void reference(const ops::RouterLoss& op, Doubles& v) {
  const std::int64_t n = op.logits.shape().cols();
  const auto tokens = static_cast<double>(op.losses.tokens);
  double& sum = v.out(op.sum)[0];
  for (std::int64_t token = 0; token < op.logits.shape().rows(); ++token) {
    const TokenScores of(v[op.logits], token, n, op.score);
    for (std::int64_t e = 0; e < n; ++e)
      sum += op.losses.balance * n * (v[op.counts][e] / (tokens * op.k)) * (of.probs[e] / tokens);
    sum += op.losses.z * of.log_sum * of.log_sum / tokens;
  }
}

ops::RouterLoss make_loss(Tensors& t, const Shape& s, DType type, RouterScore score, const ops::RouterLosses& losses) {
  return {t.in(s, type, -4, 4), t.ids({s.cols()}, 20), 2, score, losses, t.inout({1}, DType::f32)};
}

// One expert, a warp's, more than one for each lane, ragged, and more than four warps have shared memory for.
struct Size {
  Shape logits;
  std::int64_t k;
};
const Size kSizes[] = {{{1, 1, 1}, 1},   {{3, 2, 8}, 2},   {{5, 1, 8}, 8},   {{3, 3, 33}, 3},
                       {{2, 2, 64}, 40}, {{7, 1, 256}, 8}, {{2, 1, 4096}, 6}};
// mixtral, deepseek-v3; the second with samples of 64 Ki tokens.
const Shape kBench{8192, 1, 256}, kHuge{65536, 8, 256};
const RouterRule kDeepSeek = grouped({RouterScore::sigmoid, true, 2.5f}, 8, 4, GroupScore::best_two);

std::string label_of(DType type, const Size& s, const char* form) {
  return fmt::format("{} {} of {}, {}", name_of(type), s.k, s.logits, form);
}

const Cases<ops::Route> route(reference, [](CaseList<ops::Route>& cases) {
  // No roundings: the experts must be the same.
  const Within within{.cpu = {1e-7, 4e-6, 0}, .kernel = {1e-7, 4e-6, 0}, .gpu = 2};
  const auto add = [&](DType type, const Size& s, const Form& f) {
    cases.add(
        label_of(type, s, f.name), [=](Tensors& t) { return make(t, s.logits, s.k, type, f.rule, f.corrected); },
        within);
  };
  for_types_and(kSizes, [&](DType type, const Size& s) {
    for (const Form& f : kForms) add(type, s, f);
    for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
      RouterRule rule{score, true};
      rule.balanced = true;
      add(type, s, {score == RouterScore::softmax ? "balanced softmax" : "balanced sigmoid", rule});
    }
  });
  const Size group_sizes[] = {{{5, 2, 16}, 2}, {{4, 1, 160}, 6}, {{3, 1, 256}, 8}};
  for_types_and(group_sizes, [&](DType type, const Size& s) {
    RouterRule limited = grouped({}, 8, 2, GroupScore::best);
    limited.balanced = true;
    add(type, s, {"balanced in groups", limited});
    limited.local = true;
    add(type, s, {"balanced in groups, side by side", limited});
    add(type, s, {"best groups", grouped({}, 8, 3, GroupScore::best)});
    add(type, s, {"best groups corrected", grouped({RouterScore::sigmoid}, 8, 4, GroupScore::best), true});
    add(type, s, {"best two of groups", grouped({RouterScore::softmax}, 4, 2, GroupScore::best_two)});
    add(type, s, {"best two of groups corrected", kDeepSeek, true});
    add(type, s, {"groups of one", grouped({}, s.logits.cols(), s.k, GroupScore::best)});
  });
  const double inf = INFINITY, nan = std::nan("");
  const auto given = [&](const char* name, const Values& logits, const RouterRule& rule) {
    cases.add(
        name,
        [=](Tensors& t) {
          ops::Route op;
          op.logits = t.values({1, 6}, DType::f32, logits);
          op.rule = rule, op.experts = t.out({1, 3}, DType::i64), op.weights = t.out({1, 3});
          return op;
        },
        within);
  };
  given("all equal", {2, 2, 2, 2, 2, 2}, {});
  given("equal in groups", {1, 3, 3, 1, 3, 1}, grouped({}, 3, 2, GroupScore::best_two));
  given("equal but one", {0, 1, 0, 0, 0, 0}, {});
  given("NaN is not chosen", {nan, 1, nan, 2, 3, nan}, {RouterScore::sigmoid});
  given("NaN has to be chosen", {nan, nan, 4, nan, nan, nan}, {RouterScore::sigmoid});
  given("-infinity", {-inf, 1, -inf, 2, -inf, -inf}, {RouterScore::softmax, true});
  cases.unemulated(
      "f32 8 of [2048, 1, 256]",
      [](Tensors& t) {
        return make(t, {2048, 1, 256}, 8, DType::f32, kDeepSeek, true);
      },
      within);
  for (const Form& f : kForms)
    cases.gradient(
        f.name,
        [=](Tensors& t) {
          return make(t, {5, 1, 9}, 3, DType::f32, f.rule, f.corrected);
        },
        [=](Tensors& t, const ops::Route& op) {
          ops::RouteGrad grad = make_grad(t, {5, 1, 9}, 3, DType::f32, f.rule, {});
          grad.logits = op.logits, grad.experts = op.experts;
          return Backward{grad, {op.weights, grad.dweights, {{op.logits, grad.dlogits}}}};
        },
        {2e-6, 2e-4});
  cases.timed("8 of 256", [](Tensors& t) { return make(t, kBench, 8, DType::f32, kDeepSeek, true); });
  cases.timed("8 of 256 balanced", [](Tensors& t) {
    RouterRule rule = kDeepSeek;
    rule.balanced = true;
    return make(t, kBench, 8, DType::f32, rule, false);
  });
  cases.enqueued(1, [](Tensors& t) { return make(t, {64, 1, 64}, 6, DType::bf16, {}, false); });
  cases.huge("8 of 256", [](Tensors& t) { return make(t, kHuge, 8, DType::bf16, kDeepSeek, true); });
  cases.huge("8 of 8192 in groups of one", [](Tensors& t) {
    return make(t, {4096, 1, 8192}, 8, DType::bf16, grouped({}, 8192, 8, GroupScore::best), false);
  });
});

const Cases<ops::RouteGrad> route_grad(reference, [](CaseList<ops::RouteGrad>& cases) {
  const Within within{.cpu = {1e-5}, .kernel = {1e-5, 4e-6}, .gpu = 2};
  for_types_and(kSizes, [&](DType type, const Size& s) {
    for (const Form& f : kForms) {
      if (f.corrected && f.rule.score == RouterScore::softmax) continue;  // no concern of the gradient
      for (const bool losses : {false, true})
        cases.add(
            label_of(type, s, f.name) + (losses ? " with losses" : ""),
            [=](Tensors& t) {
              const ops::RouterLosses of{losses ? 0.3f : 0, losses ? 0.2f : 0, 2 * s.logits.rows()};
              return make_grad(t, s.logits, s.k, type, f.rule, of);
            },
            within);
    }
  });
  cases.timed("8 of 256", [](Tensors& t) { return make_grad(t, kBench, 8, DType::f32, kDeepSeek, {1e-4f, 0, 8192}); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, {64, 1, 64}, 6, DType::bf16, {}, {}); });
  cases.huge("8 of 256", [](Tensors& t) {
    return make_grad(t, kHuge, 8, DType::bf16, kDeepSeek, {1e-4f, 1e-3f, kHuge.rows()});
  });
});

const Cases<ops::RouterLoss> router_loss(reference, [](CaseList<ops::RouterLoss>& cases) {
  const Within within{.cpu = {1e-6, 4e-6}, .kernel = {1e-6, 4e-6}};
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
    const char* name = score == RouterScore::softmax ? "softmax" : "sigmoid";
    const auto label_with = [=](DType type, const Shape& s) { return label(type, s) + " " + name; };
    for_types_and(kSizes, [&](DType type, const Size& s) {
      cases.add(
          label_with(type, s.logits),
          [=](Tensors& t) {
            return make_loss(t, s.logits, type, score, {0.3f, 0.2f, 2 * s.logits.rows()});
          },
          within);
    });
    const Shape many{4100, 1, 3};  // more rows than warps
    cases.add(
        label_with(DType::f32, many),
        [=](Tensors& t) {
          return make_loss(t, many, DType::f32, score, {0.3f, 0.2f, many[0]});
        },
        within);
    // The gradient of each by RouteGrad, without one of the weights.
    for (const bool of_z : {false, true}) {
      const Shape s{4, 1, 7};
      const ops::RouterLosses losses{of_z ? 0 : 1.5f, of_z ? 0.5f : 0, 6};
      cases.gradient(
          fmt::format("{} of {}", of_z ? "z" : "balance", name),
          [=](Tensors& t) { return make_loss(t, s, DType::f32, score, losses); },
          [=](Tensors& t, const ops::RouterLoss& op) {
            ops::RouteGrad grad;
            grad.dweights = t.values({4, 2}, DType::f32, Values(8, 0.0));
            grad.logits = op.logits, grad.experts = drawn_experts(t, 4, 2, 7);
            grad.rule.score = score, grad.losses = losses, grad.counts = op.counts;
            grad.dlogits = t.out(s);
            const Tensor one = t.values({1}, DType::f32, {1});
            return Backward{grad, {op.sum, one, {{op.logits, grad.dlogits}}}};
          },
          {2e-6, 1e-4});
    }
  }
  cases.timed("256", [](Tensors& t) {
    return make_loss(t, kBench, DType::f32, RouterScore::softmax, {1e-4f, 1e-3f, 8192});
  });
  cases.enqueued(2, [](Tensors& t) {
    return make_loss(t, {64, 1, 64}, DType::bf16, RouterScore::softmax, {1e-4f, 0, 64});
  });
  cases.huge("256", [](Tensors& t) {
    return make_loss(t, kHuge, DType::bf16, RouterScore::softmax, {1e-4f, 1e-3f, kHuge.rows()});
  });
});

}  // namespace
}  // namespace mbench::test
