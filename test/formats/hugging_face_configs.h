// Small configurations of Hugging Face models for tests, and what mbench reads them as.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json_reader.h"
#include "engine/point/architecture.h"
#include "engine/point/point.h"
#include "formats/formats.h"
#include "formats/hugging_face/hugging_face.h"
#include "test/catch.h"

namespace mbench::test {

using formats::Imported;
using nlohmann::json;
using nlohmann::ordered_json;

inline Imported imported(const ordered_json& config, std::vector<std::string> without = {}) {
  return formats::read_hugging_face(config, "config.json", without);
}

inline Point point_of(const ordered_json& config) {
  return point_from_json(json(imported(config).spec), "spec");
}

// Of the model as it is, without padded words.
inline std::int64_t parameters(const ModelSpec& m) {
  std::int64_t n = 0;
  for (const WeightSpec& w : weights_of(m, m.vocab))
    if (!w.tied) n += w.shape.numel();
  return n;
}

inline std::string refusal(const ordered_json& config, std::vector<std::string> without = {}) {
  try {
    imported(config, without);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::unsupported);
    return e.what();
  }
  return "";
}

inline const ordered_json kLlama = {{"model_type", "llama"},         {"num_hidden_layers", 3},   {"hidden_size", 64},
                                    {"num_attention_heads", 4},      {"intermediate_size", 112}, {"vocab_size", 320},
                                    {"max_position_embeddings", 128}};

inline ordered_json with(ordered_json config, const ordered_json& more) {
  config.update(more);
  return config;
}

}  // namespace mbench::test
