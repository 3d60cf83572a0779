// RMS norm of the queries, or of the keys, of all heads together (OLMo 2). A token has one root mean square over all
// heads' columns. Where heads are split over ranks, the columns are gathered and normed whole on every rank, and each
// rank keeps its own. Megatron-Core's models with such norms do the same. One gamma for all columns, whole on every
// rank.
#pragma once
#include "engine/nn/layers/columns_norm.h"
#include "engine/plan/mesh.h"

namespace mbench::nn {

class AllHeadsNorm {
 public:
  // Heads of queries or keys inside a tensor [seq, batch, groups, width]: columns [first, first + columns) of every
  // group.
  struct Heads {
    Tensor data;
    std::int64_t first = 0, columns = 0;
  };
  // `split`: the axes over whose ranks heads are split. `tokens`: along which axes the rows are split.
  AllHeadsNorm(ParameterStore& store, const NormSpec& spec, Axes split, const Spread& tokens)
      : split_(split), norm_(store, spec, tokens, tokens) {}
  void forward(Context& context, const Heads& x, const Heads& y, Tensor& rstd) const;
  // In the place of dy; accumulates gamma's gradient and frees rstd.
  void backward(Context& context, const Heads& dy, const Heads& x, Tensor& rstd) const;

 private:
  // gathered() gives [seq, batch, columns of all heads]; take_own() writes this rank's part of that where its heads
  // lie.
  Tensor gathered(Context& context, const Heads& heads, std::string_view what) const;
  void take_own(Context& context, const Tensor& all, const Heads& heads) const;

  Axes split_;
  ColumnsNorm norm_;
};

}  // namespace mbench::nn
