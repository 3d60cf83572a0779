// One point of a sweep: everything that decides what is trained and how. Data only; JSON in and out.
// The fields, their names and values are those of the spec (see docs/spec.md, "The spec").
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/spec/model_spec.h"
#include "engine/spec/regions.h"
#include "engine/spec/router.h"

namespace mbench {

enum class ScheduleKind { gpipe, one_f_one_b, interleaved };  // "gpipe", "1f1b", "interleaved"
enum class Precision { f32, bf16, fp16, tf32, fp8 };          // tf32: on GPUs alone; fp8: products of layers
enum class Fp8Recipe { tensorwise, delayed, blockwise };      // where the scale of an FP8 tensor comes from
enum class OptimizerKind { adamw, adamw8bit, adafactor, sgd };
enum class AttentionKind { core, flash };
// How the ranks of cp meet in attention: keys and values gathered; passed round from rank to rank; or all of the sequence for
// some of the heads.
enum class CpCommunication { all_gather, ring, all_to_all };
enum class TpGathers { block, product };  // what gathers its input over tp for itself, with sequence_parallel
enum class EpCommunication { all_to_all, all_gather, flex };
enum class Graph { eager, fused, megatron_core };
// torch, torch_16bit: of graph fused; none, native: of megatron_core.
enum class CrossEntropyFusion { none, native, te, torch, torch_16bit };
enum class Replicas { ranks, single_process };
// ZeRO's stages; FairScale's and PyTorch's names for what they have of them. Written 0 to 3, "oss", "oss+sdp", "fsdp".
enum class Zero { none, stage_1, stage_2, stage_3, oss, oss_sdp, fsdp };
enum class Offload { none, optimizer, all };  // what lives in host memory; all: weights too

struct Point {
  ModelSpec model;
  std::int64_t seq = 1024;
  std::int64_t micro_batch = 1;   // samples per micro batch and data-parallel rank
  std::int64_t global_batch = 1;  // samples per optimizer step over all ranks
  std::int64_t iterations = 10;   // measured
  std::int64_t warmup = 2;        // before them, not measured
  std::uint64_t seed = 1234;
  double dropout = 0.1;

  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1;
  CpCommunication cp_communication = CpCommunication::ring;
  EpCommunication ep_communication = EpCommunication::all_to_all;
  // Of experts, folded over tp x cp x dp: ranks that have different ones, and ranks that have parts of one; 0: as many as tp.
  std::int64_t ep = 1, etp = 0;
  RouterMode router;                    // where the model has experts
  Replicas replicas = Replicas::ranks;  // of dp: a process each, or threads of one that copies weights around
  bool sequence_parallel = false;
  bool vocab_parallel = true;  // tables of words and logits are split over tp
  TpGathers tp_gathers = TpGathers::block;
  bool tp_comm_overlap = false;  // exchanges over tp in parts beside layers' products, as with Transformer Engine's Userbuffers
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // so many first layers of each chunk of a stage alone; 0: all
  std::string strategy;  // the named bundle that set the two fields above; empty if none was named
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t virtual_stages = 1;  // chunks per stage, interleaved only
  // Micro batches that a stage runs through one chunk before it goes to the next, interleaved only; 0: as many as stages.
  std::int64_t micro_batch_group = 0;
  // Layers of the first and of the last stage, where the other stages share the rest; 0: what all of them share.
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;
  // The last stage makes the gradient of the logits' weight when all its backwards are done (--defer-embedding-wgrad-compute),
  // of so many micro batches at most; 0: of all.
  bool defer_embedding_wgrad = false;
  std::int64_t wgrad_deferral_limit = 0;
  Zero zero = Zero::none;           // how model state is sharded over the ranks that replicate it
  // Gradients are reduced beside the last backward, and updated weights fetched beside the next forward; or alone.
  bool overlap_grad_reduce = true, overlap_param_gather = true;
  // Copies of sharded state: it is sharded within as many groups of neighbouring ranks, and replicated between them.
  std::int64_t optimizer_instances = 1;
  bool fsdp_no_sync = false;  // fsdp: gradients accumulate whole over micro batches and are reduced once
  Offload offload = Offload::none;

  Precision precision = Precision::f32;
  // Gradients accumulate and are reduced in f32 in fp16 too (Megatron's
  // --accumulate-allreduce-grads-in-fp32), as they always are in bf16.
  bool gradients_in_f32 = false;
  bool gradients_in_bf16 = false;  // and bf16's in bf16 (--grad-reduce-in-bf16)
  bool moments_in_bf16 = false;    // Adam's, of 16-bit weights (--exp-avg-dtype, --exp-avg-sq-dtype)
  bool main_weights_in_bf16 = false;  // bf16 weights without f32 originals: the optimizer updates them as they are
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;  // of precision fp8
  bool fp8_parameters = false;  // of the same: weights of its products in FP8 alone (--fp8-param-gather)
  AttentionKind attention = AttentionKind::core;
  Graph graph = Graph::fused;
  // Of graph megatron_core: Megatron's --cross-entropy-loss-fusion with its implementation, and whether weights' gradients
  // are added to their buffer by the products that make them.
  CrossEntropyFusion cross_entropy_fusion = CrossEntropyFusion::te;
  bool gradient_accumulation_fusion = true;
  // Of the same: whether experts' products are one call or one expert's after the other's (--moe-grouped-gemm), whether a
  // causal mask comes with every micro batch (--no-create-attention-mask-in-dataloader), and whether Transformer Engine
  // has the layers (--transformer-impl).
  bool grouped_experts = true;
  bool mask_in_batch = true;
  bool transformer_engine = true;
  bool rope_fusion = true;
  bool deterministic = false;  // simulation: PyTorch's deterministic algorithms, which fill every new tensor
  bool capture = false;  // the step is recorded once and replayed, as a CUDA graph is
  std::string data = "synthetic";
  // Threads that make samples ready before they are asked for, as DataLoader's num_workers; and whether they go to a GPU from
  // page-locked memory (pin_memory).
  std::int64_t loader_workers = 0;
  bool pinned = false;

  OptimizerKind optimizer = OptimizerKind::adamw;
  bool fused_optimizer = true;  // one launch for all parameters that lie together, not one each
  double learning_rate = 1.5e-4;
  std::int64_t lr_warmup = 0;  // steps of linear learning-rate warm-up
  double weight_decay = 0.01;
  double clip_grad = 1.0;  // 0 switches clipping off

  std::uint64_t memory_limit = 0;  // bytes; 0: what the device has
  double max_seconds = 0;          // 0: no limit
  std::map<std::string, std::string> env;
  std::int64_t ranks_per_node = 0;  // so many ranks on each host, in order; 0: as the launcher and its job have it

  // Whose host costs a simulation charges: the name of a framework, or the path of its file.
  std::string framework = "mbench";
  // Simulation: figures of the machine's file that are other than there, by path ("network.gbps_per_device").
  std::map<std::string, double> machine;
  std::string device = "cpu";  // "cpu", "cuda" or "sim:<N>x<MACHINE>"

  std::int64_t expert_tp() const { return etp == 0 ? tp : etp; }
  std::int64_t world() const { return tp * pp * dp * cp; }
  bool simulated() const { return device.starts_with("sim:"); }
  std::int64_t micro_batches() const { return global_batch / (micro_batch * dp); }
  bool operator==(const Point&) const = default;
};

// Reads a point from JSON. `where` names the file and JSON path for messages ("p.json: $"). An unknown key, a
// wrong type, an unknown choice or a value out of range is bad_input with the nearest valid choice. Whether
// the layout can be is not judged here: see strategies/strategies.h.
Point point_from_json(const nlohmann::json& json, const std::string& where);
// Every field, in the order of the declaration; point_from_json(point_to_json(p)) == p.
nlohmann::ordered_json point_to_json(const Point& point);

// What a field of a point is about. It decides what must agree between two points (sweeps/consistency.h).
enum class FieldKind {
  model,     // what is trained
  training,  // how: what changes the numbers that are computed
  layout,    // how it is cut up, kept and ordered: what changes no number but by rounding
  limit,     // how much memory and time it may take
  place      // where it runs, and as whose program
};
struct PointField {
  std::string key;
  FieldKind kind;
  bool told;  // in what a report says of all its points, even where it is at its default
};
// Every field, in the order of the declaration.
const std::vector<PointField>& point_fields();

// A figure of the machine as a field of its own: "machine.network.gbps_per_device".
inline constexpr std::string_view kMachineField = "machine.";

// The values of each field as JSON Schema (2020-12): {"tp": {"type": "integer", "minimum": 1, ...}, ...}. Whatever a reader
// takes is valid; what is valid a reader may still refuse for what it means, a model's sizes or a data file's name.
nlohmann::ordered_json point_schema();

// The keys of the same, for spec expansion and messages.
const std::vector<std::string>& point_keys();

// The point with the fields of these kinds at their defaults.
Point without(Point point, std::initializer_list<FieldKind> kinds);

// Sixteen hex digits that name the configuration: equal points have equal ids on any machine. The names of
// the model and of the strategy are labels and do not count; fields at their default do not either, so that a
// field added later keeps the ids of stored baselines.
std::string point_id(const Point& point);

std::string_view name_of(ScheduleKind);
std::string_view name_of(Precision);
std::string_view name_of(Fp8Recipe);
std::string_view name_of(OptimizerKind);
std::string_view name_of(AttentionKind);
std::string_view name_of(TpGathers);
std::string_view name_of(CpCommunication);
std::string_view name_of(EpCommunication);
std::string_view name_of(Graph);
std::string_view name_of(CrossEntropyFusion);
std::string_view name_of(Replicas);
std::string name_of(Zero);
std::string_view name_of(Offload);

}  // namespace mbench
