// The result of a search as a spec.
#include "sweeps/spec/found_layouts.h"

#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "sweeps/spec/spec.h"
#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;
using nlohmann::ordered_json;

namespace {

// Layouts of a model with one size changed, as a search on a simulated machine records them.
ResultFile found(const std::vector<std::pair<int, int>>& layouts) {
  ResultFile file;
  file.spec = {{"name", "s"},
               {"model", {{"preset", "gpt2-345m"}, {"vocab", 1000}}},
               {"precision", "bf16"},
               {"tp", "any"},
               {"micro_batch", {1, 2, 4}}};
  file.environment = {{"spec_file", "searched.json"}};
  for (const auto& [tp, micro_batch] : layouts) {
    PointResult r;
    r.point = point_from_json(nlohmann::json{{"model", {{"preset", "gpt2-345m"}, {"vocab", 1000}}},
                                             {"precision", "bf16"},
                                             {"tp", tp},
                                             {"micro_batch", micro_batch},
                                             {"global_batch", 4},
                                             {"device", "sim:4xA100-SXM4-40GB"}},
                              "test");
    r.id = point_id(r.point);
    r.world = r.point.world();
    r.simulated = true;
    r.device = r.point.device;
    r.outcome = Outcome::ok;
    file.points.push_back(r);
  }
  return file;
}

Spec read(const Folder& folder, const ResultFile& file, std::vector<std::string> filter = {}) {
  write_result_file(folder / "results.json", file);
  SpecOptions options;
  options.path = folder / "results.json";
  options.device = "sim:4xA100-SXM4-40GB";
  options.filter = std::move(filter);
  return read_spec(options);
}

}  // namespace

TEST_CASE("the layouts that a search found are the points of its result as a spec, in their order") {
  const Folder folder;
  const ResultFile file = found({{2, 1}, {1, 4}, {4, 2}});
  const Spec spec = read(folder, file);
  CHECK(spec.name == "s");
  REQUIRE(spec.points.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(spec.points[i].id == file.points[i].id);
  CHECK_THAT(spec.points[1].label, Contains("tp=1") && Contains("micro_batch=4"));
  CHECK(spec.json.at("sweep").begin().value().size() == 3);
  CHECK_FALSE(spec.json.contains("dropout"));  // what stands at its default is not said
  REQUIRE(read(folder, file, {"micro_batch=2"}).points.size() == 1);
}

TEST_CASE("one layout is a spec without a sweep, none is refused") {
  const Folder folder;
  CHECK_FALSE(read(folder, found({{2, 1}})).json.contains("sweep"));
  const ResultFile same = found({{2, 1}, {2, 2}});
  CHECK(read(folder, same).json.at("sweep").contains("micro_batch"));
  CHECK_THAT(message_of([&] { read(folder, found({})); }), Contains("$.points] a search that found no layout"));
}

TEST_CASE("fields are free where a spec says any, a list, or their names") {
  CHECK(leaves_fields_free({{"model", "gpt2-345m"}, {"search", {"tp"}}}));
  CHECK(leaves_fields_free({{"model", "gpt2-345m"}, {"tp", "any"}}));
  CHECK(leaves_fields_free({{"model", "gpt2-345m"}, {"tp", {1, 2}}}));
  CHECK_FALSE(leaves_fields_free({{"model", "gpt2-345m"}, {"tp", 2}}));
  CHECK_FALSE(leaves_fields_free({{"model", "gpt2-345m"}, {"sweep", {{"tp", {1, 2}}}}}));
}
