// What each stage of a pipeline holds, where a spec cuts it by hand: Megatron-Core's --pipeline-model-parallel-layout.
//
// A text has E for the embedding, t for a layer, m for a depth of multi-token prediction, L for the head with its loss. | separates stages,
// t*3 and (tt|)*29 repeat, commas mean nothing: "Et*3|(tt|)*29,m|L". A list has a list of words for each stage: embedding, decoder, mtp,
// loss. Stages are in the order of the layers: chunk by chunk, and within a chunk rank by rank.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/point/field_values.h"

namespace mbench {

// Of one stage, or of one of its chunks where stages have several.
struct StageParts {
  bool embedding = false;
  std::int64_t layers = 0, depths = 0;
  bool loss = false;
  bool operator==(const StageParts&) const = default;
};
using PipelineLayout = std::vector<StageParts>;

// The most letters and stages of a layout.
inline constexpr std::size_t kMostOfLayout = 65536;

// bad_input at `where` for a text that is no model's layout. It may have another letter, E elsewhere than first, or L elsewhere than last.
// It may have a layer behind a depth, depths on two stages, or more than kMostOfLayout.
PipelineLayout parse_pipeline_layout(std::string_view text, const std::string& where);
// The shortest text for it by these rules: runs of three and more letters, or stages, are repeated. Parsing the text gives it back.
std::string str(const PipelineLayout& layout);

std::int64_t layers_of(const PipelineLayout& layout);
std::int64_t depths_of(const PipelineLayout& layout);

// The number of layers that each end of a model counts as.
struct EndsCount {
  std::int64_t embedding = 1, loss = 1;
};
// Layers spread evenly over `stages` stages. The ends count as layers, and so does each depth; the depths are with the head.
PipelineLayout even_layout(std::int64_t layers, std::int64_t depths, std::int64_t stages, EndsCount ends = {});

// Whether a value is one layout as a list, and not a list of layouts.
bool is_layout_list(const nlohmann::ordered_json& value);

FieldValues<std::string (*)(const nlohmann::json& value, const std::string& where)> pipeline_layout_values();

}  // namespace mbench
