// Which tensors a step keeps and which ops it fuses, as a training framework does it: so peak memory and the ops of a step compare with
// published runs of that framework. Defaults are this engine's own way, which keeps least. A framework's file names members by their
// names here (`keeps`).
#pragma once
#include <string_view>

namespace mbench {

// Where the gradient of a linear layer's weight is made, beside the buffer in which gradients accumulate.
enum class WeightGradients {
  in_buffer,    // nowhere: the product adds to the buffer
  placeholder,  // the product adds to the buffer, and autograd is given a tensor of the weight's size that nobody reads:
                // one for each shape, kept for good
  apart         // in a tensor of its own in the model's dtype, which is then added to the buffer
};

// What cross entropy makes of the logits, and keeps of it for backward beside the sums of their exponentials.
enum class LogitsGradient {
  in_place,              // the gradient, in forward, in their place
  exponentials_in_copy,  // exponentials, in place of an f32 copy that outlives the logits
  exponentials_apart,    // exponentials beside that copy, which goes after forward
  gradients_apart,  // as before; in backward the loss's gradient by log-probability, zeros but for the targets', and that by
                    // logit beside the exponentials, all in f32, and these twice where columns are split over ranks
  gradients_in_16_bits  // log-probabilities beside the logits, and in backward both those gradients, all as the logits are
};

struct Keeps {
  bool fused_attention = true;  // one op from Q, K, V to context / product, softmax, dropout, product
  bool stored_masks = false;    // dropout masks kept, 1 byte an element / drawn again from their counters
  bool attention_mask = false;  // a [seq, seq] mask tensor kept for every micro batch / hidden keys known by rule
  bool global_buffer = false;   // Megatron's persistent buffer for scores and gathered activations
  LogitsGradient logits_gradient = LogitsGradient::in_place;
  bool gradient_copy_in_f32 = false;  // 16-bit gradients copied to f32 before the optimizer / read as they are
  bool fused_residual_grad = true;    // residual gradient added inside the norm's gradient / by an op of its own
  bool fused_epilogues = true;        // bias, GELU and their gradients in the matrix products / ops of their own
  WeightGradients weight_gradients = WeightGradients::in_buffer;
  bool zeroed_gradients =
      false;  // all of them set to zero before a step / a weight's by the product that makes it first
  bool weights_within_experts =
      false;  // the router's weights multiply what goes into experts' second products / what comes back
  bool grouped_experts = true;  // products of all experts of a rank in one call / one expert's after the other's
  bool mask_in_batch =
      false;  // a causal mask [batch, seq, seq] comes with each micro batch and goes after its forward / none
  bool unfused_rotary =
      false;  // the framework turns positions by small ops / by a kernel, as the engine does either way
  bool down_separate =
      false;  // the framework has two products where latent attention goes down: queries', keys' / the engine's one
  bool forwarding_kernels =
      false;  // kernels that send tokens to ranks gather them, and those that send back sum / ops do, beside the exchange
  bool reads_expert_rows = false;  // the host waits for the rows of experts, though routing be balanced / not
  bool reads_token_map =
      false;  // the host waits thrice forward and once backward where tokens that came become rows / not
  bool deterministic_attention =
      true;  // gradients of fused attention are summed in one order / in whatever order parts arrive
  int vocab_multiple =
      128;  // tables of words have a multiple of so many rows on each rank of tp; 1: of the tp ranks alone
  bool filled_tensors = false;  // every new tensor is filled before it is written, in simulation / as it comes

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
    {"mask_in_batch", &Keeps::mask_in_batch},
    {"unfused_rotary", &Keeps::unfused_rotary},
    {"down_apart", &Keeps::down_separate},
    {"forwarding_kernels", &Keeps::forwarding_kernels},
    {"reads_expert_rows", &Keeps::reads_expert_rows},
    {"reads_token_map", &Keeps::reads_token_map},
    {"deterministic_attention", &Keeps::deterministic_attention},
    {"filled_tensors", &Keeps::filled_tensors},
};

}  // namespace mbench
