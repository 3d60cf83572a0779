// The parameters of one rank, in units that own their storage. Modules hold pointers to parameters and read
// them only inside a Use of their unit. The store decides where the unit's tensors lie meanwhile: whole in flat
// tensors, or as this rank's part of them (StatePlan). A part is gathered for a use and freed after it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/runtime/groups.h"
#include "engine/nn/state/fp8_parameters.h"
#include "engine/nn/state/frozen_weights.h"
#include "engine/nn/state/initial_values.h"
#include "engine/nn/state/state_layout.h"
#include "engine/plan/framework.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

struct Parameter {
  WeightSpec spec;  // its name also selects the draw of its initial value: the same on every layout
  Spread placement;
  Axes reduce_over;     // its gradient is partial along these axes when backward ends
  bool trains = true;   // false: frozen, with neither gradient nor optimizer state; its gradient stays empty
  bool counted = true;  // in the gradient norm and the parameter count; false for copies of a tied table
  // Held by several stages of a pipeline (Groups::embedding), which sum their gradients.
  bool shared_by_ends = false;

  Shape local;  // of this rank's shard
  int unit = 0;
  std::size_t index = 0;    // in the order in which they were added
  std::int64_t offset = 0;  // in the flat space (StateLayout), elements
  Tensor value, gradient;   // within a Use of the unit; else empty
  int fp8 = -1;             // its first matrix among Fp8Parameters, if it lives only in FP8: its value is codes
  int nf4 = -1;             // its place among Nf4Weights, if it lives in 4 bits: its value stays empty
  // Its gradient's memory holds what is not of this step. The first GEMM that makes the whole gradient overwrites it;
  // whatever else comes first sets it to zero (zero_if_stale).
  bool stale = false;
  // Its gradient's memory, or a part of another's, holds its weight (ParameterStore::gathers_in_gradients). That is until its first use
  // of the step ends.
  bool lent = false;

  const std::string& name() const { return spec.name; }
  // Weight decay acts on matrices, not on biases and norms.
  bool decays() const { return spec.shape.rank() > 1 && !spec.bias; }
};

// Within a Use, before anything adds to a gradient.
void zero_if_stale(Device& device, Parameter& parameter);

class ParameterStore {
 public:
  ParameterStore(Device& device, const Plan& plan, const Groups& groups)
      : device_(device), plan_(plan), groups_(groups), initial_(device, plan, groups), frozen_(device, plan, groups) {}

  // Called while the model is built. `tokens` and `outputs`: how the activations lie that the weight acts on, and those
  // it makes.
  Parameter* add(const WeightSpec& spec, const Spread& placement, const Spread& tokens, const Spread& outputs);
  Parameter* add(const WeightSpec& spec, const Spread& placement, const Spread& tokens) {
    return add(spec, placement, tokens, tokens);
  }
  // Closes the unit of everything added since the last call; returns its index. Parameters of a unit are used together,
  // and their gradients become ready together: one layer, the embedding, the head.
  int close_unit();
  // A tensor of zeros that a module keeps from step to step and no gradient moves.
  Tensor add_state(const Shape& shape, std::string_view what);
  // One of the model's type that nothing changes: `values`, each for as many neighbouring elements as all have.
  Tensor add_constants(const Shape& shape, const std::vector<float>& values, std::string_view what);
  // For delayed scaling; a layer adds its tensors while the model is built.
  ScaleHistory& scales() { return scales_; }
  // Makes a weight live only in FP8; `slot`: the place of its tensors in delayed scaling.
  void keep_in_fp8(Parameter& parameter, int slot) {
    parameter.trains ? fp8_.add(parameter, slot) : frozen_.keep_in_fp8(parameter);
  }
  // Those of trained weights, or of frozen ones.
  const Fp8Parameters& fp8(const Parameter& parameter) const { return parameter.trains ? fp8_ : frozen_.fp8(); }
  // Makes a frozen weight live in 4 bits.
  void keep_in_nf4(Parameter& parameter) { frozen_.keep_in_nf4(parameter); }
  const Nf4Weights& nf4() const { return frozen_.nf4(); }
  // The units to come are of another chunk: their gradients become ready separately from those before.
  void begin_chunk() { chunk_starts_.push_back(unit_count()); }
  // Once the model is built: allocates weights, gradients and, where 16-bit weights have them, f32 originals. Draws
  // initial values.
  void allocate_and_initialise();

  // While it lives, the values of its units' parameters are there, and, where a backward asks for them, their gradients.
  // Uses of one unit may overlap. A backward that is split asks for them twice: `partly`, and then `rest`, without the values. Only
  // then are they complete.
  enum class Gradients { no, yes, partly, rest };
  class Use {
   public:
    ~Use() {
      if (!store_) return;
      for (const int unit : units_) store_->end_use(unit, gradients_);
    }
    Use(Use&& other) noexcept
        : store_(std::exchange(other.store_, nullptr)), units_(std::move(other.units_)), gradients_(other.gradients_) {}
    Use& operator=(Use&&) = delete;

   private:
    friend class ParameterStore;
    Use(ParameterStore& store, std::vector<int> units, Gradients gradients)
        : store_(&store), units_(std::move(units)), gradients_(gradients) {}
    ParameterStore* store_;
    std::vector<int> units_;
    Gradients gradients_;
  };
  // `next`: what is used next, whose weights may be fetched meanwhile; `then`: what is used after that, whose weights
  // may come from the host.
  [[nodiscard]] Use use(std::vector<int> units, Gradients gradients, const std::vector<int>& next = {},
                        const std::vector<int>& then = {});
  [[nodiscard]] Use use(int unit) { return use(std::vector<int>{unit}, Gradients::yes); }

  // Before the first backward of a step: forgets the gradients that are there. Before weights are fetched, where these lie in their memory.
  void begin_gradients();
  // Whether weights that are fetched lie in the memory of gradients. Their first use, a forward, makes what the step keeps of them, and the
  // memory is zero again behind it. A rank's first backward comes after all of these.
  bool gathers_in_gradients() const { return fp8_.in_gradients(); }

  // Before the step that reads them: makes weights in FP8 from their f32 originals, and fetches weights that other
  // ranks have updated. A use waits for its own.
  void fetch_updated();
  // After the forward of a chunk: what its gathers held for their successors is free.
  void end_of_forward() { arrived_last_.reset(); }

  const Groups& groups() const { return groups_; }
  // Those that are trained; frozen ones are separate, and have neither gradients nor optimizer state.
  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  const FrozenWeights& frozen() const { return frozen_; }
  int unit_count() const { return static_cast<int>(units_.size()); }
  const StateLayout& layout() const { return layout_; }
  const StatePlan& state() const { return plan_.state; }
  std::int64_t size() const { return layout_.size(); }  // elements of all units, alignment included

  // The flat tensors, one unit after the other: of the whole space, or, where sharded, of what this rank owns. Weights
  // that live only in FP8 are not among weights(), which ends where they begin. It is empty with casts_gathers().
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  // What the optimizer updates: f32, or the weights themselves where those have its type and are in the same memory.
  const Tensor& main() const { return main_; }
  // Those of them whose state lives on the device though the rest is the host's (StatePlan::host_share); else empty. They follow main()'s.
  const Tensor& main_beside() const { return main_beside_; }
  // How many of the elements that this rank owns have their optimizer state in host memory: the first ones.
  std::int64_t host_elements() const { return host_elements_; }
  // The device's f32 originals, which the host's updated ones are copied to (StatePlan::main_on_device); else empty.
  const Tensor& main_on_device() const { return main_on_device_; }
  // Whether every rank has all f32 originals, though each updates only its own: PyTorch's optimizers that shard their state
  // (FairScale's OSS, ZeroRedundancyOptimizer) know nothing of 16-bit weights.
  bool main_whole() const {
    return under_autocast(plan_) && state().cut == StatePlan::Cut::parameters &&
           state().optimizer_at == Residence::device;
  }
  Placement main_placement() const { return main_whole() ? replicate : state().optimizer; }
  // Whether this rank has its part of the weights in f32 only, and casts what it sends (Keeps::cast_gathers). Not of weights in FP8.
  bool casts_gathers() const {
    return plan_.keeps().cast_gathers && state().weights.sharded() && plan_.precision.main_weights() &&
           state().weights_at == Residence::device && state().optimizer_at == Residence::device;
  }
  bool main_separate() const { return plan_.precision.main_weights() || state().weights_at != state().optimizer_at; }
  // The device that has memory of that residence.
  Device& at(Residence where) const { return where == Residence::host ? device_.host() : device_; }

  // The gradient of a parameter, where it is whole.
  Tensor gradient_of(const Parameter& p) const { return gradients_.part(p.offset, p.local); }
  // What this rank owns of a parameter's gradient: all of it where nothing is sharded; empty where others own it.
  Tensor own_gradient(const Parameter& p) const;
  // A part that this rank owns, in weights() and in gradients().
  Tensor own_weights(const StateLayout::Own& own) const {
    if (!state().weights.sharded()) return weights_at(own.begin, {own.size()});
    return own.begin < layout_.fp8_begin() ? weights_.part(own.at, {own.size()})
                                           : fp8_.codes().part(own.at - layout_.fp8_at(), {own.size()});
  }
  Tensor own_gradients(const StateLayout::Own& own) const {
    return gradients_.part(state().gradients.sharded() ? own.at : own.begin, {own.size()});
  }

  // A bucket's gradients as backward fills them; what is reduced of them goes to own_gradients(). Where gradients are
  // sharded, they are there from the first use that asks for them until they are dropped, and begin as zeros.
  Tensor bucket_gradients(int bucket) const;
  // The same once backward has filled them, in the type in which they are reduced: with copied_gradients a copy.
  Tensor gradients_to_reduce(int bucket);
  void drop_gradients(int bucket) { buckets_[static_cast<std::size_t>(bucket)].gradients.reset(); }
  // Whether only this rank has a bucket's parameters in its copy of the state. Then its own part is all of it, and
  // nothing travels but between copies, or to the host.
  bool alone(int bucket) const { return layout_.buckets()[static_cast<std::size_t>(bucket)].peers == 1; }

 private:
  struct Unit {
    std::vector<Parameter*> parameters;
    int users = 0, gradient_users = 0;
  };
  struct Bucket {
    Tensor shard;  // this rank's own part, on the device: of weights that live on the host, or that it casts
    std::unique_ptr<HostCopy> copy;  // of the shard, until it is waited for
    Tensor weights;                  // gathered, where they are sharded
    Tensor arrived;                  // what is copied to `weights` once it is there, with copied_gathers
    Tensor gradients;                // being filled, where they are sharded
    std::vector<std::unique_ptr<comm::Pending>> arriving;  // weights
  };

  void lay_out();
  // Where weights are whole: those from `begin` on in the space.
  Tensor weights_at(std::int64_t begin, const Shape& shape) const {
    return begin < layout_.fp8_begin() ? weights_.part(begin, shape)
                                       : fp8_.codes().part(begin - layout_.fp8_begin(), shape);
  }
  std::int64_t bucket_elements() const {
    return static_cast<std::int64_t>(plan_.gradient_bucket_bytes / size_of(plan_.precision.gradients));
  }
  void begin_use(int unit, Gradients gradients);
  void end_use(int unit, Gradients gradients);
  void fetch(int bucket);
  void bring(int bucket);
  Tensor cast(int bucket);
  void wait_for_copy(int bucket);
  void wait_for(int bucket, bool holds = false);  // `holds`: what it arrived in lives on until the next has
  void open_gradients(int bucket);
  bool copies_gradients(int bucket) const {
    return plan_.keeps().copied_gradients && state().gradients.sharded() && state().weights.sharded() && !alone(bucket);
  }
  // The parameter in the tensor of its bucket, which begins where that does.
  Tensor within(const Tensor& bucket, const Parameter& p) const;
  int bucket_of(const Parameter& p) const { return bucket_of_.empty() ? 0 : bucket_of_[p.index]; }
  Bucket& bucket(int index) { return buckets_[static_cast<std::size_t>(index)]; }

  void initialise(const Parameter& p);
  void initialise_by_blocks(const Parameter& p);
  void keep_block(const Tensor& block, const Parameter& p, std::int64_t begin);
  void keep_main(const Tensor& values, std::int64_t at);

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::size_t closed_ = 0;  // parameters that are in a unit
  std::vector<Unit> units_;
  std::vector<int> chunk_starts_;
  StateLayout layout_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // [parameter], where anything is sharded
  Tensor weights_, gradients_, main_, main_beside_, main_on_device_;
  Tensor arrived_last_;  // in forward, with copied_gathers: what the last gather arrived in, until the next has arrived
  std::int64_t host_elements_ = 0;
  ScaleHistory scales_;
  Fp8Parameters fp8_;
  InitialValues initial_;
  FrozenWeights frozen_;
};

}  // namespace mbench::nn
