// The weights of one rank that are not trained: the model's, where adapters are (engine/point/adapter.h). They have values in the model's
// type, in 4 bits or in FP8, and nothing else: no gradient, no f32 original, no optimizer state. Where the plan shards weights, a rank keeps
// its part of them and gathers a unit's for each use, as it does with those that are trained. Else they are whole on every rank and never
// travel.
#pragma once
#include <memory>
#include <vector>

#include "engine/nn/runtime/groups.h"
#include "engine/nn/state/frozen_space.h"
#include "engine/nn/state/initial_values.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

struct Parameter;
class Fp8Parameters;
class Nf4Weights;

class FrozenWeights {
 public:
  FrozenWeights(Device& device, const Plan& plan, const Groups& groups);
  ~FrozenWeights();

  // Called while the model is built, by ParameterStore.
  Parameter* add(std::unique_ptr<Parameter> parameter);
  // That weight lives in 4 bits, or only in FP8, from then on. Called while the model is built.
  void keep_in_nf4(Parameter& parameter);
  void keep_in_fp8(Parameter& parameter);
  const Nf4Weights& nf4() const { return *nf4_; }
  const Fp8Parameters& fp8() const { return *fp8_; }
  void allocate_and_initialise(int units, const InitialValues& values);

  // The values of a unit's weights are there from begin_use() to end_use(). fetch() starts to gather them, if they are not there.
  void fetch(int unit);
  void begin_use(int unit);
  void end_use(int unit);

  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  const Tensor& weights() const { return space_.own(); }  // those in the model's type, flat: whole, or this rank's part

 private:
  void initialise(const Parameter& parameter, std::size_t item, const InitialValues& values);

  Device& device_;
  const Plan& plan_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  // Of the unit, with their places in the space of their type. Those in 4 bits are not among them.
  struct Member {
    Parameter* parameter;
    std::size_t item;
  };
  std::vector<std::vector<Member>> units_;
  FrozenSpace space_, fp8_codes_;
  std::unique_ptr<Nf4Weights> nf4_;
  std::unique_ptr<Fp8Parameters> fp8_;
};

}  // namespace mbench::nn
