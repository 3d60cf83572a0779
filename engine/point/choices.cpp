#include "engine/point/choices.h"

#include "engine/base/error.h"

namespace mbench {
namespace {

template <class Enum>
std::string_view name_in_table(Enum value) {
  for (const NamedChoice<Enum>& choice : choices_of<Enum>())
    if (choice.value == value) return choice.name;
  fail(ErrorKind::internal, "name_of", "value {} has no name", static_cast<int>(value));
}

}  // namespace

template <>
std::span<const NamedChoice<ScheduleKind>> choices_of() {
  static constexpr NamedChoice<ScheduleKind> all[] = {
      {"gpipe", ScheduleKind::gpipe, "All forwards, then all backwards (Huang et al. 2019)."},
      {"1f1b", ScheduleKind::one_f_one_b,
       "One forward, one backward; at most `pp` micro batches are in flight (PipeDream-Flush)."},
      {"interleaved", ScheduleKind::interleaved,
       "1F1B with `virtual_stages` chunks of layers per stage (Megatron-LM's interleaved schedule)."},
      {"zb-h1", ScheduleKind::zb_h1,
       "1F1B whose backward is split: gradients of weights fill the bubble, within 1F1B's memory (Qi et al. 2023)."},
      {"zbv", ScheduleKind::zbv,
       "Backward split, two chunks a stage in a V; no bubble where the three parts take the same time, within 1F1B's "
       "memory (Qi et al. 2023)."},
      {"v-half", ScheduleKind::v_half, "As `zbv`, with about half of 1F1B's activations (Qi et al. 2024)."},
      {"v-min", ScheduleKind::v_min, "As `zbv`, with about a third of 1F1B's activations (Qi et al. 2024)."},
      {"dualpipev", ScheduleKind::dualpipev,
       "Backward split, two chunks a stage in a V, a forward next to each backward (DeepSeek's DualPipe cut in "
       "half)."}};
  return all;
}

template <>
std::span<const NamedChoice<Precision>> choices_of() {
  static constexpr NamedChoice<Precision> all[] = {
      {"f32", Precision::f32, "Everything in f32."},
      {"tf32", Precision::tf32, "f32 whose GEMMs round their operands to TF32. On GPUs and simulated ones."},
      {"bf16", Precision::bf16, "Weights and activations in bf16, gradients and main weights in f32."},
      {"fp16", Precision::fp16,
       "Weights, activations and gradients in fp16, main weights in f32, dynamic loss scaling."},
      {"fp8", Precision::fp8, "As bf16, with the GEMMs of layers in [FP8](../spec.md#fp8)."},
      {"nvfp4", Precision::nvfp4, "As bf16, with the GEMMs of layers in [NVFP4](../spec.md#nvfp4). On Blackwell."}};
  return all;
}

template <>
std::span<const NamedChoice<Fp8Recipe>> choices_of() {
  static constexpr NamedChoice<Fp8Recipe> all[] = {
      {"tensorwise", Fp8Recipe::tensorwise, "One scale per tensor, from its largest value now (Float8CurrentScaling)."},
      {"delayed", Fp8Recipe::delayed,
       "One scale per tensor, from the largest values of the last 1024 steps (DelayedScaling)."},
      {"rowwise", Fp8Recipe::rowwise,
       "A power of two per row and per column of every operand, from its largest value now (torchao's `rowwise`)."},
      {"blockwise", Fp8Recipe::blockwise,
       "A power of two per 1 x 128 activations and per 128 x 128 weights (Float8BlockScaling, DeepSeek-V3)."},
      {"mxfp8", Fp8Recipe::mxfp8,
       "A power of two of 8 bits per 1 x 32 of every operand (MXFP8BlockScaling); `precision: mxfp8` says the same."}};
  return all;
}

template <>
std::span<const NamedChoice<OptimizerKind>> choices_of() {
  static constexpr NamedChoice<OptimizerKind> all[] = {
      {"adamw", OptimizerKind::adamw, "`torch.optim.AdamW`: two moments."},
      {"adamw8bit", OptimizerKind::adamw8bit, "`bitsandbytes.optim.AdamW8bit`: two moments of 8 bits."},
      {"adafactor", OptimizerKind::adafactor, "`transformers.Adafactor`: mean squares of rows and columns."},
      {"sgd", OptimizerKind::sgd, "`torch.optim.SGD` with momentum: one velocity."},
      {"muon", OptimizerKind::muon,
       "`torch.optim.Muon` for the matrices of layers: one momentum; AdamW for all else."}};
  return all;
}

template <>
std::span<const NamedChoice<AttentionKind>> choices_of() {
  static constexpr NamedChoice<AttentionKind> all[] = {
      {"core", AttentionKind::core, "Scores are computed and kept."},
      {"flash", AttentionKind::flash,
       "Scores are never stored (FlashAttention). On GPUs by cuDNN: bf16 or fp16, dropout 0, and a build after "
       "`scripts/install-cudnn-frontend`."}};
  return all;
}

template <>
std::span<const NamedChoice<CpCommunication>> choices_of() {
  static constexpr NamedChoice<CpCommunication> all[] = {
      {"all_gather", CpCommunication::all_gather, "Each rank gathers all keys and values."},
      {"ring", CpCommunication::ring, "Keys and values go from rank to rank (Ring Attention)."},
      {"all_to_all", CpCommunication::all_to_all,
       "Each rank has the whole sequence for some of the heads (DeepSpeed-Ulysses)."}};
  return all;
}

template <>
std::span<const NamedChoice<TpGathers>> choices_of() {
  static constexpr NamedChoice<TpGathers> all[] = {
      {"block", TpGathers::block, "The input of a block's first GEMMs is gathered once, and once more in backward."},
      {"product", TpGathers::gemm,
       "Queries, keys, values, gates and ups each gather their input, keep it, and scatter their gradient, as "
       "DTensor's "
       "`ColwiseParallel` does without `PrepareModuleInput`."}};
  return all;
}

template <>
std::span<const NamedChoice<EpCommunication>> choices_of() {
  static constexpr NamedChoice<EpCommunication> all[] = {
      {"all_to_all", EpCommunication::all_to_all,
       "Rows are sent to their experts and back (Megatron-Core's dispatcher `alltoall`)."},
      {"all_gather", EpCommunication::all_gather,
       "All tokens of `ep` come to each of its ranks, whose sums are reduce-scattered (`allgather`)."},
      {"flex", EpCommunication::flex,
       "A token goes once to each rank that has any of its experts (`flex` with DeepEP or HybridEP)."}};
  return all;
}

template <>
std::span<const NamedChoice<Replicas>> choices_of() {
  static constexpr NamedChoice<Replicas> all[] = {
      {"ranks", Replicas::ranks, "A process each (DistributedDataParallel)."},
      {"single_process", Replicas::single_process, "Threads of one process (DataParallel)."}};
  return all;
}

template <>
std::span<const NamedChoice<Zero>> choices_of() {
  static constexpr NamedChoice<Zero> all[] = {
      {"0", Zero::none, "Whole state on every rank."},
      {"1", Zero::stage_1, "Optimizer state is sharded."},
      {"2", Zero::stage_2, "Gradients are sharded too."},
      {"3", Zero::stage_3, "Weights are sharded too."},
      {"oss", Zero::oss, "As 1, cut by whole parameters (FairScale's OSS)."},
      {"oss+sdp", Zero::oss_sdp, "As 2, cut by whole parameters (FairScale's ShardedDataParallel)."},
      {"fsdp", Zero::fsdp, "As 3 (PyTorch's FSDP)."}};
  return all;
}

template <>
std::span<const NamedChoice<Offload>> choices_of() {
  static constexpr NamedChoice<Offload> all[] = {
      {"none", Offload::none, "Nothing."},
      {"moments", Offload::moments,
       "Adam's moments. The device keeps its f32 main weights, and the host updates a copy of them (Megatron-Core's "
       "`--optimizer-cpu-offload` without `--use-precision-aware-optimizer`)."},
      {"optimizer", Offload::optimizer,
       "Optimizer state with the f32 main weights, which the host's processor updates."},
      {"all", Offload::all, "With `zero` 3 or `fsdp`: weights too."},
      {"optimizer+gradients", Offload::optimizer_and_gradients,
       "With `zero` 2, 3 or `fsdp`: gradients too, in f32, as they are reduced (DeepSpeed's `offload_optimizer`)."},
      {"all+gradients", Offload::all_and_gradients,
       "With `zero` 3 or `fsdp`: optimizer state, weights and gradients (with `offload_param` too; FSDP's "
       "`CPUOffload`)."}};
  return all;
}

std::string_view name_of(ScheduleKind v) {
  return name_in_table(v);
}
std::string_view name_of(Precision v) {
  return name_in_table(v);
}
std::string_view name_of(Fp8Recipe v) {
  if (v == Fp8Recipe::nvfp4) return "nvfp4";
  return name_in_table(v);
}
std::string_view name_of(OptimizerKind v) {
  return name_in_table(v);
}
std::string_view name_of(AttentionKind v) {
  return name_in_table(v);
}
std::string_view name_of(TpGathers v) {
  return name_in_table(v);
}
std::string_view name_of(CpCommunication v) {
  return name_in_table(v);
}
std::string_view name_of(EpCommunication v) {
  return name_in_table(v);
}
std::string_view name_of(Replicas v) {
  return name_in_table(v);
}
std::string_view name_of(Offload v) {
  return name_in_table(v);
}
std::string name_of(Zero v) {
  return std::string(name_in_table(v));
}

}  // namespace mbench
