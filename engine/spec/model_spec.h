// What a model is: its family and sizes, and the presets known by name. Data only.
//
// The engine trains gpt and bert. llama, mixtral and deepseek are known by name and size, so that a spec can
// ask for them and gets the outcome `unsupported` (see point.h) instead of a refusal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mbench {

enum class Family { gpt, bert, llama, mixtral, deepseek };

struct ModelSpec {
  std::string name;  // the preset's name, or "custom"
  Family family = Family::gpt;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;        // width of the feed-forward block; 4 * hidden unless given
  std::int64_t vocab = 0;      // before padding
  std::int64_t positions = 0;  // learned position embeddings; the longest sequence
  // Grouped-query attention and mixtures of experts. 0 is "as a dense model": a key and value head for every
  // head, no experts.
  std::int64_t kv_heads = 0;
  std::int64_t experts = 0;         // routed ones of a layer
  std::int64_t active_experts = 0;  // of those, how many a token visits
  std::int64_t shared_experts = 0;  // visited by every token
  std::int64_t expert_ffn = 0;      // width of one expert; ffn unless given

  std::int64_t head_dim() const { return hidden / heads; }
  // Megatron pads the vocabulary to a multiple of 128 * tp so that every shard is equal and well aligned.
  std::int64_t padded_vocab(std::int64_t tp) const {
    const std::int64_t multiple = 128 * tp;
    return (vocab + multiple - 1) / multiple * multiple;
  }
  bool operator==(const ModelSpec&) const = default;
};

const std::vector<ModelSpec>& model_presets();

// The preset of that name; bad_input naming `where` and the nearest preset if there is none.
const ModelSpec& find_preset(const std::string& name, const std::string& where);

// Whether the engine has the model's parts; if not, the parameter count below may still be known.
bool is_built_in(const ModelSpec& model);

// Trainable weights of the whole model with the vocabulary padded for tp. Unsupported for a family whose
// weights the sizes above do not determine; known_parameter_count is nothing then.
std::int64_t parameter_count(const ModelSpec& model, std::int64_t tp);
std::optional<std::int64_t> known_parameter_count(const ModelSpec& model, std::int64_t tp);

}  // namespace mbench
