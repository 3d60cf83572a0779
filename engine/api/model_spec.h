// What a model is: its family and sizes, and the presets known by name. Data only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mbench {

enum class Family { gpt, bert };

struct ModelSpec {
  std::string name;  // the preset's name, or "custom"
  Family family = Family::gpt;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;        // width of the feed-forward block; 4 * hidden unless given
  std::int64_t vocab = 0;      // before padding
  std::int64_t positions = 0;  // learned position embeddings; the longest sequence

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

// Trainable weights of the whole model with the vocabulary padded for tp.
std::int64_t parameter_count(const ModelSpec& model, std::int64_t tp);

}  // namespace mbench
