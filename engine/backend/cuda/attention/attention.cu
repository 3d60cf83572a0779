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

// Heads [first, first + heads) of one sample.
struct Heads {
  std::int64_t sample, first, count;
};

// All of them, in pieces that need at most kWorkspace for `tensors` tensors of the scores' size.
template <class F>
void for_heads(const AttentionShape& s, DType type, std::int64_t tensors, F&& f) {
  const std::int64_t bytes = s.seq * s.seq * static_cast<std::int64_t>(size_of(type)) * tensors;
  const std::int64_t most = std::clamp<std::int64_t>(kWorkspace / bytes, 1, s.heads);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t a = 0; a < s.heads; a += most) f(Heads{b, a, std::min(most, s.heads - a)});
}

Matrix matrices_of(const AttentionShape& s, const Matrix& all, const Heads& h) {
  Matrix m = all;
  m.offset += (h.sample * s.heads + h.first) * m.batch_stride;
  return m;
}

Shape scores_shape(const AttentionShape& s, const Heads& h) {
  return {1, h.count, s.seq, s.seq};
}

Tensor probs_of(const AttentionShape& s, const Tensor& probs, const Heads& h) {
  return probs.part((h.sample * s.heads + h.first) * s.seq * s.seq, scores_shape(s, h));
}

Matrix scores_matrix(const Tensor& t) {
  const std::int64_t seq = t.shape()[2];
  return {t, seq, seq, seq, 0, seq * seq};
}

ops::HeadMap map_of(const AttentionShape& s, const Heads& h) {
  return {s.map.heads, s.map.head0 + h.first, s.map.sample0 + h.sample};
}

ops::Matmul product(const Matrix& a, const Matrix& b, const Matrix& c, std::int64_t batch) {
  ops::Matmul p{a, b, c};
  p.batch = batch;
  return p;
}

}  // namespace

template <>
void compute(CudaOps& gpu, const Attention& op) {
  const AttentionShape& s = op.shape;
  const DType type = op.q.data.dtype();
  if (s.batches() == 0 || s.seq == 0) return;
  if (!op.probs) return gpu.flash->run(op);
  check_probabilities(Attention::name, op.probs, type);
  compute(gpu, product(op.q, op.k.t(), scores_matrix(op.probs), s.batches()));
  enqueue_statistics(gpu.kernels, op);
  ops::Softmax softmax{op.probs, op.probs, s.scale, s.causal};
  softmax.keep = s.keep;
  compute(gpu, softmax);
  if (s.dropout.p <= 0) {
    compute(gpu, product(scores_matrix(op.probs), op.v, op.out, s.batches()));
    return;
  }
  for_heads(s, type, 1, [&](const Heads& h) {
    const Tensor dropped(gpu.workspace, scores_shape(s, h), type, Category::workspace,
                         "probabilities after dropout");
    compute(gpu, ops::Dropout{probs_of(s, op.probs, h), dropped, Tensor(), s.dropout, map_of(s, h)});
    compute(gpu,
            product(scores_matrix(dropped), matrices_of(s, op.v, h), matrices_of(s, op.out, h), h.count));
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
      return Tensor(gpu.workspace, scores_shape(s, h), type, Category::workspace, what);
    };
    const Tensor probs = probs_of(s, op.probs, h), dscores = workspace("gradient of probabilities");
    Tensor dropped = probs;
    if (drops) {
      dropped = workspace("probabilities after dropout");
      compute(gpu, ops::Dropout{probs, dropped, Tensor(), s.dropout, map_of(s, h)});
    }
    compute(gpu, product(scores_matrix(dropped).t(), of(op.dout), of(op.dv), h.count));
    compute(gpu, product(of(op.dout), of(op.v).t(), scores_matrix(dscores), h.count));
    if (drops) compute(gpu, ops::DropoutGrad{dscores, dscores, Tensor(), s.dropout, map_of(s, h)});
    compute(gpu, ops::SoftmaxGrad{dscores, probs, dscores, s.scale, s.causal});
    compute(gpu, product(scores_matrix(dscores), of(op.k), of(op.dq), h.count));
    compute(gpu, product(scores_matrix(dscores).t(), of(op.q), of(op.dk), h.count));
  });
}

}  // namespace mbench::cuda
