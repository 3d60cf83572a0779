// GEMMs of the experts on a rank, each with its own rows: in one call where the framework's module takes them in groups.
#pragma once
#include <optional>
#include <vector>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/grouped_matmul.h"

namespace mbench::nn {

// How many rows each expert has: all the same number, or as the offsets say.
struct ExpertRows {
  std::int64_t each = 0;
  std::vector<std::int64_t> offsets;  // [experts + 1] where `each` is 0
  double deviation = 0;               // in simulation: of an expert's rows, where routing draws them
  double fullest = 1;                 // likewise: of the fullest rank's rows, for which all wait, over the mean
};

// f(expert, its first row, how many it has), of each of them that has any.
template <class F>
void for_each_expert(const ExpertRows& rows, std::int64_t experts, const F& f) {
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    const std::int64_t first = rows.each > 0 ? e * rows.each : rows.offsets[i],
                       count = rows.each > 0 ? rows.each : rows.offsets[i + 1] - first;
    if (count > 0) f(e, first, count);
  }
}

// What every expert's tokens are split over, whatever their way: the ranks that have the same experts.
inline constexpr Spread kTokensOfExperts = Spread(Axis::edp, shard(0)).with(Axis::dp_replicate, shard(0));

using ExpertGemm = ops::GroupedMatmul::Gemm;

// What the host does to launch GEMMs of all experts, so many times.
void charge_expert_gemms(Context& context, const Tensor& weights, int times = 1);
// x [rows, in], w [experts, out, in], y [rows, out], as GroupedMatmul has them.
void multiply_by_expert(Context& context, ExpertGemm gemm, const Tensor& x, const Tensor& w, const Tensor& y,
                        const ExpertRows& rows, float beta = 0);
// Nothing where the weight is frozen.
void add_gradient_by_expert(Context& context, const Tensor& x, Parameter& weight, const Tensor& y,
                            const ExpertRows& rows);

}  // namespace mbench::nn
