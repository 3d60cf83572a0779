// Which part of a model each stage of a pipeline holds: one table, whichever fields of a point say it.
#pragma once
#include "engine/point/pipeline_layout.h"
#include "strategies/strategies.h"

namespace mbench::strategies {

// Values of a Way of pipeline_layout: none, and the even layout. As a point's: a layout that is still to be chosen; until then stages
// are even, however many there are. No spec has that.
inline constexpr std::string_view kNoLayout = "none", kEvenLayout = "even";

// By position, in the order of the layers: chunk by chunk, and of a chunk stage by stage. Of a point that bad_stages does not refuse.
//
// With a pipeline_layout as it says. With first_stage_layers or last_stage_layers: so many on these stages and as many on each other
// one, evenly over a stage's chunks (Megatron-Core: get_num_layers_to_build).
//
// Else even stages. Where the layers plus two come out even or balanced, the embedding and the head count as a layer each. Llama 3 405B
// does so with 126 layers on 16 stages (--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split).
//
// Depths of multi-token prediction are with the head.
PipelineLayout stages_of(const Point& point);

MaybeFault bad_stages(const Point& point);

// A point's stages as even_layout has them; empty where its pp and virtual_stages are more than a layout has.
std::string even_text(const Point& point, EndsCount ends = {});

}  // namespace mbench::strategies
