// Frozen weights that are kept in 4 bits (engine/ops/nf4.h): codes and the scales of their blocks, in flat tensors, whole on every rank that
// has the weight. A GEMM reads a weight in the model's type, which is made for this use and freed after it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/device/tensor.h"
#include "engine/point/adapter.h"

namespace mbench {

struct Context;
struct Parameter;
class Device;
class InitialValues;

class Nf4Weights {
 public:
  explicit Nf4Weights(FrozenBase base) : base_(base) {}
  // Called while the model is built. Rows of the weight must be whole blocks.
  void add(Parameter& parameter);
  bool empty() const { return weights_.empty(); }
  // Allocates all, and quantises initial values, rounded to the model's type before.
  void allocate_and_initialise(Device& device, DType model, const InitialValues& values);
  // A weight [out, in] in the model's type.
  Tensor dequantised(Context& context, const Parameter& parameter) const;

 private:
  struct Weight {
    const Parameter* parameter;
    Tensor codes, scales;  // of double quantisation the scales are only there for a use
    Tensor codes_of_scales{}, most{}, mean{};
  };
  void allocate(Device& device);
  Tensor scales_of(Device& device, const Weight& weight) const;

  FrozenBase base_;
  DType model_ = DType::f32;
  std::vector<Weight> weights_;
};

}  // namespace mbench
