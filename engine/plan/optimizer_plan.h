// What an optimizer keeps of every parameter from step to step, and how its updates are launched. It is a declaration: the optimizer
// allocates by it, and memory and bytes a parameter follow from it. Strategies write it (strategies/optimizer.cpp).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"
#include "engine/point/architecture.h"
#include "engine/point/choices.h"

namespace mbench {

// Elements of a block that shares a scale (StateExtent::block).
inline constexpr std::int64_t kStateBlock = 256;

// What one element of a state stands for.
enum class StateExtent {
  element,  // of the parameter
  block,    // of kStateBlock elements
  // A sum over the row, or the column, of a matrix (of each matrix where several are one weight). A vector is a matrix of one column.
  row,
  column
};

// The weights that have a state. Muon has a momentum for the matrices that tokens are multiplied by, except those that make logits. It has
// Adam's moments for all others.
enum class StateOf { all, matrices, others };
inline bool is_matrix_of_layers(const WeightSpec& w) {
  return w.meets != Meets::none && w.role != Role::logits;
}

struct OptimizerState {
  std::string_view name;
  DType dtype = DType::f32;
  StateExtent extent = StateExtent::element;
  StateOf of = StateOf::all;

  bool holds(const WeightSpec& w) const {
    return of == StateOf::all || (of == StateOf::matrices) == is_matrix_of_layers(w);
  }
};

// A parameter as `count` matrices [rows, cols].
struct Matrices {
  std::int64_t count = 1, rows = 0, cols = 1;
};
inline Matrices matrices_of(const Shape& shape) {
  if (shape.rank() == 1) return {1, shape[0], 1};
  const std::int64_t rows = shape[shape.rank() - 2], cols = shape[-1];
  return {shape.numel() / (rows * cols), rows, cols};
}

// Elements of a state for a parameter of that shape.
inline std::int64_t elements_of(StateExtent extent, const Shape& shape) {
  const Matrices m = matrices_of(shape);
  switch (extent) {
    case StateExtent::element:
      return shape.numel();
    case StateExtent::block:
      return (shape.numel() + kStateBlock - 1) / kStateBlock;
    case StateExtent::row:
      return m.count * m.rows;
    case StateExtent::column:
      return m.count * m.cols;
  }
  return 0;
}

struct OptimizerPlan {
  OptimizerKind kind = OptimizerKind::adamw;
  std::vector<OptimizerState> states;  // in the order in which they are allocated
  // One launch for all parameters that lie together, or one for each parameter. It holds for the norm too.
  bool fused = true;

  bool has(StateExtent extent) const {
    for (const OptimizerState& s : states)
      if (s.extent == extent) return true;
    return false;
  }
  // Whether it treats matrices of layers differently from the rest.
  bool two_kinds() const {
    for (const OptimizerState& s : states)
      if (s.of != StateOf::all) return true;
    return false;
  }
  // Rows and columns belong to one parameter and need all of it. So do matrices that are treated differently.
  bool by_parameter() const { return !fused || has(StateExtent::row) || two_kinds(); }
  // The alignment of parameters and their parts, in elements. It is a block, or a cache line of f32 and 128 bytes of 16-bit weights. So
  // none has elements of two parameters or of two ranks.
  std::int64_t alignment() const { return has(StateExtent::block) ? kStateBlock : 64; }
};

}  // namespace mbench
