// One rank's part of a training run: builds the model that the Plan gives it and runs optimizer steps by the
// stage's schedule.
//
// Where the plan says so, steps are replayed. The inputs of a step, and all else that differs from step to step, are
// written to tensors of their own before it begins. The first step runs as it is, and makes what is made once. The
// second is recorded, and every later one repeats it. From then on nothing may allocate on the device.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/model/model.h"
#include "engine/train/data.h"
#include "engine/train/gradient_sync.h"
#include "engine/train/inputs.h"
#include "engine/train/optimizer.h"

namespace mbench::train {

struct StepResult {
  float gradient_norm = 0;  // before clipping
  bool skipped = false;
};

class Trainer {
 public:
  // `data` may be null on a simulated device.
  Trainer(const Plan& plan, Device& device, comm::World& world, const TokenSource* data);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  // Called with each action of the schedule before it is performed, and with null once all are done. Where the plan
  // defers work, it is called with null again after that.
  using Watcher = std::function<void(const Action*)>;
  // One optimizer step. Its losses stay on the device.
  StepResult step(const Watcher& before = {});
  // The mean of the last step's losses over the global batch, the same on every rank; NaN on a simulated device. It
  // reads and reduces on the host over the whole job, and is not part of a step. `depth`: of multi-token prediction,
  // from 1; 0: of the next token.
  float mean_loss(std::int64_t depth = 0);
  // What the step minimised in addition to that loss: the routers' losses, of all layers, and those of multi-token
  // prediction, scaled. Nothing where the model has none. Otherwise as mean_loss().
  std::optional<float> auxiliary_loss();

  // How many captured parts were replayed.
  std::int64_t replayed_parts() const { return context_.graphs.replays(); }
  const nn::RouterLoad& router_load() const { return context_.router_load; }
  comm::Group& all_ranks() { return groups_.all(); }
  const nn::ParameterStore& parameters() const { return store_; }

 private:
  struct Slot {  // one micro batch in one chunk
    nn::MicroBatch batch;
    model::ModelChunk::Saved saved;
    nn::StashedGroups stashed;  // of what its experts keep, where that is in pages
    Tensor input, output;       // activations in and out, until consumed or sent
    Tensor dinput, doutput;     // gradients likewise
    // Gradients of weights that backward leaves, and what is ready with them.
    std::vector<std::function<void()>> later;
    // A forward or a backward that takes turns with another, and the part of the model that it stopped in.
    std::unique_ptr<Fiber> fiber;
    ModelPart stopped_in;
  };
  struct Sending {
    std::unique_ptr<comm::Pending> pending;
    Tensor tensor;
  };
  struct Neighbour {  // nobody's at the ends of the model
    int stage = -1, chunk = 0;
  };
  using SlotKey = std::pair<int, int>;  // chunk, micro batch

  void perform(const Action& action);
  void find_neighbours();
  void forward(const Action& action, Slot& slot);
  void backward(const Action& action, Slot& slot);
  void weight_gradient(Slot& slot);
  // From where it stopped to where it stops next.
  void go_on(const Action& action, Slot& slot, nn::Context::Way way);
  // To the neighbour's rank, or, where the neighbour is a chunk of this one, to `place` in its slot.
  void send(const Action& action, int to, int tag_chunk, Tensor& tensor);
  void hand_over(const Neighbour& to, int micro, Tensor Slot::*place, Tensor& tensor);
  Tensor receive(int from, int tag_chunk, const Action& action, int parts);
  int tag(int chunk_position, const Action& action) const;
  void enqueue(const Watcher& before);
  // All of that once; `again`: weights are there.
  void pass(const Watcher& before, bool again);
  // Whether experts of any rank got more rows than they have room for, or filled their pages. Every rank waits for the answer.
  bool rows_overflowed();
  void make_stash();
  Optimizer::Outcome replay(const Watcher& before);
  void after_update();

  const Plan& plan_;
  Device& device_;
  nn::Groups groups_;
  comm::Group& pipeline_;
  int stage_, dp_rank_;
  nn::Context context_;
  nn::ParameterStore store_;
  std::vector<model::ModelChunk> chunks_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor losses_;    // [next token and depths, micro batches] f32, written on the last stage
  Tensor overflow_;  // [1] f32, where experts have static room: how many ranks had too little
  std::map<SlotKey, Slot> slots_;
  std::map<std::pair<int, bool>, Sending> sending_;  // by (stage, is activation)
  std::vector<int> backwards_left_;                  // by chunk, in this step
  std::vector<int> wait_for_deferred_;               // units whose gradients are complete with the deferred ones
  std::vector<Neighbour> before_, behind_;           // by chunk: where the chunk before it is, and the one behind it
  bool splits_backward_, has_loss_ = false;          // whether the stage has the chunk that ends in the loss
  int shared_words_ = -1;                            // the unit of a table of words that two of the stage's chunks use
  std::unique_ptr<StepInputs> inputs_;
  // Where steps are replayed: the recorded step, and the guard of its memory.
  std::unique_ptr<AllocationObserver> guard_;
  std::unique_ptr<RecordedStep> recorded_;
};

}  // namespace mbench::train
