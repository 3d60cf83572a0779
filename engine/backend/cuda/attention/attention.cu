// Attention whose probabilities are kept (attention "core"): products by cuBLASLt around the softmax, scores
// and probabilities in the tensor that keeps them. Attention without them (attention "flash") is flash.h's.
//
// What dropout leaves of the probabilities, and their gradients, are in workspace outside the engine's
// arena, for as many heads of one sample at a time as kWorkspace holds.
#include <algorithm>

#include "engine/backend/cuda/attention/attention.cuh"
#include "engine/backend/cuda/attention/flash.h"
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/ops/attention.h"
#include "engine/ops/dropout.h"
#include "engine/ops/matmul.h"
#include "engine/ops/softmax.h"

namespace mbench::cuda {
namespace {

using ops::Attention;
using ops::AttentionGrad;
using ops::AttentionShape;
using ops::Matrix;

constexpr std::int64_t kWorkspace = std::int64_t{256} << 20;  // bytes, or one head if that is more

void check_probabilities(std::string_view op, const Tensor& probs, DType type) {
  check(probs.dtype() == type, op, "probabilities must be {} as the operands are, got {}", name_of(type),
        name_of(probs.dtype()));
}

// Heads [first, first + count) of one sample, whole groups of them.
struct Heads {
  std::int64_t sample, first, count;
};

// All of them, in pieces that need at most kWorkspace for `tensors` tensors of the scores' size.
template <class F>
void for_heads(const AttentionShape& s, DType type, std::int64_t tensors, F&& f) {
  const std::int64_t bytes = s.seq * s.seq * static_cast<std::int64_t>(size_of(type)) * tensors;
  const std::int64_t most = std::clamp<std::int64_t>(kWorkspace / bytes / s.group * s.group, s.group, s.heads);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t a = 0; a < s.heads; a += most) f(Heads{b, a, std::min(most, s.heads - a)});
}

Matrix matrices_of(const AttentionShape& s, const Matrix& all, const Heads& h) {
  Matrix m = all;
  m.offset += (h.sample * s.heads + h.first) / s.group * m.batch_stride;
  return m;
}

Shape scores_shape(const Heads& h, std::int64_t seq) {
  return {1, h.count, seq, seq};
}

Tensor probs_of(const AttentionShape& s, const Tensor& probs, const Heads& h) {
  return probs.part((h.sample * s.heads + h.first) * s.seq * s.seq, scores_shape(h, s.seq));
}

ops::HeadMap map_of(const AttentionShape& s, const Heads& h) {
  ops::HeadMap map = s.map;
  map.head0 += h.first;
  map.sample0 += h.sample;
  return map;
}

// The heads of a group that are its i-th: of queries and outputs, and of scores.
Matrix member(Matrix m, std::int64_t i) {
  m.offset += i * m.cols;
  return m;
}
Matrix member_scores(const AttentionShape& s, const Tensor& t, std::int64_t i) {
  return {t, s.seq, s.seq, s.seq, i * s.seq * s.seq, s.group * s.seq * s.seq};
}

// a * b for each of `heads` heads: a product of batches for each member of the groups, of which those after the first
// add to what the first left where a group has one result (`sum`).
enum class Result { each, sum };
template <class A, class B, class C>
void multiply(CudaOps& gpu, const AttentionShape& s, std::int64_t heads, Result result, const A& a, const B& b,
              const C& c) {
  for (std::int64_t i = 0; i < s.group; ++i) {
    ops::Matmul gemm{a(i), b(i), c(i)};
    gemm.batch = heads / s.group;
    gemm.beta = result == Result::sum && i > 0 ? 1.0f : 0.0f;
    compute(gpu, gemm);
  }
}

}  // namespace

template <>
void compute(CudaOps& gpu, const Attention& op) {
  const AttentionShape& s = op.shape;
  const DType type = op.q.data.dtype();
  if (s.batches() == 0 || s.seq == 0) return;
  if (!op.probs) return gpu.flash->run(op);
  check_probabilities(Attention::name, op.probs, type);
  multiply(
      gpu, s, s.batches(), Result::each, [&](std::int64_t i) { return member(op.q, i); },
      [&](std::int64_t) { return op.k.t(); }, [&](std::int64_t i) { return member_scores(s, op.probs, i); });
  enqueue_statistics(gpu.kernels, op);
  compute(gpu, ops::Softmax{op.probs, op.probs, s.scale, s.causal, Tensor(), s.keep, s.document_bounds});
  const auto add_values = [&](const Tensor& probs, const Matrix& v, const Matrix& out, std::int64_t heads) {
    multiply(
        gpu, s, heads, Result::each, [&](std::int64_t i) { return member_scores(s, probs, i); },
        [&](std::int64_t) { return v; }, [&](std::int64_t i) { return member(out, i); });
  };
  if (s.dropout.p <= 0) return add_values(op.probs, op.v, op.out, s.batches());
  for_heads(s, type, 1, [&](const Heads& h) {
    const Tensor dropped(gpu.workspace, scores_shape(h, s.seq), type, Category::workspace,
                         "probabilities after dropout");
    compute(gpu, ops::Dropout{probs_of(s, op.probs, h), dropped, Tensor(), s.dropout, map_of(s, h)});
    add_values(dropped, matrices_of(s, op.v, h), matrices_of(s, op.out, h), h.count);
  });
}

// With F the factors of dropout: dV = (P F)^T dO, dP = F (dO V^T), dS = scale P (dP - rowsum(P dP)), dQ = dS
// K, dK = dS^T Q.
template <>
void compute(CudaOps& gpu, const AttentionGrad& op) {
  const AttentionShape& s = op.shape;
  const DType type = op.q.data.dtype();
  if (s.batches() == 0 || s.seq == 0) return;
  if (!op.probs) return gpu.flash->run(op);
  check_probabilities(AttentionGrad::name, op.probs, type);
  const bool drops = s.dropout.p > 0;
  for_heads(s, type, drops ? 2 : 1, [&](const Heads& h) {
    const auto of = [&](const Matrix& m) { return matrices_of(s, m, h); };
    const auto workspace = [&](const char* what) {
      return Tensor(gpu.workspace, scores_shape(h, s.seq), type, Category::workspace, what);
    };
    const Tensor probs = probs_of(s, op.probs, h), dscores = workspace("gradient of probabilities");
    Tensor dropped = probs;
    if (drops) {
      dropped = workspace("probabilities after dropout");
      compute(gpu, ops::Dropout{probs, dropped, Tensor(), s.dropout, map_of(s, h)});
    }
    const auto scores = [&](const Tensor& t) { return [&s, t](std::int64_t i) { return member_scores(s, t, i); }; };
    const auto scores_t = [&](const Tensor& t) {
      return [&s, t](std::int64_t i) { return member_scores(s, t, i).t(); };
    };
    const auto heads = [&](const Matrix& m) { return [m = of(m)](std::int64_t i) { return member(m, i); }; };
    const auto shared = [&](const Matrix& m) { return [m](std::int64_t) { return m; }; };
    multiply(gpu, s, h.count, Result::sum, scores_t(dropped), heads(op.dout), shared(of(op.dv)));
    multiply(gpu, s, h.count, Result::each, heads(op.dout), shared(of(op.v).t()), scores(dscores));
    if (drops) compute(gpu, ops::DropoutGrad{dscores, dscores, Tensor(), s.dropout, map_of(s, h)});
    compute(gpu, ops::SoftmaxGrad{dscores, probs, dscores, s.scale, s.causal});
    multiply(gpu, s, h.count, Result::each, scores(dscores), shared(of(op.k)), heads(op.dq));
    multiply(gpu, s, h.count, Result::sum, scores_t(dscores), heads(op.q), shared(of(op.dk)));
  });
}

}  // namespace mbench::cuda
