#include "strategies/stages.h"

#include <algorithm>

namespace mbench::strategies {
namespace {

// Equal stages where they come out even. Else the embedding and the head count as a layer each: where that comes out even too, and
// where chunks then differ by one at most, in chunks of four and more. In smaller ones that would be no balance.
bool divides(std::int64_t layers, std::int64_t chunks) {
  const std::int64_t parts = layers + 2;
  return layers % chunks == 0 || (chunks > 1 && (parts % chunks == 0 || (parts + chunks - 1) / chunks >= 4));
}

bool names_ends(const Point& p) {
  return p.first_stage_layers > 0 || p.last_stage_layers > 0;
}

// The stages between those whose layers are named, and what is left for them.
struct Between {
  std::int64_t stages, layers;
  bool even() const { return stages == 0 ? layers == 0 : layers >= stages && layers % stages == 0; }
};

Between between(const Point& p) {
  return {p.pp - (p.first_stage_layers > 0) - (p.last_stage_layers > 0),
          p.model.layers - p.first_stage_layers - p.last_stage_layers};
}

// Layers of a stage, where those of an end are named.
std::int64_t layers_of_stage(const Point& p, std::int64_t stage) {
  if (stage == 0 && p.first_stage_layers > 0) return p.first_stage_layers;
  if (stage == p.pp - 1 && p.last_stage_layers > 0) return p.last_stage_layers;
  const Between b = between(p);
  return b.layers / b.stages;
}

// A stage whose layers the chunks of a stage do not divide.
std::optional<std::int64_t> not_in_chunks(const Point& p) {
  for (const std::int64_t stage : {std::int64_t{0}, p.pp / 2, p.pp - 1})
    if (layers_of_stage(p, stage) % p.virtual_stages != 0) return stage;
  return std::nullopt;
}

MaybeFault bad_ends(const Point& p) {
  const std::string given = p.first_stage_layers == 0  ? fmt::format("last_stage_layers {}", p.last_stage_layers)
                            : p.last_stage_layers == 0 ? fmt::format("first_stage_layers {}", p.first_stage_layers)
                                                       : fmt::format("first_stage_layers {} and last_stage_layers {}",
                                                                     p.first_stage_layers, p.last_stage_layers);
  const Way first = within("first_stage_layers", 0, p.model.layers),
            last = within("last_stage_layers", 0, p.model.layers);
  const Way one = p.first_stage_layers > 0 ? first : last, other = p.last_stage_layers > 0 ? last : first;
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), one}, "{} with pp 1", given);
  if (const Between b = between(p); !b.even())
    return infeasible({one, other}, "{} of {} layers with pp {} leave {} to {} stages, which have as many each", given,
                      p.model.layers, p.pp, b.layers, b.stages);
  if (const auto stage = not_in_chunks(p))
    return infeasible({one, other},
                      "{} of {} layers with pp {}: virtual_stages {} does not divide the {} layers of stage {}", given,
                      p.model.layers, p.pp, p.virtual_stages, layers_of_stage(p, *stage), *stage);
  return std::nullopt;
}

constexpr Way kEven = one_of("pipeline_layout", kEvenLayout), kNone = one_of("pipeline_layout", kNoLayout);

// Megatron-Core: PipelineParallelLayerLayout.validate_layer_layout, of what depends on the point.
MaybeFault bad_layout(const Point& p) {
  if (names_ends(p)) {
    const bool first = p.first_stage_layers > 0;
    const std::string_view field = first ? "first_stage_layers" : "last_stage_layers";
    return infeasible({exactly(field, 0), kNone}, "{} {} with a pipeline_layout", field,
                      first ? p.first_stage_layers : p.last_stage_layers);
  }
  constexpr auto most = static_cast<std::int64_t>(kMostOfLayout);
  if (p.pp * p.virtual_stages > most)
    return infeasible({within("pp", 1, most / p.virtual_stages), within("virtual_stages", 1, most / p.pp), kNone},
                      "pp {} x virtual_stages {} are more stages than the {} of a pipeline_layout", p.pp,
                      p.virtual_stages, most);
  const PipelineLayout layout = stages_of(p);
  const auto count = static_cast<std::int64_t>(layout.size());
  if (count != p.pp * p.virtual_stages) {
    std::vector<Way> ways{kEven, kNone};
    if (count % p.pp == 0) ways.insert(ways.begin(), exactly("virtual_stages", count / p.pp));
    if (count % p.virtual_stages == 0) ways.insert(ways.begin(), exactly("pp", count / p.virtual_stages));
    Fault fault = infeasible({}, "pipeline_layout has {} stages for pp {}{}", count, p.pp,
                             p.virtual_stages > 1 ? fmt::format(" x virtual_stages {}", p.virtual_stages) : "");
    fault.ways = std::move(ways);
    return fault;
  }
  if (layers_of(layout) != p.model.layers)
    return infeasible({exactly("model.layers", layers_of(layout)), kEven, kNone},
                      "pipeline_layout has {} layers of the model's {}", layers_of(layout), p.model.layers);
  if (depths_of(layout) != p.model.mtp_layers)
    return infeasible({exactly("model.mtp_layers", depths_of(layout)), kEven, kNone},
                      "pipeline_layout has {} depths of the model's mtp_layers {}", depths_of(layout),
                      p.model.mtp_layers);
  for (std::int64_t i = 0; i < count - p.pp; ++i)
    if (layout[static_cast<std::size_t>(i)].depths > 0)
      return infeasible(
          {kEven, kNone},
          "pipeline_layout has multi-token prediction in chunk {} of the {} of stage {}, and not in the last", i / p.pp,
          p.virtual_stages, i % p.pp);
  return std::nullopt;
}

}  // namespace

MaybeFault bad_stages(const Point& p) {
  if (!p.pipeline_layout.empty()) return bad_layout(p);
  if (names_ends(p)) return bad_ends(p);
  if (divides(p.model.layers, p.pp * p.virtual_stages)) return std::nullopt;
  if (p.virtual_stages == 1)
    return infeasible({within("pp", 1, p.model.layers + 2), kEven}, "pp {} does not divide the {} layers", p.pp,
                      p.model.layers);
  return infeasible({within("virtual_stages", 1, p.model.layers), within("pp", 1, p.model.layers), kEven},
                    "pp {} x virtual_stages {} does not divide the {} layers", p.pp, p.virtual_stages, p.model.layers);
}

PipelineLayout stages_of(const Point& p) {
  if (p.pipeline_layout == kEvenLayout) return even_layout(p.model.layers, p.model.mtp_layers, p.pp * p.virtual_stages);
  if (!p.pipeline_layout.empty()) return parse_pipeline_layout(p.pipeline_layout, "pipeline_layout");
  const std::int64_t all = p.pp * p.virtual_stages, layers = p.model.layers;
  if (!names_ends(p) && layers % all != 0) {
    PipelineLayout table = even_layout(layers, 0, all);
    table.back().depths = p.model.mtp_layers;
    return table;
  }
  PipelineLayout table(static_cast<std::size_t>(all));
  for (std::int64_t i = 0; i < all; ++i)
    table[static_cast<std::size_t>(i)].layers =
        names_ends(p) ? layers_of_stage(p, i % p.pp) / p.virtual_stages : layers / all;
  table.front().embedding = table.back().loss = true;
  table.back().depths = p.model.mtp_layers;
  return table;
}

std::string even_text(const Point& p, EndsCount ends) {
  const std::int64_t stages = p.pp * p.virtual_stages;
  if (stages > static_cast<std::int64_t>(kMostOfLayout)) return "";
  return str(even_layout(p.model.layers, p.model.mtp_layers, stages, ends));
}

}  // namespace mbench::strategies
