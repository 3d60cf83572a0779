// Which tensors a step keeps and which ops it fuses, as a training framework does it. So peak memory and the ops of a step compare with
// published runs of that framework. Defaults are this engine's own way, which keeps least. A framework's file names members by their names
// here (`keeps`).
#pragma once
#include <string_view>

namespace mbench {

// Where the gradient of a linear layer's weight is written, other than the buffer in which gradients accumulate.
enum class WeightGradients {
  in_buffer,    // nowhere else: the GEMM adds to the buffer
  placeholder,  // the GEMM adds to the buffer, and autograd gets a tensor of the weight's size that nobody reads:
                // one for each shape, kept for good
  apart         // in a tensor of its own in the model's dtype, which is then added to the buffer
};

// What cross entropy makes of the logits and keeps for backward, in addition to the sums of their exponentials.
enum class LogitsGradient {
  in_place,              // the gradient, in forward, in place of the logits
  exponentials_in_copy,  // exponentials, in place of an f32 copy that outlives the logits
  exponentials_apart,    // exponentials next to that copy, which is freed after forward
  gradients_apart,  // as before; backward makes two gradients in f32 next to the exponentials: by log-probability (zero except at the
                    // targets) and by logit. Where columns are split over ranks, the exponentials exist twice then
  gradients_in_16_bits,  // log-probabilities next to the logits, and in backward both those gradients, all in the logits' dtype
  gradient_apart  // in backward, the gradient in the logits' dtype next to them
};

// When an MoE's shared experts compute.
enum class SharedExperts {
  while_dispatched,  // while tokens travel to their experts, and backward while gradients of sums do
  while_combined,    // while experts' outputs travel back; backward before gradients of sums travel
  in_turn,           // forward before the router and backward after it: nothing travels meanwhile
  in_parts  // fc1 while tokens travel to their experts, fc2 while outputs travel back, and backward likewise. GEMMs exchange
            // nothing over tp: their input is gathered before, overlapped, and kept so; their sum is reduced after
};

// Which sharded weights outside the layers stay gathered beyond the part of the model that reads them, on a rank that has all layers.
enum class HeldWeights {
  none,
  head,  // the head's, for the whole of forward, and again for the whole of backward
  ends  // those of embedding, last norm and head, from the begin of forward to the end of backward: one unit, reduced last
};

struct Keeps {
  bool fused_attention = true;  // one op from Q, K, V to context / matmul, softmax, dropout, matmul
  bool stored_masks = false;    // dropout masks kept, 1 byte an element / drawn again from their counters
  bool attention_mask = false;  // a [seq, seq] mask tensor kept for every micro batch / hidden keys known by rule
  bool global_buffer = false;   // Megatron's persistent buffer for scores and gathered activations
  LogitsGradient logits_gradient = LogitsGradient::in_place;
  bool gradient_copy_in_f32 = false;  // 16-bit gradients copied to f32 before the optimizer / read as they are
  bool fused_residual_grad = true;    // residual gradient added inside the norm's gradient / by an op of its own
  bool fused_epilogues = true;        // bias, GELU and their gradients in the GEMMs' epilogues / ops of their own
  WeightGradients weight_gradients = WeightGradients::in_buffer;
  bool zeroed_gradients =
      false;  // all of them set to zero before a step / a weight's gradient by the GEMM that first writes it
  bool weights_within_experts =
      false;  // router weights multiply the input of experts' second GEMMs / the experts' output
  SharedExperts shared_experts = SharedExperts::while_dispatched;
  HeldWeights held_weights = HeldWeights::none;
  bool original_shared_input =
      false;  // FP8 shared experts keep their input in the model's type, which the router keeps too, but with recipe delayed / its codes
  bool grouped_experts = true;  // GEMMs of all experts of a rank in one call / one expert after the other
  bool mask_in_batch =
      false;  // a causal mask [batch, seq, seq] comes with each micro batch and is freed after its forward / none
  bool unfused_rotary =
      false;  // the framework rotates positions by small ops / by a kernel, as the engine does either way
  bool down_separate =
      false;  // two GEMMs for latent attention's down-projections, of queries and of keys / the engine's one
  bool forwarding_kernels =
      false;  // kernels that send tokens also gather them, kernels that send back also sum / ops of their own do
  bool reads_expert_rows = false;  // the host waits for the rows of experts even with balanced routing / not
  bool reads_token_map =
      false;  // the host waits three times forward and once backward where received tokens become rows / not
  bool views_of_chunks =
      false;  // in simulation, the host makes a view for each rank's rows of each expert wherever they change order / not
  bool reads_gate_offset =
      false;  // the host waits where the offset of a clamped gate is copied to the device, with experts' weights of rows / not
  bool deterministic_attention =
      true;  // gradients of fused attention are summed in a fixed order / in the order in which parts arrive
  bool unfused_norm =
      false;  // RMS norms by small ops, which keep an f32 copy of their input and what gamma multiplies / by a kernel
  bool unfused_last_norm =
      false;  // only the norm behind the last layer does so: layers are compiled, and it is not / it is a kernel too
  bool unfused_swiglu =
      false;  // gates' activations are tensors of their own, and kept / part of the multiplication's kernel
  bool gated_scan =
      false;  // Mamba-2's scan multiplies its output by the gates, which the norm then keeps / the norm's kernel does
  bool copied_gathers =
      false;  // sharded weights are gathered into one tensor and copied to others of their own / used where they arrive
  bool copied_gradients =
      false;  // gradients of sharded weights are made in the model's type and copied to the tensor that is reduced / made in that tensor
  // Gates and ups are two tensors, and queries, keys and values three / one: which blocks a simulated allocator hands out.
  bool separate_projections = false;
  // A rank has its part of sharded weights in f32 only, and casts it for each gather / in 16 bits too.
  bool cast_gathers = false;
  // Where every second GEMM's output is kept, so are those that backward does not read / only those that it reads.
  bool unread_products = false;
  bool captured_inputs =
      false;  // captured parts read their inputs and gradients from tensors of their own, to which they are copied / where they are
  int vocab_multiple =
      128;  // rows of word tables on each rank of tp are a multiple of this; 1: a multiple of the tp ranks only
  bool chunked_loss =
      false;  // logits of some positions at a time, and in forward all gradients that follow from them / of all positions
  bool transposed_fp8 =
      false;  // FP8 operands are transposed for GEMMs along their rows on every device / where the device needs it
  bool fp8_transposes_freed =
      false;  // FP8 weights are transposed for each use, and that copy is freed / kept for the step, of frozen weights for good
  bool gathered_inputs =
      false;  // GEMMs keep their input as it was gathered over tp / this rank's part, and backward gathers it again
  bool early_stop =
      false;  // a layer that is run again stops at the last tensor that its backward reads / makes its output too
  bool joined_gathers =
      false;  // GEMMs that each gather one input share a gather, as torch.compile leaves of equal calls / each has its own
  bool batch_first =
      false;  // activations are [batch, seq, hidden]: parts of the sequence are copied to and from where ranks exchange them / they lie there
  bool balance_at_random =
      false;  // in simulation, balanced routing draws each token's experts, so that their rows differ / they are as many
  bool filled_tensors = false;  // in simulation, every new tensor is filled before it is written / not filled

  bool operator==(const Keeps&) const = default;
};

// What a framework's file calls each flag.
struct KeepsFlag {
  std::string_view name;
  bool Keeps::*member;
};
inline constexpr KeepsFlag kKeepsFlags[] = {
    {"fused_attention", &Keeps::fused_attention},
    {"stored_masks", &Keeps::stored_masks},
    {"attention_mask", &Keeps::attention_mask},
    {"global_buffer", &Keeps::global_buffer},
    {"gradient_copy_in_f32", &Keeps::gradient_copy_in_f32},
    {"fused_residual_grad", &Keeps::fused_residual_grad},
    {"fused_epilogues", &Keeps::fused_epilogues},
    {"zeroed_gradients", &Keeps::zeroed_gradients},
    {"weights_within_experts", &Keeps::weights_within_experts},
    {"grouped_experts", &Keeps::grouped_experts},
    {"original_shared_input", &Keeps::original_shared_input},
    {"mask_in_batch", &Keeps::mask_in_batch},
    {"unfused_rotary", &Keeps::unfused_rotary},
    {"down_apart", &Keeps::down_separate},
    {"forwarding_kernels", &Keeps::forwarding_kernels},
    {"reads_expert_rows", &Keeps::reads_expert_rows},
    {"reads_token_map", &Keeps::reads_token_map},
    {"views_of_chunks", &Keeps::views_of_chunks},
    {"reads_gate_offset", &Keeps::reads_gate_offset},
    {"deterministic_attention", &Keeps::deterministic_attention},
    {"unfused_norm", &Keeps::unfused_norm},
    {"unfused_last_norm", &Keeps::unfused_last_norm},
    {"unfused_swiglu", &Keeps::unfused_swiglu},
    {"gated_scan", &Keeps::gated_scan},
    {"copied_gathers", &Keeps::copied_gathers},
    {"copied_gradients", &Keeps::copied_gradients},
    {"separate_projections", &Keeps::separate_projections},
    {"cast_gathers", &Keeps::cast_gathers},
    {"unread_products", &Keeps::unread_products},
    {"captured_inputs", &Keeps::captured_inputs},
    {"chunked_loss", &Keeps::chunked_loss},
    {"transposed_fp8", &Keeps::transposed_fp8},
    {"fp8_transposes_freed", &Keeps::fp8_transposes_freed},
    {"gathered_inputs", &Keeps::gathered_inputs},
    {"early_stop", &Keeps::early_stop},
    {"joined_gathers", &Keeps::joined_gathers},
    {"batch_first", &Keeps::batch_first},
    {"balance_at_random", &Keeps::balance_at_random},
    {"filled_tensors", &Keeps::filled_tensors},
};

}  // namespace mbench
