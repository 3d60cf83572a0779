// The choices that a field of a point names. Their names in a spec, each with a line of text, stand in choices.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace mbench {

// A value of an enumeration, its name in a spec, and its meaning there in Markdown.
template <class Enum>
struct NamedChoice {
  std::string_view name;
  Enum value;
  std::string_view doc;
};
// All values of an enumeration below, in the order in which messages list them.
template <class Enum>
std::span<const NamedChoice<Enum>> choices_of();

// "gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "v-half", "v-min", "dualpipev"
enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1, zbv, v_half, v_min, dualpipev };
// Whether the gradients of weights are actions of their own.
constexpr bool splits_backward(ScheduleKind s) {
  return s >= ScheduleKind::zb_h1;
}
// Whether stage s of p has the chunks s and 2p - 1 - s, so that the first stage has both ends of the model.
constexpr bool is_v_shaped(ScheduleKind s) {
  return s >= ScheduleKind::zbv;
}
enum class Precision { f32, bf16, fp16, tf32, fp8, nvfp4 };  // tf32: on GPUs only; fp8, nvfp4: the layers' GEMMs
// Where the scales of FP8 operands come from. nvfp4 is that precision's, and no choice of a spec.
enum class Fp8Recipe { tensorwise, delayed, rowwise, blockwise, mxfp8, nvfp4 };
enum class OptimizerKind { adamw, adamw8bit, adafactor, sgd, muon };
enum class AttentionKind { core, flash };
// How the ranks of cp meet in attention. Keys and values are gathered, or passed from rank to rank, or each rank has the whole sequence for
// some of the heads.
enum class CpCommunication { all_gather, ring, all_to_all };
enum class TpGathers { block, gemm };  // what gathers its own input over tp, with sequence_parallel
enum class EpCommunication { all_to_all, all_gather, flex };
enum class Replicas { ranks, single_process };
// ZeRO's stages, and the names of FairScale and PyTorch for theirs. Written 0 to 3, "oss", "oss+sdp", "fsdp".
enum class Zero { none, stage_1, stage_2, stage_3, oss, oss_sdp, fsdp };
// What lives in host memory; moments: the optimizer's without the f32 weights; all: optimizer state and weights.
enum class Offload { none, moments, optimizer, all, optimizer_and_gradients, all_and_gradients };
constexpr bool offloads_weights(Offload o) {
  return o == Offload::all || o == Offload::all_and_gradients;
}
constexpr bool offloads_gradients(Offload o) {
  return o == Offload::optimizer_and_gradients || o == Offload::all_and_gradients;
}

// Whether a scale is shared by a part of the elements, not by the tensor.
constexpr bool of_blocks(Fp8Recipe recipe) {
  return recipe != Fp8Recipe::tensorwise && recipe != Fp8Recipe::delayed;
}
// Whether GEMMs of layers have operands of 8 bits or fewer, the rest being as in bf16.
constexpr bool quantises(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::nvfp4;
}

std::string_view name_of(ScheduleKind);
std::string_view name_of(Precision);
std::string_view name_of(Fp8Recipe);
std::string_view name_of(OptimizerKind);
std::string_view name_of(AttentionKind);
std::string_view name_of(TpGathers);
std::string_view name_of(CpCommunication);
std::string_view name_of(EpCommunication);
std::string_view name_of(Replicas);
std::string name_of(Zero);
std::string_view name_of(Offload);

}  // namespace mbench
