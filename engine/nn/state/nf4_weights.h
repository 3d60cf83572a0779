// Frozen weights that are kept in 4 bits (engine/ops/nf4.h): codes and the scales of their blocks. A GEMM reads a weight in the model's type,
// which is made for this use and freed after it. Weights of experts are a matrix for each, quantised separately.
//
// Codes are whole on every rank that has the weight, or, where the plan shards weights, gathered for a unit's use. Scales are always whole, as
// bitsandbytes' are under PyTorch's FSDP, which shards the codes only. A matrix that is cut over ranks is quantised as if it were whole.
// Rows are whole blocks; of double quantisation a rank has the largest values and the mean of the whole matrix.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/nn/state/frozen_space.h"
#include "engine/point/adapter.h"

namespace mbench::nn {

struct Context;
struct Parameter;
class InitialValues;

class Nf4Weights {
 public:
  Nf4Weights(Device& device, const Plan& plan, const Groups& groups)
      : device_(device), plan_(plan), groups_(groups), base_(plan.adapter.base), codes_(device, plan, groups) {}
  // Called while the model is built. Rows of the weight must be whole blocks.
  void add(Parameter& parameter);
  bool empty() const { return weights_.empty(); }
  // Allocates all, and quantises initial values, rounded to the model's type before.
  void allocate_and_initialise(int units, const InitialValues& values);

  FrozenSpace& codes() { return codes_; }
  // A weight, or of experts' weights one as [1, out, in], in the model's type; within a use of its unit.
  Tensor dequantised(Context& context, const Parameter& parameter, std::optional<std::int64_t> expert = {}) const;

 private:
  // A parameter's matrices, one after the other.
  struct Weight {
    const Parameter* parameter;
    std::size_t codes;  // its place among them
    std::int64_t matrices, rows, cols;
    std::int64_t all_rows, all_cols;    // of a whole matrix
    std::int64_t first_row, first_col;  // of it this rank has those from here on
    Tensor scales{};                    // of double quantisation they are only there for a use
    Tensor codes_of_scales{}, most{}, mean{};

    std::int64_t scales_of_each() const;      // on this rank
    std::int64_t all_scales_of_each() const;  // of a whole matrix
    bool cut() const { return rows != all_rows || cols != all_cols; }
  };
  bool twice() const { return base_ == FrozenBase::nf4_double; }
  void allocate();
  Tensor rounded(const Tensor& block) const;
  void quantise(const Weight& weight, const Tensor& scales, const InitialValues& values) const;
  void quantise_scales(const Weight& weight, const Tensor& scales, const InitialValues& values) const;
  Tensor scales_of(const Weight& weight, std::int64_t first, std::int64_t count) const;

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
  FrozenBase base_;
  FrozenSpace codes_;
  std::vector<Weight> weights_;
};

}  // namespace mbench::nn
