#include "engine/ops/softmax.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Softmax& op, Doubles& v) {
  const Shape& s = op.scores.shape();
  const Values& scores = v[op.scores];
  Values& probs = v.out(op.probs);
  const std::int64_t keys = s[3], queries = s[2];
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const std::int64_t b = row / queries / s[1], q = row % queries;
    const auto hidden = [&](std::int64_t k) {
      const std::int64_t of_mask = op.mask && op.mask.shape()[0] > 1 ? b * queries : 0;
      return (op.causal && k > q) || (op.keep && v[op.keep][b * keys + k] == 0) ||
             (op.mask && v[op.mask][(of_mask + q) * keys + k] != 0) ||
             (op.bounds && (k < v[op.bounds][q] || k >= v[op.bounds][queries + q]));
    };
    double top = -INFINITY, sum = 0;
    for (std::int64_t k = 0; k < keys; ++k) {
      if (hidden(k)) continue;
      top = std::max(top, op.scale * scores[row * keys + k]);
    }
    for (std::int64_t k = 0; k < keys; ++k)
      if (!hidden(k)) sum += std::exp(op.scale * scores[row * keys + k] - top);
    for (std::int64_t k = 0; k < keys; ++k)
      probs[row * keys + k] = hidden(k) ? 0 : std::exp(op.scale * scores[row * keys + k] - top) / sum;
  }
}

// What hides keys.
enum class Hides {
  nothing,
  causal,
  mask_of_all,
  mask_of_each,
  bounds,
  bounds_and_causal,
  keep,
  keep_and_mask,
  keep_and_causal
};
constexpr const char* kHides[] = {"",
                                  " causal",
                                  " one mask",
                                  " a mask for each sample",
                                  " bounded",
                                  " bounded and causal",
                                  " padded",
                                  " padded and masked",
                                  " padded and causal"};

ops::Softmax make(Tensors& t, const Shape& s, DType type, Hides hides) {
  ops::Softmax op;
  op.scores = t.in(s, type, -8, 8), op.probs = t.over({op.scores}), op.scale = 0.7f;
  op.causal = hides == Hides::causal || hides == Hides::keep_and_causal || hides == Hides::bounds_and_causal;
  // Query q sees thirds of the keys, by turns. Causal ones see the own position at least.
  if (hides == Hides::bounds || hides == Hides::bounds_and_causal) {
    Values first, end;
    for (std::int64_t q = 0; q < s[2]; ++q) {
      const std::int64_t third = s[3] / 3, from = op.causal ? std::min(q, s[3] - 1) / 5 * 5 : q % 3 * third;
      first.push_back(static_cast<double>(from));
      end.push_back(static_cast<double>(std::min(s[3], from + std::max<std::int64_t>(5, third))));
    }
    first.insert(first.end(), end.begin(), end.end());
    op.bounds = t.values({2, s[2]}, DType::i64, first);
  }
  // The last query of a mask sees no key.
  const auto mask = [&](std::int64_t samples) {
    Values bytes;
    for (std::int64_t i = 0; i < samples * s[2] * s[3]; ++i) bytes.push_back(i % 3 == 0 || i / s[3] % s[2] == s[2] - 1);
    return t.values({samples, s[2], s[3]}, DType::u8, bytes);
  };
  if (hides == Hides::mask_of_all) op.mask = mask(1);
  if (hides == Hides::mask_of_each || hides == Hides::keep_and_mask) op.mask = mask(s[0]);
  if (hides >= Hides::keep) op.keep = t.mask({s[0], s[3]}, 0.7);
  return op;
}

void reference(const ops::SoftmaxGrad& op, Doubles& v) {
  const Values &d = v[op.dprobs], &p = v[op.probs];
  Values& out = v.out(op.dscores);
  const Shape& s = op.probs.shape();
  const std::int64_t keys = s.cols();
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const std::int64_t visible = op.causal ? std::min(keys, row % s[2] + 1) : keys;
    double sum = 0;
    for (std::int64_t k = 0; k < visible; ++k) sum += p[row * keys + k] * d[row * keys + k];
    for (std::int64_t k = 0; k < keys; ++k)
      out[row * keys + k] = k < visible ? op.scale * p[row * keys + k] * (d[row * keys + k] - sum) : 0;
  }
}

ops::SoftmaxGrad make_grad(Tensors& t, const Shape& s, DType type, bool causal) {
  const Tensor d = t.in(s, type), p = t.in(s, type, 0, 0.1);
  return {d, p, t.over({d}), 0.5f, causal};
}

const Cases<ops::Softmax> softmax(reference, [](CaseList<ops::Softmax>& cases) {
  const Within within{.cpu = {1e-7, 2e-6, 2}, .kernel = {1e-7, 4e-6}, .gpu = 2};
  const auto add = [&](DType type, const Shape& s, Hides hides, bool emulated) {
    const std::string name = label(type, s) + kHides[static_cast<int>(hides)];
    const auto made = [=](Tensors& t) { return make(t, s, type, hides); };
    emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
  };
  for (const DType type : kFloatTypes)
    for (int hides = 0; hides < 9; ++hides) {
      for (const std::int64_t keys : {1, 31, 33, 256, 1027, 1032}) add(type, {2, 2, 2, keys}, Hides(hides), true);
      add(type, {2, 3, 37, 37}, Hides(hides), false);
      for (const Shape& s : {Shape{2, 2, 128, 128}, Shape{1, 2, 33, 1024}, Shape{1, 1, 3, 5000}})
        if (hides < 7) add(type, s, Hides(hides), false);
    }
  cases.add(
      "infinities and NaN",
      [](Tensors& t) {
        const double inf = INFINITY, nan = std::nan("");
        const Shape shape{1, 1, 6, 4};
        ops::Softmax op;
        op.scores = t.values(shape, DType::f32, {-inf, 1,    2,     -inf, nan, 1,   2,   3,    //
                                                 1e30, 1e30, -1e30, 0,    nan, nan, nan, nan,  //
                                                 -inf, -inf, -inf,  -inf, inf, 1,   2,   3});
        op.probs = t.out(shape);
        return op;
      },
      within);
  for (const bool causal : {false, true})
    cases.gradient(
        causal ? "[1, 2, 9, 9] causal" : "[1, 2, 9, 9]",
        [=](Tensors& t) {
          return make(t, {1, 2, 9, 9}, DType::f32, causal ? Hides::causal : Hides::nothing);
        },
        [=](Tensors& t, const ops::Softmax& op) {
          const Shape& s = op.scores.shape();
          const ops::SoftmaxGrad grad{t.in(s, DType::f32), op.probs, t.out(s), op.scale, causal};
          return Backward{grad, {op.probs, grad.dprobs, {{op.scores, grad.dscores}}}};
        },
        {2e-6, 2e-5});
  const auto causal = [](const Shape& s, DType type) {
    return [=](Tensors& t) { return make(t, s, type, Hides::causal); };
  };
  cases.timed("causal", causal(kScores, DType::f32));
  cases.huge("causal", causal(kHugeScores, DType::bf16));
});

const Cases<ops::SoftmaxGrad> softmax_grad(reference, [](CaseList<ops::SoftmaxGrad>& cases) {
  const Within within{.cpu = {2e-6}, .kernel = {2e-5, 4e-6}, .gpu = 2};
  for (const DType type : kFloatTypes)
    for (const bool causal : {false, true}) {
      const auto add = [&](const Shape& s, bool emulated) {
        const std::string name = label(type, s) + (causal ? " causal" : "");
        const auto made = [=](Tensors& t) { return make_grad(t, s, type, causal); };
        emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
      };
      for (const std::int64_t keys : {1, 31, 33, 256, 1027, 5000}) add({1, 2, 3, keys}, true);
      add({2, 2, 21, 21}, false);
      add({2, 2, 128, 128}, false);
    }
  cases.timed("causal", [](Tensors& t) { return make_grad(t, kScores, DType::f32, true); });
  cases.huge("causal", [](Tensors& t) { return make_grad(t, kHugeScores, DType::bf16, true); });
});

}  // namespace
}  // namespace mbench::test
