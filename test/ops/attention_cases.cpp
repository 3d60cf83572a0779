#include "engine/ops/attention.h"
#include "test/ops/cases.h"
#include "test/ops/dropped.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::AttentionShape;
using ops::Matrix;

const RngKey kKey{7, 3, 1};

double& element(Values& v, const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
  return v[m.offset + i * m.batch_stride + r * m.ld + c];
}
double element(const Values& v, const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
  return v[m.offset + i * m.batch_stride + r * m.ld + c];
}

// One query of one head: its probabilities, and what dropout multiplies them by.
struct Row {
  Values probs, factors;
  double lse = -INFINITY;
};

Row row_of(const AttentionShape& s, const Doubles& v, const Matrix& q, const Matrix& k, std::int64_t head,
           std::int64_t query) {
  Row row{Values(s.seq, 0.0), Values(s.seq, 1.0)};
  const Values &qs = v[q.data], &ks = v[k.data];
  const std::int64_t sample = head / s.heads;
  Values scores(s.seq, -INFINITY);
  double top = -INFINITY, sum = 0;
  for (std::int64_t j = 0; j < s.seq; ++j) {
    if ((s.causal && j > query) || (s.keep && v[s.keep][sample * s.seq + j] == 0)) continue;
    scores[j] = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      scores[j] += s.scale * element(qs, q, head, query, d) * element(ks, k, head, j, d);
    top = std::max(top, scores[j]);
    const std::int64_t flat = (head * s.seq + query) * s.seq + j;
    row.factors[j] = dropout_factor(s.dropout, s.map, {s.batch, s.heads, s.seq, s.seq}, flat);
  }
  for (const double x : scores)
    if (x != -INFINITY) sum += std::exp(x - top);
  if (sum == 0) return row;  // no key is seen
  row.lse = top + std::log(sum);
  for (std::int64_t j = 0; j < s.seq; ++j) row.probs[j] = std::exp(scores[j] - row.lse);
  return row;
}

void reference(const ops::Attention& op, Doubles& v) {
  const AttentionShape& s = op.shape;
  const Values& values = v[op.v.data];
  Values &out = v.out(op.out.data), &lse = v.out(op.lse);
  for (std::int64_t head = 0; head < s.batches(); ++head)
    for (std::int64_t query = 0; query < s.seq; ++query) {
      const Row row = row_of(s, v, op.q, op.k, head, query);
      lse[head * s.seq + query] = row.lse;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < s.seq; ++j)
          sum += row.probs[j] * row.factors[j] * element(values, op.v, head, j, d);
        element(out, op.out, head, query, d) = sum;
      }
      if (op.probs)
        std::copy(row.probs.begin(), row.probs.end(),
                  v.out(op.probs).begin() + (head * s.seq + query) * s.seq);
    }
}

// From q, k, v and dout alone: what the forward kept is rounded.
void reference(const ops::AttentionGrad& op, Doubles& v) {
  const AttentionShape& s = op.shape;
  const Values &qs = v[op.q.data], &ks = v[op.k.data], &values = v[op.v.data], &douts = v[op.dout.data];
  for (const Matrix* m : {&op.dq, &op.dk, &op.dv})
    for (std::int64_t i = 0; i < s.batches() * s.seq * s.head_dim; ++i)
      element(v.out(m->data), *m, i / s.head_dim / s.seq, i / s.head_dim % s.seq, i % s.head_dim) = 0;
  Values &dq = v.out(op.dq.data), &dk = v.out(op.dk.data), &dv = v.out(op.dv.data);
  for (std::int64_t head = 0; head < s.batches(); ++head)
    for (std::int64_t query = 0; query < s.seq; ++query) {
      const Row row = row_of(s, v, op.q, op.k, head, query);
      Values dprobs(s.seq, 0.0);
      double sum = 0;
      for (std::int64_t j = 0; j < s.seq; ++j) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          const double dout = element(douts, op.dout, head, query, d);
          dprobs[j] += row.factors[j] * dout * element(values, op.v, head, j, d);
          element(dv, op.dv, head, j, d) += row.factors[j] * row.probs[j] * dout;
        }
        sum += row.probs[j] * dprobs[j];
      }
      for (std::int64_t j = 0; j < s.seq; ++j) {
        const double dscore = s.scale * row.probs[j] * (dprobs[j] - sum);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          element(dq, op.dq, head, query, d) += dscore * element(ks, op.k, head, j, d);
          element(dk, op.dk, head, j, d) += dscore * element(qs, op.q, head, query, d);
        }
      }
    }
}

struct Form {
  std::int64_t batch, heads, seq, head_dim;
  bool causal = true, padded = false;
  float dropout = 0;
  bool keep_probs = false;
  float scale = 0.4f;
  std::string name(DType type) const {
    return fmt::format("{} {}x{}x{}x{}{}{}{}{}", mbench::name_of(type), batch, heads, seq, head_dim,
                       causal ? " causal" : "", padded ? " padded" : "",
                       dropout > 0 ? fmt::format(" dropout {}", dropout) : "",
                       keep_probs ? " probabilities kept" : "");
  }
};

AttentionShape shape_of(Tensors& t, const Form& f) {
  AttentionShape s{f.batch, f.heads, f.seq, f.head_dim, f.scale, f.causal};
  s.dropout = {f.dropout, kKey};
  s.map = {f.heads + 3, 2, 5};
  Values keep;  // where it is causal too, query 0 sees no key
  for (std::int64_t i = 0; f.padded && i < f.batch * f.seq; ++i) keep.push_back(i % 4 != 0);
  if (f.padded) s.keep = t.values({f.batch, f.seq}, DType::u8, keep);
  return s;
}

// q, k and v interleaved in one [seq, batch, heads, 3, head_dim] tensor, as a fused projection leaves them.
Matrix view(const Tensor& packed, const AttentionShape& s, int which, int parts) {
  const std::int64_t width = s.heads * parts * s.head_dim;
  return Matrix(packed, s.seq, s.head_dim, s.batch * width, which * s.head_dim, parts * s.head_dim);
}

ops::Attention make(Tensors& t, const Form& f, DType type) {
  const AttentionShape s = shape_of(t, f);
  const Shape scores{f.batch, f.heads, f.seq, f.seq};
  const Tensor qkv = t.in({f.seq, f.batch, f.heads * 3, f.head_dim}, type, -1.5, 1.5),
               out = t.out({f.seq, f.batch, f.heads, f.head_dim}, type),
               lse = t.out({f.batch, f.heads, f.seq});
  return {s,
          view(qkv, s, 0, 3),
          view(qkv, s, 1, 3),
          view(qkv, s, 2, 3),
          view(out, s, 0, 1),
          lse,
          f.keep_probs ? t.out(scores, type) : Tensor()};
}

ops::AttentionGrad gradient_of(Tensors& t, const ops::Attention& op) {
  const AttentionShape& s = op.shape;
  const Shape hidden{s.seq, s.batch, s.heads, s.head_dim}, packed{s.seq, s.batch, s.heads * 3, s.head_dim};
  const DType type = op.q.data.dtype();
  const Tensor dout = t.in(hidden, type), d = t.out(packed, type);
  return {s,
          view(dout, s, 0, 1),
          op.q,
          op.k,
          op.v,
          op.out,
          op.lse,
          op.probs,
          view(d, s, 0, 3),
          view(d, s, 1, 3),
          view(d, s, 2, 3)};
}

// What the forward would have kept is worked out in double here, from the same draws.
ops::AttentionGrad make_grad(Tensors& t, const Form& f, DType type) {
  const AttentionShape s = shape_of(t, f);
  const Shape hidden{f.seq, f.batch, f.heads, f.head_dim}, packed{f.seq, f.batch, f.heads * 3, f.head_dim};
  const Tensor qkv = t.in(packed, type, -1.5, 1.5);
  ops::Attention forward{s, view(qkv, s, 0, 3), view(qkv, s, 1, 3), view(qkv, s, 2, 3)};
  Values out(hidden.numel(), 0.0), lse(f.batch * f.heads * f.seq, 0.0), probs;
  if (f.keep_probs) probs.assign(f.batch * f.heads * f.seq * f.seq, 0.0);
  if (t.is_real()) {
    const Doubles v(t);
    const Matrix to = view(qkv, s, 0, 1);
    for (std::int64_t head = 0; head < s.batches(); ++head)
      for (std::int64_t query = 0; query < s.seq; ++query) {
        const Row row = row_of(s, v, forward.q, forward.k, head, query);
        lse[head * s.seq + query] = row.lse;
        for (std::int64_t j = 0; j < s.seq; ++j) {
          if (f.keep_probs) probs[(head * s.seq + query) * s.seq + j] = row.probs[j];
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            element(out, to, head, query, d) +=
                row.probs[j] * row.factors[j] * element(v[qkv], forward.v, head, j, d);
        }
      }
  }
  forward.out = view(t.values(hidden, type, out), s, 0, 1);
  forward.lse = t.values({f.batch, f.heads, f.seq}, DType::f32, lse);
  if (f.keep_probs) forward.probs = t.values({f.batch, f.heads, f.seq, f.seq}, type, probs);
  return gradient_of(t, forward);
}

std::vector<Form> masks_and_dropout(Form f, float dropout) {
  std::vector<Form> all;
  for (int flags = 0; flags < 16; ++flags) {
    f.causal = flags & 1, f.padded = flags & 2, f.dropout = flags & 4 ? dropout : 0, f.keep_probs = flags & 8;
    all.push_back(f);
  }
  return all;
}

const Form kBench{1, kBenchHeads, kBenchTokens, kBenchHeadDim, true, false, 0, false, 0.125f};

Form bench(float dropout, bool keep_probs) {
  Form f = kBench;
  f.dropout = dropout, f.keep_probs = keep_probs;
  return f;
}

// Attention on GPUs is a library's, or ops of others: a GPU without cuDNN has it only where probabilities are kept.
const Cases<ops::Attention> attention(reference, [](CaseList<ops::Attention>& cases) {
  const auto add = [&](const Form& f, DType type) {
    const Within within{.cpu = {2e-6, 1e-6}, .gpu = f.keep_probs ? 4.0 : 0};
    cases.unemulated(
        f.name(type), [=](Tensors& t) { return make(t, f, type); }, within);
  };
  for (const DType type : kFloatTypes) {
    for (const Form& f : masks_and_dropout({2, 3, 41, 10}, 0.2f)) add(f, type);
    for (const bool causal : {true, false}) add({2, 3, 48, 16, causal, !causal, 0.1f, true, 0.25f}, type);
  }
  // Over the borders of the CPU's blocks, with fewer heads than threads too.
  for (const std::int64_t heads : {1, 4})
    for (const std::int64_t seq : {127, 129, 300}) add({1, heads, seq, 16, true, false, 0.1f}, DType::f32);
  for (const Form& f : masks_and_dropout({2, 2, 7, 3}, 0.3f))
    cases.gradient(
        f.name(DType::f32), [=](Tensors& t) { return make(t, f, DType::f32); },
        [](Tensors& t, const ops::Attention& op) {
          const ops::AttentionGrad grad = gradient_of(t, op);
          return Backward{grad, {op.out.data, grad.dout.data, {{op.q.data, grad.dq.data}}}};
        },
        {3e-6, 1e-5});
  const auto timed = [&](const char* name, const Form& f, DType type) {
    cases.timed(name, [=](Tensors& t) { return make(t, f, type); });
  };
  timed("causal", kBench, DType::f32);
  timed("causal, dropout", bench(0.1f, false), DType::f32);
  timed("causal, probabilities kept", bench(0, true), DType::f32);
  timed("causal bf16", kBench, DType::bf16);
  cases.huge("probabilities kept", [](Tensors& t) {
    return make(t, {1, 96, 65536, 128, true, false, 0, true}, DType::bf16);
  });
});

const Cases<ops::AttentionGrad> attention_grad(reference, [](CaseList<ops::AttentionGrad>& cases) {
  const auto add = [&](const Form& f, DType type, double absolute) {
    const Within within{.cpu = {type == DType::f32 ? absolute : 2 * epsilon(type), 1e-4, 4},
                        .gpu = f.keep_probs ? 4.0 : 0};
    cases.unemulated(
        f.name(type), [=](Tensors& t) { return make_grad(t, f, type); }, within);
  };
  for (const DType type : kFloatTypes) {
    for (const bool keep_probs : {false, true}) add({2, 2, 50, 8, true, true, 0.1f, keep_probs}, type, 1e-5);
    for (const bool causal : {true, false})
      add({2, 3, 48, 16, causal, !causal, 0.1f, true, 0.25f}, type, 1e-5);
  }
  struct Head {
    std::int64_t heads, dim;
  };
  for (const bool causal : {false, true})
    for (const Head& h : {Head{1, 8}, Head{3, 8}, Head{1, 64}, Head{2, 33}, Head{2, 48}, Head{3, 64},
                          Head{2, 80}, Head{2, 128}})
      add({1, h.heads, 290, h.dim, causal, false, 0.1f, false, 1 / std::sqrt(static_cast<float>(h.dim))},
          DType::f32, 1e-5);
  const auto timed = [&](const char* name, const Form& f, DType type) {
    cases.timed(name, [=](Tensors& t) {
      ops::Attention forward = make(t, f, type);
      forward.out.data = t.in(forward.out.data.shape(), type),
      forward.lse = t.in(forward.lse.shape(), DType::f32, 7, 8);
      return gradient_of(t, forward);
    });
  };
  timed("causal", kBench, DType::f32);
  timed("causal, dropout", bench(0.1f, false), DType::f32);
  timed("causal bf16", kBench, DType::bf16);
});

}  // namespace
}  // namespace mbench::test
