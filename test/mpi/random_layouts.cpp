#include "test/mpi/random_layouts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "engine/point/pipeline_layout.h"
#include "strategies/strategies.h"
#include "test/mpi/drawn_fields.h"

namespace mbench::test {
namespace {

using nlohmann::json;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : next_(seed) {}

  // The fields of a candidate that are not the common ones; nothing for a mesh of another size than the job's.
  json candidate() {
    json fields = json::object();
    std::int64_t world = 1;
    for (const char* axis : {"tp", "pp", "dp", "cp"})
      world *= (fields[axis] = one_of(axis[0] == 't' || axis[0] == 'c' ? kEven : kAny)).get<std::int64_t>();
    if (world < 2 || world > 8) return {};
    fields["model"] = one_of(drawn_models());
    fields["model"]["layers"] = one_of(kLayers);
    for (const DrawnField& field : drawn_fields())
      if (field.may(fields)) fields[field.key] = one_of(field.values);
    if (fields["pp"] > 1 && fields["first_stage_layers"] == 0 && fields["last_stage_layers"] == 0 &&
        one_of(kCut) == true)
      fields["pipeline_layout"] = cut(fields);
    fields["global_batch"] = one_of(kMicroBatches).get<std::int64_t>() * fields["dp"].get<std::int64_t>() *
                             fields["micro_batch"].get<std::int64_t>();
    return fields;
  }

 private:
  inline static const json kEven = {1, 1, 1, 2, 2, 4, 8}, kAny = {1, 1, 1, 2, 2, 3, 4, 8},
                           kLayers = {2, 3, 4, 4, 5, 6, 8}, kMicroBatches = {1, 1, 2, 2, 3, 4, 4, 6, 8},
                           kCut = {true, true, false};

  // Layers anywhere, and depths of multi-token prediction on one stage behind them, of those that have the last chunks.
  std::string cut(const json& fields) {
    const std::size_t stages = fields["pp"], all = stages * fields.value("virtual_stages", std::size_t{1});
    std::vector<std::size_t> of_layers(fields["model"]["layers"].get<std::size_t>());
    for (std::size_t& at : of_layers) at = next_() % all;
    std::sort(of_layers.begin(), of_layers.end());
    PipelineLayout layout(all);
    for (const std::size_t at : of_layers) ++layout[at].layers;
    const std::size_t behind = std::max(of_layers.back(), all - stages);
    layout[behind + next_() % (all - behind)].depths = fields["model"].value("mtp_layers", 0);
    layout.front().embedding = layout.back().loss = true;
    return str(layout);
  }

  const json& one_of(const json& list) { return list[next_() % list.size()]; }

  std::mt19937_64 next_;  // its output is the same everywhere, which std's distributions are not
};

}  // namespace

std::vector<Layout> random_layouts(std::uint64_t seed, std::size_t count, std::size_t* candidates) {
  Draw draw(seed);
  json base = point_to_json(layout_of("random", "gpt", 1, 1, 1, false).point);
  base["iterations"] = 3;
  base["model"]["positions"] = 64;
  std::set<std::string> ids;
  std::vector<Layout> found;
  for (std::size_t tried = 0; found.size() < count; ++tried) {
    if (candidates) *candidates = tried + 1;
    const json drawn = draw.candidate();
    if (drawn.is_null()) continue;
    json fields = base;
    fields.merge_patch(drawn);
    const Point point = point_from_json(fields, "drawn layout: $");
    if (!strategies::can_be(point) || !ids.insert(point_id(point)).second) continue;
    Layout layout{"drawn " + drawn.dump(), point};
    // A capacity of all ranks' tokens together may be none that FP8 products can have.
    if (strategies::can_be(serial_point_of(layout))) found.push_back(std::move(layout));
  }
  return found;
}

}  // namespace mbench::test
