// A model as a tree of parts. Modules are built from these parts. The number of parameters, the model's FLOPs and what `mbench plan` prints
// follow from the list of weights. Sizes are of the whole model, before any cutting.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/shape.h"
#include "engine/point/model_spec.h"

namespace mbench {

// What a weight is to code that cuts the model up. A strategy says for each role what it means (plan/plan.h).
enum class Role : std::uint8_t {
  column,      // first linear layer of a pair: cut by output
  row,         // second of a pair: cut by input
  vocabulary,  // a table looked up by token
  logits,      // what makes logits: cut by output, which may be gathered
  whole,       // small: the same on every rank
  expert_column,
  expert_row,
  inner_row,    // within a block that is cut: by input, and its output is whole
  inner_column  // what reads such an output: cut by output
};
inline constexpr int kRoles = 9;
std::string_view name_of(Role);
constexpr bool is_expert(Role role) {
  return role == Role::expert_column || role == Role::expert_row;
}

// Which tokens a weight is multiplied with in a matmul.
enum class Meets : std::uint8_t {
  none,  // no matmul: a vector, or a table that is looked up
  every_token,
  one_token,    // one position of a sample
  routed_token  // experts: of a layer's experts a token meets its active ones
};

// A weight that consists of rows of another, whole one. Its row r is row r / block * stride + first + r % block of the whole weight, and is
// initialised as that row.
struct RowsOf {
  std::string whole;
  std::int64_t block = 0, stride = 0, first = 0;
};

// y = x W^T (+ b), W [out, in]. Tied: the weight is another part's table.
struct LinearSpec {
  std::string name;
  std::int64_t in = 0, out = 0;
  Role role = Role::whole;
  bool bias = true;
  float stddev = 0;
  Meets meets = Meets::every_token;
  bool tied = false;
  std::int64_t experts = 0;  // so many of them as one weight [experts, out, in]; 0: the weight is [out, in]
  double share = 1;          // of the experts that a token meets
  std::optional<RowsOf> rows_of{};
  bool thawed = false;  // trained where adapters freeze all others: a task's own, which no pretraining made
};

struct NormSpec {
  std::string name;
  NormKind kind = NormKind::layer_norm;
  std::int64_t width = 0;
  float eps = 1e-5f;
  bool gamma = true, beta = true;  // beta: of layer norms
  std::int64_t heads = 1;          // more: each has a gamma of its own, which are cut as the heads are
};

// A vector of weights.
struct VectorSpec {
  std::string name;
  std::int64_t width = 0;
  Role role = Role::whole;
  float stddev = 0;
  float constant = 0;  // mean of the initial values
};

struct TableSpec {
  std::string name;
  std::int64_t rows = 0, width = 0;
  Role role = Role::whole;
  float stddev = 0;
};

struct AttentionSpec {
  std::string name;  // of its dropout
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t qk_dim = 0, v_dim = 0;  // of one head
  bool causal = true;
  std::optional<RopeSpec> rope;
  std::optional<NormSpec> q_norm,
      k_norm;               // before rotary: of each head's columns; or of all heads' columns
  float scale = 0;          // times the scores; 0: 1 / the root of qk_dim
  std::int64_t window = 0;  // keys that a query sees, its own the last; 0: all
  std::int64_t chunk = 0;   // positions of a chunk, within which queries see keys; 0: the whole sequence
  float softcap = 0;        // of scores; 0: none
  AttentionTemperature temperature{};
  bool alibi = false;               // scores fall with distance, by head
  std::optional<VectorSpec> sinks;  // [heads]
  bool gate = false;                // qkv also makes a gate for each column of the output, behind a group's value
  // [kv_heads, (the queries of heads / kv_heads heads, key, value)]: heads that share keys and values are adjacent, as Megatron packs them.
  LinearSpec qkv;
  LinearSpec proj;

  std::int64_t group() const { return heads / kv_heads; }  // heads that share keys and values
  // The two parts of qkv, queries, and keys and values: for layouts in which a group of heads spans several ranks.
  LinearSpec queries() const;
  LinearSpec keys_and_values() const;
};

// Latent attention (DeepSeek-V2): queries, and keys and values together, are made of normed latents, vectors of low rank. One part of a
// query and a key has no position; the other is rotary. All heads share the key's rotary part.
struct LatentAttentionSpec {
  std::string name;  // of its dropout
  std::int64_t heads = 0;
  std::int64_t q_rank = 0, kv_rank = 0;                   // q_rank 0: queries straight from hidden
  std::int64_t turned_dim = 0, plain_dim = 0, v_dim = 0;  // of one head
  bool causal = true;
  std::optional<RopeSpec> rope;
  float scale = 0;  // times the scores; 0: 1 / the root of qk_dim()
  LinearSpec down;  // to (the queries' latent, the latent of keys and values, the key's rotary columns)
  std::optional<NormSpec> q_norm;
  NormSpec kv_norm;
  LinearSpec q;   // to [heads, (turned, plain)]
  LinearSpec kv;  // to [heads, (plain, value)]
  LinearSpec proj;

  std::int64_t qk_dim() const { return turned_dim + plain_dim; }
};

// Mamba-2, Gated DeltaNet or the first Mamba: a projection, a causal convolution along the sequence, a scan that carries states, a projection.
// Heads of a group share B and C (of DeltaNet: key and query). Heads of the first Mamba are channels, which all share B and C.
struct StateMixerSpec {
  std::string name;
  MixerKind kind = MixerKind::mamba2;
  std::int64_t heads = 0, groups = 0;
  std::int64_t head_dim = 0, state_dim = 0;
  std::int64_t conv_width = 0, chunk = 0;
  // To [groups, (z, x of the group's heads, B, C, dt of its heads)]. Of DeltaNet x is the value, B the key, C the query and dt the decay's
  // input; its heads' inputs of beta are behind them.
  LinearSpec in;
  TableSpec conv;  // [groups * conv_channels(), conv_width]: of each group's x, B and C
  std::optional<VectorSpec> conv_bias;
  VectorSpec a_log, dt_bias;    // [heads]; of the first Mamba a_log is [heads * state_dim]
  std::optional<VectorSpec> d;  // [heads], of Mamba-2: what the input adds to the output
  VectorSpec gamma;  // of the gated norm: of Mamba-2 [heads * head_dim], a norm for each group; of DeltaNet [head_dim]
  StateNorm norm = StateNorm::gated;            // of Mamba-2
  std::array<float, 5> factors{1, 1, 1, 1, 1};  // on columns of `in`: z, x, B, C and dt of Mamba-2
  float norm_eps = 1e-5f;
  float beta_scale = 1;  // of DeltaNet: what a sigmoid is multiplied by
  LinearSpec out;
  // Of the first Mamba: to (low-rank steps, B, C), their norms if it has them, and to each channel's step.
  std::int64_t dt_rank = 0;
  std::optional<LinearSpec> x{}, dt{};
  std::vector<NormSpec> norms{};

  bool selective() const { return kind == MixerKind::mamba; }
  std::int64_t group() const { return heads / groups; }  // heads that share B and C
  std::int64_t group_width() const { return group() * head_dim; }
  std::int64_t conv_channels() const { return group_width() + (selective() ? 0 : 2 * state_dim); }  // of a group
  // Outputs of `in` for a group.
  std::int64_t in_width() const {
    if (selective()) return 2 * group_width();
    return group_width() + conv_channels() + group() * (kind == MixerKind::gated_delta ? 2 : 1);
  }
};

// A short convolution (LFM2): a projection makes B, C and x, and y = C conv(B x), each channel by itself. Groups are what tensor parallelism
// may cut the channels into.
struct ShortConvSpec {
  std::string name;
  std::int64_t groups = 0, width = 0;  // of a group: channels
  LinearSpec in;                       // to [groups, (B, C, x)]
  TableSpec conv;                      // [groups * width, positions that a channel sees]
  LinearSpec out;
};

// Lightning attention (MiniMax-01): queries, keys and values with SiLU, h(t) = r h(t - 1) + k(t) v(t)^T and y = h^T q, an RMS norm of all heads'
// outputs, a sigmoid's gate. A head's decay r is e^-slope, fixed by its place and its layer's.
struct LightningSpec {
  std::string name;
  std::int64_t heads = 0, dim = 0;  // of a head: columns of a query, a key and a value
  std::int64_t chunk = 0;           // positions of a chunk of the scan
  std::vector<float> log_slopes;    // [heads]
  LinearSpec in;                    // to [heads, (gate, value, key, query)]
  NormSpec norm;
  LinearSpec out;
};

struct MlpSpec {
  Activation activation = Activation::gelu;
  LinearSpec fc1, fc2;                             // with a gated activation, fc1 makes [width, (gate, up)]
  std::optional<VectorSpec> alpha_p{}, alpha_n{};  // [1], of xIELU
  float gate_factor = 1;                           // on gates, before their activation
};

// An MoE: a router sends each token to `active` of the experts; the shared one sees all tokens.
struct MoeSpec {
  std::string name;
  std::int64_t experts = 0, active = 0;
  RoutingSpec routing;
  LinearSpec router;
  MlpSpec expert;  // all of them: weights [experts, out, in]
  std::optional<MlpSpec> shared;
  std::optional<LinearSpec> shared_gate;  // to one number for each token
  std::optional<LinearSpec> down, up;     // to the width in which experts compute, and back (Nemotron-3)
};

// y = x + scale * dropout(output_norm(mixer(norm(x)))), with each norm only where the model has it; or with `norm` last.
struct BranchSpec {
  std::string name;
  std::optional<NormSpec> norm, output_norm;
  std::variant<AttentionSpec, LatentAttentionSpec, StateMixerSpec, ShortConvSpec, LightningSpec, MlpSpec, MoeSpec>
      mixer;
  float factor = 1;  // on what the mixer makes
};

struct LayerSpec {
  NormPlace norm_place = NormPlace::pre;
  std::vector<BranchSpec> branches;
  std::size_t parallel = 0;  // so many first branches run side by side; those without a norm read the first one's
  float residual_scale = 1;
};

struct EmbeddingSpec {
  TableSpec word;
  std::optional<TableSpec> position, token_type;
  std::optional<NormSpec> norm;  // of the tables' sum, where layers have their norms last
  float scale = 1;               // a factor on the words
};

// Predicts words: final norm, an optional transform (dense, GELU, norm), logits. With `classes` classifies samples too, by the order of their
// two sentences, or, without logits, by their labels.
struct HeadSpec {
  struct Classes {
    std::optional<LinearSpec> pooler;  // with a tanh behind it
    LinearSpec classifier;
    std::string dropout{};  // of what the classifier reads; empty: none
  };
  struct Transform {
    LinearSpec dense;
    Activation activation = Activation::gelu;
    NormSpec norm;
  };
  std::optional<NormSpec> norm;  // where layers have their norms first
  std::optional<Classes> classes;
  std::optional<Transform> transform;
  std::optional<LinearSpec> logits;
  float logit_scale = 1, logit_softcap = 0;
};

// A depth of multi-token prediction (DeepSeek-V3 Technical Report, 2.2). Its inputs are the hidden activations of the model, or of the
// depth before, and the embedded words that were predicted from them. Each is normed; joined, they go through a layer and a norm. Logits
// then predict one word further on. Its word table and logits are the model's.
struct DepthSpec {
  NormSpec word_norm, hidden_norm;
  LinearSpec join;  // from (word, hidden)
  LayerSpec layer;
  NormSpec norm;
  LinearSpec logits;
};

// The parts of one model, with `vocab` rows in its tables of words: the vocabulary, or more where it is padded. Unsupported where the
// model's sizes do not determine a part's.
EmbeddingSpec embedding_of(const ModelSpec& model, std::int64_t vocab);
LayerSpec layer_of(const ModelSpec& model, std::int64_t index);
HeadSpec head_of(const ModelSpec& model, std::int64_t vocab);
DepthSpec depth_of(const ModelSpec& model, std::int64_t depth, std::int64_t vocab);  // depth: from 0

// Whether two layers differ only in their names; and the first layer of each kind, in order.
bool same_kind(const ModelSpec& model, std::int64_t a, std::int64_t b);
std::vector<std::int64_t> kinds_of_layers(const ModelSpec& model);

// One weight, whether a matrix of a matmul or not.
struct WeightSpec {
  std::string name;  // unique; seeds the draw of its initial value
  Shape shape;       // [out, in] of a linear layer, [rows, width] of a table, [width] of a vector
  Role role = Role::whole;
  float stddev = 0;  // initial values: normal with this deviation around `constant`
  float constant = 0;
  Meets meets = Meets::none;
  double share = 1;
  bool tied = false;  // is another table, which is counted elsewhere
  std::optional<RowsOf> rows_of{};
  bool bias = false;     // of a linear layer, or of each of a layer's experts
  bool adapter = false;  // of a low-rank adapter (adapter.h): trained where all others are frozen
  bool thawed = false;   // trained with those, as LinearSpec says
};
WeightSpec weight_of(const LinearSpec& linear);
WeightSpec weight_of(const TableSpec& table);
WeightSpec weight_of(const VectorSpec& vector);
WeightSpec bias_of(const LinearSpec& linear);
WeightSpec gamma_of(const NormSpec& norm);
WeightSpec beta_of(const NormSpec& norm);

// Every weight of the model, in the order of a rank that holds all of it.
std::vector<WeightSpec> weights_of(const EmbeddingSpec& embedding);
std::vector<WeightSpec> weights_of(const LayerSpec& layer);
std::vector<WeightSpec> weights_of(const HeadSpec& head);
std::vector<WeightSpec> weights_of(const DepthSpec& depth);
std::vector<WeightSpec> weights_of(const ModelSpec& model, std::int64_t vocab);

}  // namespace mbench
