// What a model is: its sizes, and the parts that its family is made of. Data only. A family is a file of engine/point/families, a preset a
// line of a file of engine/point/models, each with its source.
//
// A spec may ask for any family or combination of parts. One that this binary has no module for is the outcome `unsupported`
// (strategies/model.cpp), not a refusal.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

enum class NormKind { layer_norm, rms_norm };
// pre: before a branch. post: after its residual sum. sandwich: before a branch and on its output, before the sum (Gemma 2). output: only
// on its output (OLMo 2).
enum class NormPlace { pre, post, sandwich, output };
// sequential: a branch reads the sum with the branch before. parallel: all read the layer's input through one norm. parallel_norms: each
// reads it through its own norm. parallel_mixers: attention and a state mixer read one norm of it, and the feed-forward block comes behind
// their sum (Falcon-H1).
enum class Branches { sequential, parallel, parallel_norms, parallel_mixers };
// Of the feed-forward block. gelu and geglu are the tanh form. Gated ones are named by their gate (Shazeer 2020), GPT-OSS's by its clamp
// (engine/ops/swiglu.h). xielu has two learned numbers for each block (engine/ops/xielu.h).
enum class Activation {
  gelu,
  gelu_erf,
  swiglu,
  squared_relu,
  relu,
  silu,
  geglu,
  geglu_erf,
  reglu,
  clamped_swiglu,
  xielu
};
constexpr bool is_gated(Activation a) {
  return a == Activation::swiglu || a == Activation::geglu || a == Activation::geglu_erf || a == Activation::reglu ||
         a == Activation::clamped_swiglu;
}
// A table added to the embedding; a rotation of Q and K; a slope of scores by distance (Press et al. 2022, ALiBi); nothing.
enum class PositionKind { learned, rotary, alibi, none };
// A norm of queries and keys before they are rotated. An RMS norm of each head's columns, or of all heads' together; without_weights is the
// first without a gamma (Llama 4). layer_norm: of each head's columns, with one gamma and beta for all heads (Phi). layer_norm_by_head: with
// a gamma for each head (Command-R+).
enum class QkNorm { none, each_head, without_weights, all_heads, layer_norm, layer_norm_by_head };
// What stands in a layer where others have attention. State mixers keep a state of fixed size instead of keys and values: Mamba-2
// (Dao and Gu 2024, state-space duality), Gated DeltaNet (Yang et al. 2024), and the first Mamba (Gu and Dao 2023). The state of a short
// convolution is the last few positions (LFM2). Lightning attention is linear, with a fixed decay for each head (MiniMax-01).
enum class MixerKind { attention, mamba2, gated_delta, mamba, short_conv, lightning };
// RMS norms of the first Mamba's low-rank steps, B and C: none, without gammas (Falcon Mamba), or with them (Jamba).
enum class ScanNorm { none, without_weights, rms_norm };
// Of Mamba-2 the RMS norm of each group's output: of the gated output, of the output before its gate, or none (Falcon-H1).
enum class StateNorm { gated, before_gate, none };
enum class AttentionForm { multi_head, latent };              // keys and values as they are, or of low rank
enum class Objective { next_token, masked_words_and_order };  // what the loss is: see train/data.h
enum class RouterScore { softmax, sigmoid };                  // of the logits of an MoE's router
enum class GroupScore { best, best_two };  // of a group of experts: its largest score, or its two largest
enum class Weighted { output, input };     // what of an expert its weight for a token multiplies; the input in Llama 4

std::string_view name_of(NormKind);
std::string_view name_of(NormPlace);
std::string_view name_of(Branches);
std::string_view name_of(Activation);
std::string_view name_of(PositionKind);
std::string_view name_of(MixerKind);
std::string_view name_of(ScanNorm);
std::string_view name_of(StateNorm);
std::string_view name_of(AttentionForm);
std::string_view name_of(Objective);
std::string_view name_of(RouterScore);
std::string_view name_of(GroupScore);
std::string_view name_of(Weighted);

// Rotary positions (Su et al. 2021): pair i of a head's n rotary columns rotates by position / base^(2 i / n). With a factor, sequences
// longer than `original_positions` rotate by smaller angles.
//
// - llama3 (LLaMA 3.1): pairs with wavelengths above original_positions / low_frequency_factor rotate `factor` times more slowly. Those
//   below original_positions / high_frequency_factor do not change. Between them the change is gradual.
// - linear: all pairs rotate `factor` times more slowly (Chen et al. 2023).
// - dynamic: the base grows with a sequence that is longer than original_positions (NTK-aware).
//
// - yarn (Peng et al. 2024): pairs that rotate less than low_frequency_factor times within original_positions rotate `factor` times
//   more slowly. Those above high_frequency_factor do not change. Queries and keys are multiplied by attention_factor.
//
// - longrope (Ding et al. 2024): each pair rotates more slowly by a factor of its own, from long_factors where a sequence is longer than
//   original_positions and from short_factors elsewhere. Queries and keys are multiplied by attention_factor.
enum class RopeScaling { llama3, linear, dynamic, yarn, longrope };
struct RopeSpec {
  double base = 10000;
  double fraction = 1;  // of a head's columns, the share that is rotated: the first ones
  double factor = 1;    // 1: no pair is slowed down
  double low_frequency_factor = 1, high_frequency_factor = 4;
  std::int64_t original_positions = 8192;
  RopeScaling scaling = RopeScaling::llama3;
  double attention_factor =
      0;  // of yarn, 0: 0.1 ln(factor) + 1; of longrope, 0: the root of 1 + ln(factor) / ln(original_positions)
  bool truncate = true;                                 // of yarn: the bounds are whole pairs
  std::vector<double> short_factors{}, long_factors{};  // of longrope: one for each pair
  bool operator==(const RopeSpec&) const = default;

  bool scaled() const { return factor != 1 || scaling == RopeScaling::longrope; }
  // How many columns of a head of that width are rotated, an even number.
  std::int64_t turned(std::int64_t head_dim) const;
  // [turned / 2]: radians a position, in sequences of `seq` positions.
  std::vector<float> frequencies(std::int64_t head_dim, std::int64_t seq = 0) const;
  // The factor on cosines and sines.
  double magnitude() const;
};

// A factor on queries by position, `1 + scale ln(1 + (position + first) / floor)` with the quotient rounded down. It keeps scores distinct
// where there are many keys (Llama 4, in layers without positions).
struct AttentionTemperature {
  double scale = 0;  // 0: none
  std::int64_t floor = 8192;
  std::int64_t first = 1;  // what the first position counts as
  bool operator==(const AttentionTemperature&) const = default;

  double at(std::int64_t position) const;
};

// Factors of parts of a layer (Falcon-H1, by maximal update parametrization). They multiply what branches add, gates before their
// activation, and a Mamba-2 mixer's gates, inputs, B, C and steps.
struct Multipliers {
  double attention = 1, state = 1, feed_forward = 1;
  double gates = 1;
  std::array<double, 5> state_inputs{1, 1, 1, 1, 1};
  bool operator==(const Multipliers&) const = default;
};

// Which linear layers have a bias. `experts`: those of an MoE's routed experts. `dense`: those of the feed-forward block and the shared
// expert.
struct Biases {
  bool qkv = false, proj = false, dense = false, experts = false, router = false, logits = false;
  constexpr Biases() = default;
  // All of a layer's except the router's, or none.
  constexpr Biases(bool all) : qkv(all), proj(all), dense(all), experts(all) {}
  bool operator==(const Biases&) const = default;
  bool any() const { return qkv || proj || dense || experts || router || logits; }
  explicit operator bool() const { return any(); }
};

// How the router of an MoE chooses and weighs experts (ops/route.h). It takes the k experts of the largest scores. With groups, it takes
// the best of the best groups (node-limited routing, DeepSeek-V2 and V3). A chosen expert's weight is its score times `scale`, with
// `normalise` divided by the sum of the chosen scores.
struct RoutingSpec {
  RouterScore score = RouterScore::softmax;
  bool normalise = true;
  double scale = 1;
  std::int64_t groups = 1, chosen_groups = 1;
  GroupScore group_score = GroupScore::best;
  // Coefficients of losses that are added to the loss: one evens out the experts' loads (Switch, GShard), the other keeps logits small
  // (ST-MoE).
  double balance_loss = 0, z_loss = 0;
  // Balancing without a loss (DeepSeek-V3): a correction is added to each score, for the choice only. After every step it moves by this
  // much, up where an expert got less than the mean, down where it got more.
  double correction_speed = 0;
  Weighted weighted = Weighted::output;
  bool operator==(const RoutingSpec&) const = default;
};

// What layers, embedding and head are made of.
struct ModelParts {
  NormKind norm = NormKind::layer_norm;
  NormPlace norm_place = NormPlace::pre;
  Activation activation = Activation::gelu;
  PositionKind position = PositionKind::learned;
  AttentionForm attention_form = AttentionForm::multi_head;
  Objective objective = Objective::next_token;
  bool causal = true;          // a position attends only to itself and those before it
  Biases bias = true;          // of linear layers
  bool tied_embedding = true;  // one table embeds words and makes logits
  QkNorm qk_norm = QkNorm::none;
  std::int64_t token_types = 0;  // rows of a table of segments; 0: none
  double norm_eps = 1e-5;
  Branches branches = Branches::sequential;
  bool norm_beta = true;         // of layer norms
  bool norm_gamma = true;        // without one, and without beta, a norm has no weights (OLMo)
  bool embedding_norm = false;   // of the embedding, where layers do not have their norms last anyway (BLOOM)
  double embedding_scale = 1;    // times the embedded words (Gemma: the root of hidden)
  double residual_scale = 1;     // times what a branch adds (Granite, MiniCPM)
  double logit_scale = 1;        // times the logits (Command-R)
  double attention_scale = 0;    // times the scores; 0: 1 / the root of a head's width
  double logit_softcap = 0;      // c: logits become c tanh(logits / c) (Gemma 2); 0: none
  double attention_softcap = 0;  // likewise scores
  std::int64_t window = 0;       // a position attends to this many, itself the last of them; 0: to all that it may
  // A position attends to those of its own chunk of so many, counted from the sequence's start (Llama 4); 0: to all that it may.
  std::int64_t attention_chunk = 0;
  AttentionTemperature attention_temperature{};
  bool attention_sinks = false;  // a learned logit of each head in the denominator of its softmax (GPT-OSS)
  MixerKind mixer = MixerKind::attention;
  ScanNorm scan_norm = ScanNorm::none;
  double scan_norm_eps = 1e-6;
  StateNorm state_norm = StateNorm::gated;
  double inner_norm_eps = 0;  // of norms within a mixer: latents', and those behind scans; 0: norm_eps
  bool negative_eigenvalues =
      false;  // Gated DeltaNet's beta is up to 2, so that what a state has may change its sign (OLMo Hybrid)
  Multipliers multipliers{};
  bool attention_gate = false;  // attention's output times a sigmoid that the queries' projection makes (Qwen3-Next)
  bool shared_gate = false;     // the shared expert's output is multiplied by a sigmoid of hidden (Qwen2-MoE)
  RopeSpec rope;                // where positions are rotary
  RoutingSpec routing;          // where there are experts
  double mtp_loss_scaling_factor = 0.1;  // of the mean of multi-token prediction's losses, as Megatron names it
  bool mtp_use_repeated_layer = false;   // every depth is the first one, with its weights, as Megatron names it
  bool operator==(const ModelParts&) const = default;
};

// Layers that differ: every `every`-th from `from` on, up to `until` (0: the last). `keys` are the parts that differ from the model's;
// their values are in `parts`. `dense`: those layers have no experts.
struct LayerRule {
  std::int64_t every = 1, from = 0, until = 0;
  bool dense = false;
  std::vector<std::string> keys;
  ModelParts parts;
  bool operator==(const LayerRule&) const = default;
  bool holds(std::int64_t layer) const {
    return layer >= from && (until == 0 || layer < until) && (layer - from) % every == 0;
  }
};

struct ModelSpec {
  std::string name;            // the preset's name, or "custom"
  std::string family = "gpt";  // gives the parts
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;        // width of the feed-forward block; 4 * hidden unless given
  std::int64_t vocab = 0;      // before padding
  std::int64_t positions = 0;  // the longest sequence; rows of the table where positions are learned
  // Latent attention (DeepSeek-V2), under the names of the published configurations; 0 in other forms of attention. The width of a head's
  // query and key is the sum of qk_nope_head_dim and qk_rope_head_dim.
  std::int64_t q_lora_rank = 0;       // of the queries' latent; 0: queries straight from hidden
  std::int64_t kv_lora_rank = 0;      // of the latent of keys and values
  std::int64_t qk_nope_head_dim = 0;  // columns without positions
  std::int64_t qk_rope_head_dim = 0;  // rotary ones; the key's are shared by all heads
  std::int64_t v_head_dim = 0;
  // Grouped-query attention and MoE. 0 is "as a dense model": a key and value head for every head, no experts.
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;       // "head_dim": width of a head where it is not hidden / heads
  std::int64_t experts = 0;         // routed ones of a layer
  std::int64_t active_experts = 0;  // of those, how many a token visits
  std::int64_t shared_experts = 0;  // visited by every token
  std::int64_t expert_ffn = 0;      // width of one expert; ffn unless given
  std::int64_t shared_expert_ffn =
      0;  // width of all shared ones together; if not given, shared_experts times the width of one expert
  std::int64_t dense_layers = 0;  // the first ones, which have a block of width ffn and no experts
  std::int64_t mtp_layers = 0;    // depths of multi-token prediction behind the model, a layer each
  std::int64_t labels =
      0;  // classes of a sample, which a linear layer predicts from one position; 0: words are predicted
  // State mixers. Groups are Mamba-2's of B and C, and DeltaNet's heads of keys; its heads of values are `state_heads`. Of the first Mamba a
  // head is a channel, and groups are what tensor parallelism may cut the channels into.
  std::int64_t state_heads = 0;
  std::int64_t state_head_dim = 0;  // width of a head's input, or value
  std::int64_t state_groups = 0;    // a divisor of state_heads
  std::int64_t state_dim = 0;       // width of the state for each column of a head: B and C, or keys and queries
  std::int64_t dt_rank = 0;         // of the first Mamba: columns that steps are made of
  std::int64_t conv_width = 0;      // positions that the causal convolution sees; 0: 4
  std::int64_t state_chunk = 0;     // positions of a chunk of the scan; 0: 256 of Mamba-2, 64 of the others
  std::int64_t moe_latent = 0;      // width in which tokens travel to experts and experts compute; 0: hidden
  // One letter for each layer, which then is one branch, as in Megatron's --hybrid-override-pattern: M Mamba-2, G Gated DeltaNet, S the first Mamba, * attention,
  // - feed-forward, E experts. C is a short convolution, L lightning attention. Empty: every layer has a mixer and a feed-forward block.
  std::string hybrid_pattern{};
  std::optional<ModelParts> own_parts;  // if they differ from the family's
  std::vector<LayerRule> layers_of;     // where several rules hold for a layer, the last one counts, part by part

  const ModelParts& parts() const;
  // Whether one table embeds words and makes logits of them.
  bool ties_embedding() const { return parts().tied_embedding && labels == 0; }
  // Whether words of a sample are masked and predicted.
  bool masks_words() const { return parts().objective == Objective::masked_words_and_order && labels == 0; }
  // Where samples are labelled: from the last position, the only one that sees them whole in a causal model; else from the first.
  bool labels_from_last() const { return parts().objective == Objective::next_token; }
  // The model as one layer sees it: with that layer's parts and without rules. Parts by layer come from this one place.
  ModelSpec at_layer(std::int64_t layer) const;
  // Whether a layer has experts: dense_layers and rules.
  bool has_experts(std::int64_t layer) const;
  // What a layer mixes positions with; nothing where it is a feed-forward block only.
  std::optional<MixerKind> mixer_at(std::int64_t layer) const;
  // The index of the layer that a depth of multi-token prediction has, from 0; behind the model's own.
  std::int64_t layer_of_depth(std::int64_t depth) const {
    return layers + (parts().mtp_use_repeated_layer ? 0 : depth);
  }
  // Whether any layer, or any depth of multi-token prediction, has such a mixer.
  bool mixes(MixerKind kind) const;
  // Those that scan the sequence, and all that read it in its order.
  bool has_scans() const {
    return mixes(MixerKind::mamba2) || mixes(MixerKind::gated_delta) || mixes(MixerKind::mamba);
  }
  bool has_state_mixers() const { return has_scans() || mixes(MixerKind::short_conv) || mixes(MixerKind::lightning); }
  // The chunks of positions that its layers attend in, each once; 0 among them where one attends to all.
  std::vector<std::int64_t> attention_chunks() const;
  // Whether f(parts) is true for any layer.
  template <class F>
  bool any_layer(const F& f) const {
    if (f(parts())) return true;
    for (const LayerRule& rule : layers_of)
      if (f(rule.parts)) return true;
    return false;
  }
  std::int64_t shared_width() const {
    return shared_expert_ffn != 0 ? shared_expert_ffn : shared_experts * (expert_ffn == 0 ? ffn : expert_ffn);
  }
  // Groups of channels of short convolutions; a rank has some.
  std::int64_t conv_groups() const { return std::gcd(hidden, kMostConvGroups); }
  static constexpr std::int64_t kMostConvGroups = 64;
  std::int64_t head_dim() const { return head_size == 0 ? hidden / heads : head_size; }
  // Rows of a table of words padded to a multiple of `multiple` * tp, so that every shard is equal.
  std::int64_t padded_vocab(std::int64_t tp, std::int64_t multiple = kVocabMultiple) const {
    return (vocab + multiple * tp - 1) / (multiple * tp) * (multiple * tp);
  }
  static constexpr std::int64_t kVocabMultiple = 128;  // Megatron's, whose shards are well aligned
  bool operator==(const ModelSpec&) const = default;
};

// The names of the families, and the parts of one; internal error if there is no such family.
const std::vector<std::string>& family_names();
const ModelParts& parts_of_family(const std::string& family);

const std::vector<ModelSpec>& model_presets();
// The preset of that name; bad_input at `where` with the nearest preset if there is none.
const ModelSpec& find_preset(const std::string& name, const std::string& where);

// A preset's name, or an object of sizes, "family" or "preset", and parts. bad_input with the nearest choice.
ModelSpec read_model(const nlohmann::json& value, const std::string& where);
// What read_model accepts, as JSON Schema: names of presets, and objects of sizes and parts.
nlohmann::ordered_json model_schema();
// The preset's name if it is one, else the object that reads as this model.
nlohmann::ordered_json write_model(const ModelSpec& model);
// What decides the computation: no name, and nothing that is at its default.
nlohmann::json model_identity(const ModelSpec& model);

// Trainable weights of the whole model with the vocabulary padded for tp (padded_vocab), from the list of weights (architecture.h).
// Unsupported where the sizes above do not determine them; known_parameter_count is nothing then.
std::int64_t parameter_count(const ModelSpec& model, std::int64_t tp,
                             std::int64_t multiple = ModelSpec::kVocabMultiple);
std::optional<std::int64_t> known_parameter_count(const ModelSpec& model, std::int64_t tp,
                                                  std::int64_t multiple = ModelSpec::kVocabMultiple);

}  // namespace mbench
