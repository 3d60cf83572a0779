// Sums the gradients that are partial when backward ends. Each parameter's is summed over the axes that its placement
// and the tokens' say (reduce_over of plan/placement.h). Over ranks of data (kDataAxes) that is in buckets, which start
// as soon as backward has filled them. Over tp, where a rank saw only a part of the sequence, it is at the end. A table
// that the first and the last stage share is summed between those.
//
// Where optimizer state is sharded (StatePlan), a rank needs only the sum of its own part: buckets are
// reduce-scattered. So it is with ZeRO 1, in its paper and in Megatron's distributed optimizer. An all-reduce would
// needlessly gather the gradients: the updated weights are gathered anyway. Where gradients are sharded as well, every
// micro batch's are reduced and added to this rank's part. Then at most one bucket is in flight while the next is
// filled.
//
// By whole parameters (FairScale), whole gradients are all-reduced, as with an optimizer that knows nothing of it, and
// sharded ones are reduced to their owners. Where all state is the first rank's, whole gradients are reduced to it
// after every backward, overlapped with none.
//
// With several copies of sharded state (dp_replicate) each rank also all-reduces its own part across copies, once a
// step. That is right after the reduce-scatter if only the last backward reduces, else after the last micro batch.
// Whole gradients by whole parameters are all-reduced over all ranks of data at once.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::train {

class GradientSync {
 public:
  GradientSync(Device& device, const Plan& plan, nn::ParameterStore& store, const nn::Groups& groups);

  // The gradients of a unit are complete: of this micro batch or, with `last`, of the step, in which none will be
  // added. Within a chunk units become ready from the last to the first.
  void ready(int unit, bool last);
  // After each backward of a chunk: its sharded gradients are where they are kept.
  void end_of_micro_batch();
  // After the last backward: starts what is left and waits for all.
  void finish();

 private:
  void reduce(int unit, bool last);
  // Gradients that are not sharded: neighbouring runs of units.
  void add_runs(int unit);
  // Where frameworks copy gradients to buckets: their place there, once they are, and back. The gradients themselves elsewhere.
  Tensor in_bucket(const Tensor& gradients, std::int64_t begin);
  void out_of_bucket(const Tensor& gradients, std::int64_t begin);
  void flush(nn::StateLayout::Run& bucket);
  bool in_fp8(int bucket) const;  // of weights that live only in FP8
  // Sharded gradients.
  void fill(int bucket, bool last);
  void start(int bucket, bool last);
  void settle_oldest();
  // All-reduces what this rank owns of a bucket, whose sums within this copy of the state are complete.
  void reduce_between_copies(int bucket);
  // Gradients of state that is all the first rank's.
  void reduce_to_first();

  // What is reduced and this rank's goes to the host, where it is added once the next is in flight, or the micro batch ends.
  void send_to_host(const nn::StateLayout::Own& own, const Tensor& part);
  // The bucket's gradients in a copy that is made to reduce them, or as they are.
  Tensor flattened(int bucket, const Tensor& gradients);
  void add_on_host();

  void reduce_packed(Axes axes);

  Device& device_;
  nn::ParameterStore& store_;
  const nn::Groups& groups_;
  std::int64_t bucket_elements_;
  bool overlap_;
  int most_travelling_ = 1;  // sharded gradients: buckets that are under way while the next is filled
  std::vector<int> later_;   // units that are ready, where communication overlaps with no backward
  // Being filled, empty when begin is end: of what lies before weights that live only in FP8, and of these.
  nn::StateLayout::Run bucket_, fp8_bucket_;
  std::vector<std::unique_ptr<comm::Pending>> pending_;
  Tensor buckets_;                                // of all gradients, where they are copied there
  std::vector<nn::StateLayout::Range> copied_;    // and these come back when all have been reduced
  std::int64_t flat_elements_ = 0, largest_ = 0;  // of a copied bucket, where they are copied; of a parameter
  bool norm_in_f64_ = false;
  Tensor room_;  // for a bucket, where a framework keeps it though weights travel by unit: nobody reads it

  struct Travelling {
    int bucket;
    bool last;
    Tensor gradients;
    std::vector<std::unique_ptr<comm::Pending>> parts;
  };
  struct Sent {
    Tensor there, part, arrived;  // sum on the host; on the device, and its copy on the host
    std::unique_ptr<HostCopy> copy;
  };
  std::optional<Sent> sent_;
  Tensor landing_;                       // on the host: room for this rank's part of any bucket
  std::vector<std::size_t> units_left_;  // [bucket]: that will become ready before it is complete
  std::deque<Travelling> travelling_;
};

}  // namespace mbench::train
