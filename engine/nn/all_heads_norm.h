// RMS norm of the queries, or of the keys, of all heads together (OLMo 2): of a token one root mean square over all heads' columns. Where
// heads are split over ranks the columns are gathered, normed whole on every rank, and each rank keeps its own, as Megatron-Core's
// models with such norms do. One gamma for all columns, whole on every rank.
#pragma once
#include "engine/nn/columns_norm.h"
#include "engine/plan/mesh.h"

namespace mbench {

class AllHeadsNorm {
 public:
  // Heads of queries or keys inside a tensor [seq, batch, groups, width]: of every group's columns [first, first + columns).
  struct Heads {
    Tensor data;
    std::int64_t first = 0, columns = 0;
  };
  // `split`: the axes over whose ranks heads are split. `tokens`: what lies split of the rows along which axes.
  AllHeadsNorm(ParameterStore& store, const NormSpec& spec, Axes split, const Spread& tokens)
      : split_(split), norm_(store, spec, tokens, tokens) {}
  void forward(Context& context, const Heads& x, const Heads& y, Tensor& rstd) const;
  // In the place of dy; accumulates gamma's gradient and frees rstd.
  void backward(Context& context, const Heads& dy, const Heads& x, Tensor& rstd) const;

 private:
  // [seq, batch, columns of all heads]; and the part of that that is this rank's, where the heads lie.
  Tensor gathered(Context& context, const Heads& heads, std::string_view what) const;
  void take_own(Context& context, const Tensor& all, const Heads& heads) const;

  Axes split_;
  ColumnsNorm norm_;
};

}  // namespace mbench
