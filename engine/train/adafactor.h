// A step of Adafactor over all matrices that this rank updates. Each may lie in parts on several ranks, by its
// placement. The sums over rows, over columns, and of squared updates are reduced over these ranks. They are packed
// into one all-reduce for each set of axes. Each expert is a matrix, with its own norm of the update.
#pragma once
#include <map>
#include <vector>

#include "engine/nn/runtime/groups.h"
#include "engine/nn/state/parameters.h"

namespace mbench::train {

class Adafactor {
 public:
  Adafactor(Device& device, const Plan& plan, const nn::Groups& groups)
      : device_(device), plan_(plan), groups_(groups) {}

  // One parameter: flat tensors of its elements, and its moments.
  struct Item {
    const nn::Parameter* parameter;
    Tensor main, gradients, model, row, column;
  };
  struct Step {
    float lr, weight_decay, gradient_scale;
    std::int64_t number;  // from 1
  };
  void step(const std::vector<Item>& items, const Step& step);

 private:
  // One matrix, and its places among the sums.
  struct Matrix {
    Tensor main, gradient, model, row, column;
    std::int64_t rows, cols;    // of the whole matrix
    std::int64_t elements;      // likewise, without the padding of the vocabulary
    Axes over_rows, over_cols;  // that cut its rows, and its columns
    float weight_decay;
    std::int64_t row_at = 0, column_at = 0;  // in the sums over what cuts the other dim
  };
  std::vector<Matrix> matrices_of_step(const std::vector<Item>& items, float weight_decay) const;

  Device& device_;
  const Plan& plan_;
  const nn::Groups& groups_;
};

}  // namespace mbench::train
