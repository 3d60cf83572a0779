#include "engine/point/fields.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "engine/framework/framework.h"
#include "engine/point/field_readers.h"
#include "engine/point/field_rows.h"
#include "engine/point/field_table.h"
#include "engine/point/field_values.h"
#include "engine/point/model_changes.h"
#include "engine/point/pipeline_layout.h"

namespace mbench {
namespace {

using field_rows::kMaxAxis;
using field_rows::kMaxCount;
using field_rows::row;
using nlohmann::json;
using nlohmann::ordered_json;

Field framework_row() {
  FieldValues values = {[](const json& value, const std::string& where) { return read_framework(value, where); },
                        framework_schema()};
  for (const FrameworkFile& file : builtin_frameworks())
    values.choices.push_back({file.name(), file.description() + "."});
  Field field = row("framework", FieldKind::layout, {BearsOn::micro_batch, BearsOn::state, BearsOn::update},
                    &Point::framework, std::move(values), "",
                    "As whose program a step runs: which tensors it keeps and which ops it fuses, and in simulation "
                    "what its calls cost the "
                    "host and which layouts a search proposes. A name, the path of a file, or an object of a preset, "
                    "another's `host`, and "
                    "[options](../spec.md#frameworks). `framework.OPTION` sets one.");
  field.read = [](Point& p, const json& value, const std::string& where) {
    p.framework = read_framework(value, where, p.framework);
  };
  return field;
}

Field precision_row() {
  Field field = row(
      "precision", FieldKind::training, {BearsOn::micro_batch, BearsOn::state, BearsOn::update}, &Point::precision,
      FieldValues{read_named<Precision>, precision_schema(), precision_presets()}, "",
      "Types of weights, activations and GEMMs: a name, or an object of a `preset` and what differs from it. "
      "`gradients`: the type in which they accumulate and are reduced, by default fp16 with fp16 and f32 with all "
      "others "
      "(`--accumulate-allreduce-grads-in-fp32`, `--grad-reduce-in-bf16`). `moments: bf16`: Adam's, of 16-bit weights "
      "(`--exp-avg-dtype`, `--exp-avg-sq-dtype`). `main_weights: bf16`: there are no f32 main weights, and the "
      "optimizer updates "
      "bf16 weights, rounded to nearest (a PyTorch model in bf16 under `AdamW(fused=True)`). `fp8_recipe`: where "
      "scales come "
      "from. `fp8_parameters`: the weights of FP8 GEMMs [live in FP8 only](../spec.md#weights-in-fp8-alone) "
      "(`--fp8-param-gather`); `first_layers_in_bf16`, `last_layers_in_bf16`: layers whose GEMMs stay in bf16.");
  field.read = [](Point& p, const json& value, const std::string& where) { read_precision(p, value, where); };
  field.write = [](const Point& p) { return write_precision(p); };
  field.reset = [](Point& p) { static_cast<PrecisionSpec&>(p) = PrecisionSpec(); };
  return field;
}

// One that every report tells, even where it is at its default.
Field reported(Field field) {
  field.about.reported = true;
  return field;
}

std::vector<Field> make_table() {
  using enum FieldKind;
  using enum BearsOn;
  using P = Point;
  const Bearings all = {micro_batch, experts, recompute, state, update, schedule}, none;
  return {
      reported(
          row("model", model, all, &P::model, FieldValues{read_model, model_schema()}, "",
              "What is trained: a preset's name, or an object of sizes and [parts](../spec.md#a-model-by-its-parts).")),
      reported(row("seq", training, {micro_batch}, &P::seq, count(1, kMaxCount), "tokens", "Tokens of a sample.")),
      reported(row("micro_batch", training, {micro_batch}, &P::micro_batch, count(1, 1 << 20), "samples",
                   "Samples that a data-parallel rank takes at a time.")),
      reported(row("global_batch", training, {schedule}, &P::global_batch, count(1, kMaxCount), "samples",
                   "Samples of an optimizer step over all ranks.")),
      reported(
          row("iterations", training, none, &P::iterations, count(1, kMaxCount), "steps",
              "Measured steps. Memory repeats from the second step on: a run of one step in all can peak lower than "
              "[its forecast](../simulation.md#what-is-simulated).")),
      reported(
          row("warmup", training, none, &P::warmup, count(0, kMaxCount), "steps", "Steps before the measured ones.")),
      row("seed", training, none, &P::seed, FieldValues{read_uint, ordered_json{{"type", "integer"}, {"minimum", 0}}},
          "", "What initial values, dropout masks and synthetic data are drawn from."),
      row("dropout", training, {micro_batch}, &P::dropout, number(0, 0.999), "",
          "Probability that dropout zeroes an element."),
      reported(row("tp", layout, {micro_batch, state}, &P::tp, count(1, kMaxAxis), "ranks",
                   "Tensor parallelism: ranks that share the weights of every layer.")),
      reported(row("pp", layout, {micro_batch, state, schedule}, &P::pp, count(1, kMaxAxis), "ranks",
                   "Pipeline stages. They have as many layers each. Where that does not come out even, the embedding "
                   "and the head count as a "
                   "layer, and stages differ by one at most.")),
      reported(row("dp", layout, {micro_batch, state, schedule}, &P::dp, count(1, kMaxAxis), "ranks",
                   "Data parallelism: ranks that train on different samples.")),
      row("cp", layout, {micro_batch, state}, &P::cp, count(1, kMaxAxis), "ranks",
          "[Context parallelism](../spec.md#context-parallelism): ranks that share the sequence."),
      row("cp_communication", layout, {micro_batch}, &P::cp_communication, choice<CpCommunication>(), "",
          "How the ranks of `cp` meet in attention."),
      row("ep", layout, {experts}, &P::ep, count(1, kMaxAxis), "ranks",
          "Expert parallelism: ranks that hold different [experts](../spec.md#mixtures-of-experts), folded over `tp` x "
          "`cp` x `dp`."),
      row("etp", layout, {experts}, &P::etp, count(0, kMaxAxis), "ranks",
          "Tensor parallelism of experts: a divisor of `tp`; 0: as `tp`."),
      row("ep_communication", layout, {experts}, &P::ep_communication, choice<EpCommunication>(), "",
          "How tokens meet the experts of other ranks (Megatron-Core's `--moe-token-dispatcher-type`). `all_gather` "
          "and `flex` do not go "
          "with `router: capacity:F`."),
      row("router", training, {micro_batch, experts}, &P::router, router_values(), "",
          "How tokens find their experts."),
      row("routing_imbalance", training, {micro_batch, experts}, &P::routing_imbalance, number(1, 1e6), "",
          "In simulation, with `router: learned`: how many rows the fullest rank of `ep` has over the mean. All ranks "
          "wait for it, and its memory is the largest."),
      row("replicas", layout, {micro_batch, state}, &P::replicas, choice<Replicas>(), "",
          "What the replicas of `dp` are. See [replicas of one process](../spec.md#replicas-of-one-process)."),
      row("sequence_parallel", layout, {micro_batch}, &P::sequence_parallel, flag(), "",
          "Activations between blocks are split along the sequence over `tp`."),
      row("vocab_parallel", layout, {micro_batch, state}, &P::vocab_parallel, flag(), "",
          "Tables of words and logits are split over `tp`. False: the table is whole on every rank and logits are "
          "gathered, so that "
          "each rank has the loss of all words (DTensor's `ColwiseParallel` with replicated outputs). Not of a tied "
          "table."),
      row("vocab_multiple", layout, {micro_batch, state}, &P::vocab_multiple, count(0, 65536), "words",
          "The vocabulary is padded to a multiple of `vocab_multiple` x `tp` (`--make-vocab-size-divisible-by`). 1: "
          "with `tp` 1 not at all. "
          "0: as the framework does: 128 with `mbench` and Megatron's, 1 with others."),
      row("tp_gathers", layout, {micro_batch}, &P::tp_gathers, choice<TpGathers>(), "",
          "What gathers its input over `tp`, with `sequence_parallel`. `product` does not go with `tp_comm_overlap`, "
          "FP8, experts, latent "
          "attention, or `recompute` of `norm` or `alternate_products`."),
      row("tp_comm_overlap", layout, {micro_batch}, &P::tp_comm_overlap, flag(), "",
          "With `sequence_parallel`: what the linear parts of layers exchange over `tp` travels in parts, overlapped "
          "with their GEMMs, as "
          "with Transformer Engine's Userbuffers (`--tp-comm-overlap`). [How](../simulation.md#megatron-core). A "
          "search tries it where "
          "its spec names it."),
      row("recompute", layout, {recompute}, &P::recompute,
          FieldValues{read_recompute, recompute_schema(), recompute_choices()}, "",
          "What a forward drops and a backward computes again: `none`, `selective`, `full`, or "
          "[regions](../spec.md#regions) as a list or "
          "joined by `+`."),
      row("recompute_layers", layout, {recompute}, &P::recompute_layers, count(0, 16384), "layers",
          "Only the first so many layers of each chunk recompute (Megatron's method `block`); 0: all."),
      row("strategy", layout, {micro_batch, recompute}, &P::strategy, strategy_values(), "",
          "A bundle of `sequence_parallel` and `recompute`."),
      row("schedule", layout, {schedule}, &P::schedule, choice<ScheduleKind>(), "",
          "In which order a stage runs its forwards and backwards."),
      row("virtual_stages", layout, {schedule}, &P::virtual_stages, count(1, 16384), "chunks",
          "Chunks of layers per stage, with `schedule: interleaved`; 2 with [V-shaped "
          "schedules](../spec.md#schedules-that-split-backward)."),
      row("micro_batch_group", layout, {schedule}, &P::micro_batch_group, count(0, kMaxCount), "micro batches",
          "With `schedule: interleaved`: micro batches that a stage runs through one chunk before the next "
          "(`--microbatch-group-size-per-virtual-pipeline-stage`). At least `pp`; the last group has what is left, 0 "
          "or at least `pp`. "
          "0: `pp`."),
      row("overlap_moe", layout, {schedule}, &P::overlap_moe, flag(), "",
          "A forward and a backward of two micro batches [take turns](../spec.md#experts-exchange-overlapped) while "
          "tokens travel to "
          "experts and back (`--overlap-moe-expert-parallel-comm`). With `ep` of 2 or more."),
      row("delay_wgrad", layout, {schedule}, &P::delay_wgrad, flag(), "",
          "With `overlap_moe`: a backward makes gradients of weights while its tokens travel "
          "(`--delay-wgrad-compute`)."),
      row("expert_rank_capacity", layout, {micro_batch, experts}, &P::expert_rank_capacity, number(0, 1e6), "",
          "How many rows a rank's experts have [static room](../spec.md#static-room-for-experts) for, over the mean "
          "(`--moe-expert-rank-capacity-factor`). A step in which more come is run again without it. 0: as many as "
          "come. With `ep_communication: flex`."),
      row("paged_stash", layout, {micro_batch, experts}, &P::paged_stash, number(0, 1e6), "",
          "With `expert_rank_capacity`: what experts keep for backward is copied to pages, so many times the memory of "
          "balanced rows (`--moe-paged-stash`, `--moe-paged-stash-buffer-size-factor-cuda`). 0: no pages."),
      row("paged_stash_host", layout, {micro_batch, experts}, &P::paged_stash_host, number(0, 1e6), "",
          "With `paged_stash`: further pages in the host's memory, so many times the memory of balanced rows. A tensor "
          "that finds no page on the device goes there (`--moe-paged-stash-buffer-size-factor-cpu`). 0: none."),
      row("first_stage_layers", layout, {schedule}, &P::first_stage_layers, count(0, 16384), "layers",
          "Layers of the first stage (`--decoder-first-pipeline-num-layers`). Stages that are not named share the rest "
          "evenly. 0: it shares "
          "with the others."),
      row("last_stage_layers", layout, {schedule}, &P::last_stage_layers, count(0, 16384), "layers",
          "Layers of the last stage (`--decoder-last-pipeline-num-layers`). 0: it shares with the others."),
      row("pipeline_layout", layout, {schedule}, &P::pipeline_layout, pipeline_layout_values(), "",
          "What each stage holds, [cut by hand](../spec.md#pipelines-cut-by-hand): Megatron-Core's text "
          "(`--pipeline-model-parallel-layout`), "
          "or a list of words for each stage. It replaces `first_stage_layers` and `last_stage_layers`. Empty: `pp` "
          "and these say it."),
      row("defer_embedding_wgrad", layout, {micro_batch, schedule}, &P::defer_embedding_wgrad, flag(), "",
          "With `pp` of 2 or more: the last stage computes the weight gradient of the logits after its last "
          "backward and keeps the operands until then (`--defer-embedding-wgrad-compute`). Not with sharded gradients "
          "or weights, "
          "`offload`, `mtp_layers` or `labels`."),
      row("wgrad_deferral_limit", layout, {micro_batch, schedule}, &P::wgrad_deferral_limit, count(0, kMaxCount),
          "micro batches",
          "How many micro batches `defer_embedding_wgrad` defers at most, the first ones (`--wgrad-deferral-limit`); "
          "0: all."),
      row("zero", layout, {state}, &P::zero, FieldValues{read_zero, zero_schema(), documented<Zero>()}, "",
          "Which model state is [sharded](../spec.md#sharded-state) over the ranks that replicate a weight."),
      row("optimizer_instances", layout, {state}, &P::optimizer_instances, count(1, kMaxAxis), "copies",
          "[Copies of sharded state](../spec.md#copies-of-sharded-state): it is sharded within so many groups of "
          "data-parallel ranks and "
          "replicated between them (PyTorch's HSDP, `--num-distributed-optimizer-instances`)."),
      row("overlap_grad_reduce", layout, {micro_batch, state}, &P::overlap_grad_reduce, flag(), "",
          "Gradients are reduced overlapped with the last backward, of `zero` 0, 1 and `oss`; the others always are "
          "(`--overlap-grad-reduce`)."),
      row("overlap_param_gather", layout, {micro_batch, state}, &P::overlap_param_gather, flag(), "",
          "With `zero` 1, 2, `oss` and `oss+sdp`: updated weights are fetched overlapped with the next forward "
          "(`--overlap-param-gather`)."),
      row("fsdp_no_sync", layout, {state}, &P::fsdp_no_sync, flag(), "",
          "With `zero: fsdp`: gradients of a step's micro batches accumulate whole and are reduced once, as under "
          "PyTorch's `no_sync()`."),
      row("offload", layout, {state}, &P::offload, choice<Offload>(), "",
          "What lives in [host memory](../spec.md#offload)."),
      row("offload_fraction", layout, {state}, &P::offload_fraction, number(0, 1), "",
          "With `offload: moments` or `optimizer`: the share of it that lives there. The device keeps and updates the "
          "rest (`--optimizer-offload-fraction`)."),
      row("offload_activations", layout, {micro_batch}, &P::offload_activations,
          FieldValues{read_offloaded_activations, offloaded_activations_schema(), offloaded_activations_choices()}, "",
          "Which kept activations lie in [host memory](../spec.md#activations-in-host-memory) until their backward: "
          "`none`, `layers:N`, or parts of layers as a list or joined by `+` "
          "(`--fine-grained-activation-offloading`, `--offload-modules`)."),
      row("min_offloaded_tensor_size", layout, {micro_batch}, &P::min_offloaded_tensor_size, count(0, kMaxCount),
          "elements",
          "With `offload_activations`: tensors of fewer elements stay on the device (`--min-offloaded-tensor-size`)."),
      reported(precision_row()),
      reported(row("attention", training, {micro_batch}, &P::attention, choice<AttentionKind>(), "",
                   "How attention is computed.")),
      reported(framework_row()),
      row("capture", layout, {micro_batch, schedule}, &P::capture,
          FieldValues{read_capture, capture_schema(), capture_choices()}, "",
          "What is recorded once and replayed, on GPUs as CUDA graphs: `true`, the whole "
          "[step](../spec.md#replayed-steps), or [parts](../spec.md#captured-parts) of layers as a list or joined by "
          "`+` (`--cuda-graph-modules`)."),
      reported(row("data", training, {micro_batch}, &P::data, data_values(), "", "What is trained on.")),
      row("document_lengths", training, {micro_batch}, &P::document_lengths, document_lengths_values(), "tokens",
          "Lengths of the [documents](../spec.md#packed-sequences) that are packed into every sequence. Attention sees "
          "its own document only."),
      row("reset_positions", training, {micro_batch}, &P::reset_positions, flag(), "",
          "With `document_lengths`: positions restart in each document (`--reset-position-ids`)."),
      row("loader_workers", layout, {micro_batch}, &P::loader_workers, count(0, 1024), "threads",
          "Threads of each rank that prepare samples, two batches ahead each (DataLoader's `num_workers`); 0: the step "
          "makes its own. Losses "
          "do not depend on it."),
      row("pinned", layout, {micro_batch}, &P::pinned, flag(), "",
          "Samples go to the device through page-locked memory. GPUs always do so; on the CPU there is nothing to "
          "copy."),
      row("adapter", training, {micro_batch, state, update}, &P::adapter, adapter_values(), "",
          "[Low-rank adapters](../spec.md#adapters): only their weights are trained, all others are frozen."),
      row("optimizer", training, {state, update}, &P::optimizer, choice<OptimizerKind>(), "",
          "The [optimizer](../spec.md#optimizers)."),
      row("fused_optimizer", layout, {update}, &P::fused_optimizer, flag(), "",
          "One launch updates all parameters that lie together, and one sums their norm. False: one each for every "
          "parameter."),
      row("learning_rate", training, none, &P::learning_rate, number(), "", "The learning rate after warm-up."),
      row("lr_warmup", training, none, &P::lr_warmup, count(0, kMaxCount), "steps",
          "Steps of linear learning-rate warm-up."),
      row("weight_decay", training, none, &P::weight_decay, number(), "", "Decay of matrices; vectors have none."),
      row("clip_grad", training, {update}, &P::clip_grad, number(), "",
          "Largest global norm of the gradient; 0: no clipping."),
      row("memory_limit", limit, none, &P::memory_limit,
          FieldValues{read_memory_limit, any_of(range_schema("number", 0, 1e18), ordered_json{{"type", "string"}})},
          "bytes",
          "A smaller device than the real one, for each rank: bytes, or a size such as `\"2GiB\"`. Workspaces of "
          "libraries count too. 0: "
          "what the device has."),
      row("max_seconds", limit, none, &P::max_seconds, number(), "s",
          "The point stops measuring then, after at least one iteration. 0: no limit."),
      row("env", place, {micro_batch, state}, &P::env,
          FieldValues{read_env, object_of(ordered_json{{"type", ordered_json::array({"string", "number"})}})}, "",
          "Environment variables of the run."),
      row("ranks_per_node", place, {micro_batch, state}, &P::ranks_per_node, count(0, kMaxAxis), "ranks",
          "So many ranks on each host, in order; 0: as few hosts as have room. See [several "
          "nodes](../clusters.md#several-nodes). Simulation: the job has so many devices of each node."),
      row("placement", place, {micro_batch, state}, &P::placement,
          FieldValues{read_node_placement, node_placement_schema(), node_placement_choices()}, "",
          "Simulation: on which [leaves of the network](../simulation.md#network-tiers) the job's nodes stand. A list, "
          "or counts joined by `+`: how many of them each leaf has, in the order of the ranks."),
      row("background_load", place, {micro_batch, state}, &P::background_load, number(0, 0.99), "",
          "Simulation: the share of the leaves' uplinks that other jobs take. Where the machine's file has no leaves, "
          "of each node's network."),
      row("machine", place, {micro_batch, state}, &P::machine,
          FieldValues{read_machine, object_of(ordered_json{{"type", "number"}})}, "",
          "Simulation: figures [other than the machine's file has](../simulation.md#what-if), by path. `machine.PATH` "
          "sets one."),
      reported(row("device", place, {micro_batch, state}, &P::device, device_values(), "",
                   "Where it runs. In a spec `--on` says it.")),
  };
}

}  // namespace

std::string_view name_of(BearsOn part) {
  static constexpr std::string_view names[] = {"micro batch", "experts", "recompute", "state", "update", "schedule"};
  return names[static_cast<std::size_t>(part)];
}

const std::vector<Field>& field_table() {
  static const std::vector<Field> table = make_table();
  return table;
}

const Field* field_named(std::string_view key) {
  static const std::unordered_map<std::string_view, const Field*> by_key = [] {
    std::unordered_map<std::string_view, const Field*> all;
    for (const Field& field : field_table()) all.emplace(field.about.key, &field);
    for (const Field& field : former_fields()) all.emplace(field.about.key, &field);
    return all;
  }();
  const auto found = by_key.find(key);
  return found == by_key.end() ? nullptr : found->second;
}

const std::vector<PointField>& point_fields() {
  static const std::vector<PointField> all = [] {
    std::vector<PointField> about;
    for (const Field& field : field_table()) about.push_back(field.about);
    return about;
  }();
  return all;
}

const std::vector<PointField>& former_point_fields() {
  static const std::vector<PointField> all = [] {
    std::vector<PointField> about;
    for (const Field& field : former_fields()) about.push_back(field.about);
    return about;
  }();
  return all;
}

const PointField* find_field(std::string_view key) {
  const Field* field = field_named(key);
  return field ? &field->about : nullptr;
}

bool is_field(std::string_view key) {
  return field_named(key) || key.starts_with(kMachineField) || key.starts_with(kFrameworkField) ||
         key.starts_with(kPrecisionField) || key.starts_with(kModelField);
}

std::string field_of(const std::string& key) {
  if (key.starts_with(kFrameworkField)) return "framework";
  if (key.starts_with(kPrecisionField)) return "precision";
  if (key.starts_with(kModelField)) return "model";
  const PointField* about = find_field(key);
  return about && !about->part_of.empty() ? about->part_of : key;
}

const std::vector<std::string>& point_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const Field& field : field_table()) names.push_back(field.about.key);
    return names;
  }();
  return keys;
}

Point without(Point point, std::initializer_list<FieldKind> kinds) {
  for (const Field& field : field_table())
    if (std::find(kinds.begin(), kinds.end(), field.about.kind) != kinds.end()) field.reset(point);
  return point;
}

Point at_default(Point point, Bearings parts) {
  for (const Field& field : field_table())
    if (field.about.bears_on.within(parts)) field.reset(point);
  return point;
}

std::uint64_t layout_hash(const Point& point, std::uint64_t seed) {
  static const std::vector<const Field*> hashed = [] {
    std::vector<const Field*> all;
    for (const Field& field : field_table())
      if (field.number && (field.about.kind == FieldKind::layout || field.about.key == "micro_batch"))
        all.push_back(&field);
    return all;
  }();
  std::uint64_t hash = seed;
  for (const Field* field : hashed) hash = (hash ^ field->number(point)) * 0x9E3779B97F4A7C15u;
  return hash;
}

ordered_json point_schema() {
  ordered_json properties = ordered_json::object();
  for (const Field& field : field_table()) properties[field.about.key] = field.schema;
  for (const Field& field : former_fields()) properties[field.about.key] = field.schema;
  return properties;
}

}  // namespace mbench
