// How the work of a point is cut up, kept and ordered: the part that changes no number except by rounding.
#pragma once
#include <cstdint>
#include <string>

#include "engine/point/capture.h"
#include "engine/point/choices.h"
#include "engine/point/offloaded_activations.h"
#include "engine/point/regions.h"

namespace mbench {

struct LayoutSpec {
  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1;
  CpCommunication cp_communication = CpCommunication::ring;
  EpCommunication ep_communication = EpCommunication::all_to_all;
  // Of experts, folded over tp x cp x dp: `ep` ranks have different experts, `etp` ranks parts of one. etp 0: as many as tp.
  std::int64_t ep = 1, etp = 0;
  Replicas replicas = Replicas::ranks;  // of dp: a process each, or threads of one process that copies weights to them
  bool sequence_parallel = false;
  bool vocab_parallel = true;  // tables of words and logits are split over tp
  std::int64_t vocab_multiple =
      0;  // those tables have a multiple of vocab_multiple * tp rows; 0: the framework's own multiple
  TpGathers tp_gathers = TpGathers::block;
  bool tp_comm_overlap =
      false;  // exchanges over tp in parts, overlapped with layers' GEMMs, as with Transformer Engine's Userbuffers
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // only this many first layers of each chunk of a stage; 0: all
  std::string strategy;  // the named bundle that set sequence_parallel and recompute; empty if none was named
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t virtual_stages = 1;  // chunks per stage, interleaved only
  // Micro batches that a stage runs through one chunk before it goes to the next, interleaved only; 0: as many as stages.
  std::int64_t micro_batch_group = 0;
  // Layers of the first and of the last stage, where the other stages share the rest; 0: the same share as theirs.
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;
  std::string
      pipeline_layout;  // what each stage holds, written as in engine/point/pipeline_layout.h; empty: by the fields above
  // The last stage computes the gradient of the logits' weight after all its backwards (--defer-embedding-wgrad-compute). This holds for
  // `wgrad_deferral_limit` micro batches at most; 0: for all.
  bool defer_embedding_wgrad = false;
  std::int64_t wgrad_deferral_limit = 0;
  // The forward of a micro batch and the backward of another take turns while tokens travel to experts and back
  // (--overlap-moe-expert-parallel-comm). And that backward makes gradients of weights meanwhile (--delay-wgrad-compute).
  bool overlap_moe = false, delay_wgrad = false;
  // Rows that the experts of a rank have room for, over the mean; 0: as many as come (--moe-expert-rank-capacity-factor). And the size of
  // the stash for what their forwards keep, over what balanced rows would take, on the device and on its host; 0: none (--moe-paged-stash).
  double expert_rank_capacity = 0, paged_stash = 0, paged_stash_host = 0;
  Zero zero = Zero::none;  // how model state is sharded over the ranks that replicate it
  // Gradients are reduced during the last backward, and updated weights fetched during the next forward; or both without overlap.
  bool overlap_grad_reduce = true, overlap_param_gather = true;
  // Copies of sharded state: it is sharded within this many groups of neighbouring ranks, and replicated between them.
  std::int64_t optimizer_instances = 1;
  bool fsdp_no_sync = false;  // fsdp: gradients accumulate whole over micro batches and are reduced once
  Offload offload = Offload::none;
  // With `offload`: the share of what a rank owns of the optimizer state that lives in host memory (--optimizer-offload-fraction).
  double offload_fraction = 1;
  // Kept activations in host memory until their backward, and how many elements the smallest tensor has that goes there
  // (--min-offloaded-tensor-size).
  OffloadedActivations offload_activations;
  std::int64_t min_offloaded_tensor_size = 0;
  bool fused_optimizer = true;  // one launch for all parameters that lie together, not one each
  Capture capture;              // what is recorded once and replayed, as a CUDA graph is
  // Threads that prepare samples in advance, as DataLoader's num_workers; and whether samples go to a GPU from page-locked memory
  // (pin_memory).
  std::int64_t loader_workers = 0;
  bool pinned = false;

  std::int64_t expert_tp() const { return etp == 0 ? tp : etp; }
  std::int64_t world() const { return tp * pp * dp * cp; }
  bool operator==(const LayoutSpec&) const = default;
};

}  // namespace mbench
