#include "engine/ops/attention.h"
#include "test/ops/cases.h"
#include "test/ops/dropped.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::AttentionShape;
using ops::Matrix;

const RngKey kKey{7, 3, 1};

// Element (r, c) of a head: `group` neighbouring ones share a matrix, side by side, or for keys and values the same.
std::size_t at(const Matrix& m, std::int64_t group, std::int64_t head, std::int64_t r, std::int64_t c) {
  return static_cast<std::size_t>(m.offset + head / group * m.batch_stride + head % group * m.cols + r * m.ld + c);
}
std::size_t shared_at(const Matrix& m, std::int64_t group, std::int64_t head, std::int64_t r, std::int64_t c) {
  return static_cast<std::size_t>(m.offset + head / group * m.batch_stride + r * m.ld + c);
}

// One query of one head: its probabilities, and what dropout multiplies them by.
struct Row {
  Values probs, factors, slopes;  // of capped scores by what is capped
  double lse = -INFINITY;
};

Row row_of(const AttentionShape& s, const Doubles& v, const Matrix& q, const Matrix& k, std::int64_t head,
           std::int64_t query) {
  Row row{Values(s.seq, 0.0), Values(s.seq, 1.0), Values(s.seq, 1.0)};
  const Values &qs = v[q.data], &ks = v[k.data];
  const std::int64_t sample = head / s.heads;
  Values scores(s.seq, -INFINITY);
  double top = -INFINITY, sum = 0;
  for (std::int64_t j = 0; j < s.seq; ++j) {
    const std::int64_t distance = query + s.map.q0 - s.map.k0 - j;
    if ((s.causal && j > query) || (s.keep && v[s.keep][sample * s.seq + j] == 0) ||
        (s.window > 0 && distance >= s.window) ||
        (s.documents && s.documents->at(query + s.map.q0) != s.documents->at(j + s.map.k0)))
      continue;
    scores[j] = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      scores[j] += s.scale * qs[at(q, s.group, head, query, d)] * ks[shared_at(k, s.group, head, j, d)];
    if (s.softcap > 0)
      row.slopes[j] = 1 - std::pow(std::tanh(scores[j] / s.softcap), 2),
      scores[j] = s.softcap * std::tanh(scores[j] / s.softcap);
    if (s.alibi)
      scores[j] -=
          std::exp2(-8.0 * static_cast<double>(s.map.head0 + head % s.heads + 1) / 8) * static_cast<double>(distance);
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
      for (std::int64_t d = 0; d < s.v_dim(); ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < s.seq; ++j)
          sum += row.probs[j] * row.factors[j] * values[shared_at(op.v, s.group, head, j, d)];
        out[at(op.out, s.group, head, query, d)] = sum;
      }
      if (op.probs)
        std::copy(row.probs.begin(), row.probs.end(), v.out(op.probs).begin() + (head * s.seq + query) * s.seq);
    }
}

// From q, k, v and dout alone: what the forward kept is rounded.
void reference(const ops::AttentionGrad& op, Doubles& v) {
  const AttentionShape& s = op.shape;
  const Values &qs = v[op.q.data], &ks = v[op.k.data], &values = v[op.v.data], &douts = v[op.dout.data];
  const auto clear = [&](const Matrix& m, auto place) {
    for (std::int64_t i = 0; i < s.batches() * s.seq * m.cols; ++i)
      v.out(m.data)[place(m, s.group, i / m.cols / s.seq, i / m.cols % s.seq, i % m.cols)] = 0;
  };
  clear(op.dq, at), clear(op.dk, shared_at), clear(op.dv, shared_at);
  Values &dq = v.out(op.dq.data), &dk = v.out(op.dk.data), &dv = v.out(op.dv.data);
  for (std::int64_t head = 0; head < s.batches(); ++head)
    for (std::int64_t query = 0; query < s.seq; ++query) {
      const Row row = row_of(s, v, op.q, op.k, head, query);
      Values dprobs(s.seq, 0.0);
      double sum = 0;
      for (std::int64_t j = 0; j < s.seq; ++j) {
        for (std::int64_t d = 0; d < s.v_dim(); ++d) {
          const double dout = douts[at(op.dout, s.group, head, query, d)];
          dprobs[j] += row.factors[j] * dout * values[shared_at(op.v, s.group, head, j, d)];
          dv[shared_at(op.dv, s.group, head, j, d)] += row.factors[j] * row.probs[j] * dout;
        }
        sum += row.probs[j] * dprobs[j];
      }
      for (std::int64_t j = 0; j < s.seq; ++j) {
        const double dscore = s.scale * row.probs[j] * (dprobs[j] - sum) * row.slopes[j];
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dq[at(op.dq, s.group, head, query, d)] += dscore * ks[shared_at(op.k, s.group, head, j, d)];
          dk[shared_at(op.dk, s.group, head, j, d)] += dscore * qs[at(op.q, s.group, head, query, d)];
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
  std::int64_t group = 1, v_dim = 0;   // heads that share keys and values; width of values, 0: head_dim
  std::int64_t window = 0, ahead = 0;  // ahead: the first query's position after the first key's
  float softcap = 0;
  bool alibi = false;
  std::int64_t document = 0,
               of_seq = 0;  // length of every second document, the others have 5; of_seq: of the whole sequence, 0: seq
  std::int64_t values() const { return v_dim == 0 ? head_dim : v_dim; }
  std::int64_t packed() const { return (group + 1) * head_dim + values(); }  // queries, key and value of a group
  Shape qkv() const { return {seq, batch, heads / group, packed()}; }
  Shape context() const { return {seq, batch, heads, values()}; }
  std::string name(DType type) const {
    return fmt::format(
        "{} {}x{}x{}x{}{}{}{}{}{}{}{}{}{}{}", mbench::name_of(type), batch, heads, seq, head_dim,
        v_dim > 0 ? fmt::format(", values of {}", v_dim) : "", group > 1 ? fmt::format(" groups of {}", group) : "",
        causal ? " causal" : "", padded ? " padded" : "", dropout > 0 ? fmt::format(" dropout {}", dropout) : "",
        keep_probs ? " probabilities kept" : "", window > 0 ? fmt::format(" window {} at {}", window, ahead) : "",
        softcap > 0 ? " capped" : "", alibi ? " alibi" : "",
        document > 0 ? fmt::format(" documents of {} at {}", document, ahead) : "");
  }
};

DocumentsOrNone documents_of(const Form& f) {
  const std::int64_t seq = f.of_seq == 0 ? f.seq : f.of_seq;
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 0; end < seq;) {
    end = std::min(seq, end + (ends.size() % 2 == 0 ? f.document : 5));
    ends.push_back(end);
  }
  return std::make_shared<const Documents>(std::move(ends));
}

AttentionShape shape_of(Tensors& t, const Form& f) {
  AttentionShape s{f.batch, f.heads, f.seq, f.head_dim, f.scale, f.causal};
  s.dropout = {f.dropout, kKey};
  s.map = {f.heads + 3, 2, 5};
  s.group = f.group, s.value_dim = f.v_dim;
  s.window = f.window, s.softcap = f.softcap, s.alibi = f.alibi;
  s.map.q0 = f.ahead;
  if (f.document > 0) s.documents = documents_of(f);
  if (f.document > 0 && f.keep_probs) {
    Values bounds;
    for (std::int64_t q = 0; q < f.seq; ++q) bounds.push_back(static_cast<double>(s.documents->first_of(q)));
    for (std::int64_t q = 0; q < f.seq; ++q) bounds.push_back(static_cast<double>(s.documents->end_of(q)));
    s.document_bounds = t.values({2, f.seq}, DType::i64, bounds);
  }
  if (f.alibi) s.map.heads = 8;  // a power of two, whose slopes are one formula's
  Values keep;                   // where it is causal too, query 0 sees no key
  for (std::int64_t i = 0; f.padded && i < f.batch * f.seq; ++i) keep.push_back(i % 4 != 0);
  if (f.padded) s.keep = t.values({f.batch, f.seq}, DType::u8, keep);
  return s;
}

// Of every group of heads its queries, key and value side by side, as a fused projection leaves them.
struct Packed {
  Packed(const Tensor& qkv, const AttentionShape& s) : qkv(qkv), s(s) {}
  Matrix part(std::int64_t first, std::int64_t dim) const {
    const Shape& shape = qkv.shape();
    return Matrix(qkv, s.seq, dim, shape[1] * shape[2] * shape[3], first, shape[3]);
  }
  Matrix q() const { return part(0, s.head_dim); }
  Matrix k() const { return part(s.group * s.head_dim, s.head_dim); }
  Matrix v() const { return part((s.group + 1) * s.head_dim, s.v_dim()); }
  Tensor qkv;
  const AttentionShape& s;
};

Matrix context_view(const Tensor& context, const AttentionShape& s) {
  const std::int64_t width = s.group * s.v_dim();
  return Matrix(context, s.seq, s.v_dim(), s.groups() * width, 0, width);
}

ops::Attention make(Tensors& t, const Form& f, DType type) {
  const AttentionShape s = shape_of(t, f);
  const Shape scores{f.batch, f.heads, f.seq, f.seq};
  const Packed in(t.in(f.qkv(), type, -1.5, 1.5), s);
  const Tensor out = t.out(f.context(), type), lse = t.out({f.batch, f.heads, f.seq});
  return {s, in.q(), in.k(), in.v(), context_view(out, s), lse, f.keep_probs ? t.out(scores, type) : Tensor()};
}

ops::AttentionGrad gradient_of(Tensors& t, const ops::Attention& op) {
  const AttentionShape& s = op.shape;
  const DType type = op.q.data.dtype();
  const Tensor dout = t.in(op.out.data.shape(), type);
  const Packed d(t.out(op.q.data.shape(), type), s);
  return {s, context_view(dout, s), op.q, op.k, op.v, op.out, op.lse, op.probs, d.q(), d.k(), d.v()};
}

// What the forward would have kept is worked out in double here, from the same draws.
ops::AttentionGrad make_grad(Tensors& t, const Form& f, DType type) {
  const AttentionShape s = shape_of(t, f);
  const Tensor qkv = t.in(f.qkv(), type, -1.5, 1.5);
  const Packed in(qkv, s);
  ops::Attention forward{s, in.q(), in.k(), in.v()};
  Values out(f.context().numel(), 0.0), lse(f.batch * f.heads * f.seq, 0.0), probs;
  if (f.keep_probs) probs.assign(f.batch * f.heads * f.seq * f.seq, 0.0);
  if (t.is_real()) {
    const Doubles v(t);
    const Matrix to = context_view(qkv, s);  // where the elements lie, whatever the tensor
    for (std::int64_t head = 0; head < s.batches(); ++head)
      for (std::int64_t query = 0; query < s.seq; ++query) {
        const Row row = row_of(s, v, forward.q, forward.k, head, query);
        lse[head * s.seq + query] = row.lse;
        for (std::int64_t j = 0; j < s.seq; ++j) {
          if (f.keep_probs) probs[(head * s.seq + query) * s.seq + j] = row.probs[j];
          for (std::int64_t d = 0; d < s.v_dim(); ++d)
            out[at(to, s.group, head, query, d)] +=
                row.probs[j] * row.factors[j] * v[qkv][shared_at(forward.v, s.group, head, j, d)];
        }
      }
  }
  forward.out = context_view(t.values(f.context(), type, out), s);
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

// Heads that share keys and values, fewer groups than threads too; values narrower and wider than queries.
const Form kGrouped[] = {
    {2, 6, 41, 8, true, false, 0.1f, false, 0.4f, 3},      {2, 6, 41, 8, true, false, 0.1f, true, 0.4f, 3},
    {1, 4, 130, 16, false, true, 0, true, 0.25f, 4},       {1, 4, 130, 16, true, false, 0, false, 0.25f, 4},
    {2, 3, 50, 24, true, false, 0.1f, false, 0.2f, 1, 16}, {1, 4, 50, 8, true, false, 0, true, 0.3f, 2, 40}};

// Windows shorter than a block, of several and longer than the sequence, and of blocks of a longer sequence, where some queries see no
// key; caps; slopes by head.
std::vector<Form> bent() {
  std::vector<Form> all;
  const auto add = [&](std::int64_t seq, bool causal, std::int64_t window, std::int64_t ahead, float softcap,
                       bool alibi, float dropout = 0) {
    Form f{2, 4, seq, 8, causal, false, dropout, false, 0.4f, 2};
    f.window = window, f.ahead = ahead, f.softcap = softcap, f.alibi = alibi;
    all.push_back(f);
  };
  for (const std::int64_t window : {1, 5, 33, 130, 400}) add(150, true, window, 0, 0, false);
  add(41, true, 7, 0, 1.5f, true, 0.1f);
  add(41, true, 0, 0, 0.7f, false);
  add(41, true, 0, 0, 0, true);
  add(130, false, 140, 130, 0, false);
  add(130, false, 20, 130, 1.5f, true);
  add(130, false, 0, 130, 0, true);
  return all;
}

// Documents shorter and longer than a block, with all that goes with them; and blocks of a longer sequence, where some queries see no key.
std::vector<Form> packed() {
  std::vector<Form> all;
  for (const std::int64_t document : {1, 12, 100})
    for (const bool causal : {true, false})
      for (const bool keep_probs : {false, true}) {
        Form f{2, 4, 150, 8, causal, !causal, 0.1f, keep_probs, 0.4f, 2};
        f.document = document;
        all.push_back(f);
      }
  Form bent{2, 4, 150, 8, true, false, 0, false, 0.4f, 2};
  bent.document = 40, bent.window = 9, bent.softcap = 1.5f, bent.alibi = true;
  all.push_back(bent);
  for (const std::int64_t window : {0, 20}) {
    Form ahead{2, 4, 130, 8, false, false, 0, false, 0.4f, 2};
    ahead.document = 150, ahead.ahead = 130, ahead.of_seq = 260, ahead.window = window;
    all.push_back(ahead);
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
    for (const Form& f : kGrouped) add(f, type);
    for (const Form& f : bent()) add(f, type);
    for (const Form& f : packed()) add(f, type);
    for (const bool causal : {true, false}) add({2, 3, 48, 16, causal, !causal, 0.1f, true, 0.25f}, type);
  }
  // Over the borders of the CPU's blocks, with fewer heads than threads too.
  for (const std::int64_t heads : {1, 4})
    for (const std::int64_t seq : {127, 129, 300}) add({1, heads, seq, 16, true, false, 0.1f}, DType::f32);
  std::vector<Form> differentiated = masks_and_dropout({2, 2, 7, 3}, 0.3f);
  for (Form f : masks_and_dropout({2, 2, 9, 3}, 0.3f)) f.document = 2, differentiated.push_back(f);
  for (const Form& f : differentiated)
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
  Form window = kBench;
  window.window = kBenchTokens / 8;
  timed("window", window, DType::f32);
  Form documents = kBench;
  documents.document = kBenchTokens / 8;
  timed("documents", documents, DType::f32);
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
    for (const Form& f : kGrouped) add(f, type, 1e-5);
    for (const Form& f : bent())
      if (f.ahead == 0) add(f, type, 1e-5);  // of a block alone a query without keys has no statistics
    for (const Form& f : packed())
      if (f.ahead == 0) add(f, type, 1e-5);
    for (const bool causal : {true, false}) add({2, 3, 48, 16, causal, !causal, 0.1f, true, 0.25f}, type, 1e-5);
  }
  struct Head {
    std::int64_t heads, dim;
  };
  for (const bool causal : {false, true})
    for (const Head& h :
         {Head{1, 8}, Head{3, 8}, Head{1, 64}, Head{2, 33}, Head{2, 48}, Head{3, 64}, Head{2, 80}, Head{2, 128}})
      add({1, h.heads, 290, h.dim, causal, false, 0.1f, false, 1 / std::sqrt(static_cast<float>(h.dim))}, DType::f32,
          1e-5);
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
  Form window = kBench;
  window.window = kBenchTokens / 8;
  timed("window", window, DType::f32);
  Form documents = kBench;
  documents.document = kBenchTokens / 8;
  timed("documents", documents, DType::f32);
});

}  // namespace
}  // namespace mbench::test
