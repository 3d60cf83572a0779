// Which fields of a spec are free, and which layouts that makes.
#include "search/space.h"

#include <fstream>
#include <set>

#include "engine/base/error.h"
#include "engine/point/point_builder.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::search;
using Catch::Contains;

namespace {

Space space_of(const std::string& text, const std::vector<std::string>& set = {}) {
  static const test::TemporaryFolder folder;
  const std::string path = folder / "spec.json";
  std::ofstream(path) << text;
  return read_space({path, set, "sim:8xH100-SXM5-80GB"});
}

std::string refusal(const std::string& text, const std::vector<std::string>& set = {}) {
  try {
    space_of(text, set);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

std::vector<Point> layouts(const Space& space, std::int64_t devices = 8, bool fill = true) {
  std::vector<Point> all;
  std::map<std::string, Refused> refused;
  each_layout(space, devices, fill, refused, [&](const Point& p) {
    all.push_back(p);
    return true;
  });
  return all;
}

constexpr const char* kModel = R"("model": "gpt-bytes-3m", "seq": 128, "global_batch": 16)";

}  // namespace

TEST_CASE("a list that holds any has what strategies offer, and its own values") {
  const auto kinds = [](const std::string& recompute) {
    std::set<std::string> names;
    for (const Point& p : layouts(space_of(fmt::format(R"({{{}, "tp": 8, "recompute": {}}})", kModel, recompute))))
      names.insert(point_field(p, "recompute").dump());
    return names;
  };
  const std::set<std::string> offered = kinds(R"("any")"), with_own = kinds(R"(["any", "norm+mlp"])");
  CHECK(offered.size() >= 2);
  CHECK(with_own.size() == offered.size() + 1);
  CHECK(std::includes(with_own.begin(), with_own.end(), offered.begin(), offered.end()));
  CHECK(kinds(R"(["any", "full"])") == offered);
  CHECK(kinds(R"(["norm+mlp"])").size() == 1);
  CHECK_THAT(refusal(fmt::format(R"({{{}, "schedule": ["any", "zbv"]}})", kModel)),
             Contains("offered with others (schedule"));
}

TEST_CASE("what the framework has not is not proposed, and stays as it is where nothing else is offered") {
  Space space = space_of(fmt::format(R"({{{}, "zero": "fsdp", "search": "all", "framework": "torchtitan"}})", kModel));
  space.can = find_framework("torchtitan", "test").can;
  const std::vector<Point> all = layouts(space);
  CHECK(all.size() > 20);
  for (const Point& p : all) {
    CHECK_FALSE(p.fsdp_no_sync);
    CHECK(p.sequence_parallel == (p.tp > 1));
    CHECK(p.virtual_stages <= 2);
  }
}

TEST_CASE("what is free is any, a list or named, and all layouts are of the devices") {
  const Space space = space_of(fmt::format(R"({{{}, "tp": "any", "pp": [1, 2], "search": ["zero"]}})", kModel));
  std::set<std::tuple<std::int64_t, std::int64_t, Zero>> seen;
  for (const Point& p : layouts(space)) {
    CHECK(p.world() == 8);
    CHECK((p.pp == 1 || p.pp == 2));
    CHECK(p.micro_batch == 1);
    CHECK_FALSE(strategies::why_not(p));
    // Fields that go with a free one are free with it.
    CHECK(p.fsdp_no_sync == (p.zero == Zero::fsdp));
    CHECK(seen.emplace(p.tp, p.pp, p.zero).second);
  }
  // tp 1 2 4 with pp 1 and 5 kinds of state each for dp 8 4 2, tp 8 with one; tp 1 2 with pp 2, tp 4 with one.
  CHECK(seen.size() == 3 * 5 + 1 + 2 * 5 + 1);
}

TEST_CASE("a field that is given stays, in what is offered with it too") {
  const Space space =
      space_of(fmt::format(R"({{{}, "fsdp_no_sync": false, "schedule": "1f1b", "search": "all"}})", kModel));
  const auto all = layouts(space);
  CHECK(all.size() > 50);
  for (const Point& p : all) {
    CHECK_FALSE(p.fsdp_no_sync);
    CHECK(p.zero != Zero::fsdp);
    CHECK(p.virtual_stages == 1);
  }
}

TEST_CASE("lengths of stages and groups of micro batches are free by their names alone") {
  const auto of = [](const std::string& fields) {
    return layouts(
        space_of(fmt::format(R"({{"model": {{"preset": "gpt-bytes-3m", "layers": 12}}, "seq": 128, "global_batch": 16,
      "pp": 4, "tp": 1, {}}})",
                             fields)));
  };
  const auto stages_of = [](const std::vector<Point>& all) {
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    for (const Point& p : all) seen.emplace(p.first_stage_layers, p.last_stage_layers);
    return seen;
  };
  const auto groups_of = [](const std::vector<Point>& all) {
    std::set<std::int64_t> seen;
    for (const Point& p : all) seen.insert(p.micro_batch_group);
    return seen;
  };
  using Stages = std::set<std::pair<std::int64_t, std::int64_t>>;
  const auto all = of(R"("search": "all")");
  CHECK(stages_of(all) == Stages{{0, 0}});
  CHECK(groups_of(all) == std::set<std::int64_t>{0});
  CHECK(stages_of(of(R"("search": ["first_stage_layers"])")) == Stages{{0, 0}, {2, 2}});
  CHECK(stages_of(of(R"("last_stage_layers": "any", "first_stage_layers": 0)")) == Stages{{0, 0}});
  // Values of a list are these and no others, and all of them are looked at.
  CHECK(stages_of(of(R"("first_stage_layers": [1, 6], "last_stage_layers": [1, 3])")) == Stages{{1, 1}, {1, 3}});
  CHECK(groups_of(of(R"("schedule": "interleaved", "virtual_stages": 3, "micro_batch_group": "any")")) ==
        std::set<std::int64_t>{0, 8});
  CHECK(groups_of(of(R"("schedule": "interleaved", "virtual_stages": 3, "micro_batch_group": [4, 5])")) ==
        std::set<std::int64_t>{4});
}

TEST_CASE("layouts cut by hand are free by their name alone, and are stages of any number then") {
  const auto of = [](const std::string& fields, const Abilities& can = {}, int layers = 10) {
    Space space =
        space_of(fmt::format(R"({{"model": {{"preset": "gpt-bytes-3m", "layers": {}}}, "seq": 128, "global_batch": 16,
           "tp": 1, {}}})",
                             layers, fields));
    space.can = can;
    std::map<std::int64_t, std::set<std::string>> seen;
    for (const Point& p : layouts(space)) seen[p.pp * p.virtual_stages].insert(p.pipeline_layout);
    return seen;
  };
  using Texts = std::set<std::string>;
  const auto without = of(R"("pp": "any")");
  CHECK_FALSE(without.contains(8));
  for (const auto& [stages, texts] : without) CHECK(texts == Texts{""});
  const auto any = of(R"("pp": "any", "pipeline_layout": "any")");
  CHECK(any.at(1) == Texts{""});
  CHECK(any.at(2) == Texts{"", "Et*6|t*4L"});
  // Layers alone, with the head as one, with both ends, and with the head as two.
  CHECK(any.at(8) == Texts{"Et|t|t|tt|(t|)*3ttL", "Et|t|tt|t|t|tt|t|tL", "E|tt|t|tt|t|tt|t|tL", "E|tt|t|tt|tt|t|tt|L",
                           "Et|tt|t|tt|t|tt|t|L"});
  CHECK(of(R"("pp": 4, "schedule": "any", "pipeline_layout": "any")").contains(8));
  // Values of a list are these and no others, as texts or as lists; one list of lists is one layout, which is given.
  CHECK(of(R"("pp": 2, "pipeline_layout": ["Et|t*9L", [["embedding"], ["decoder", "loss"]], "Et|tL"])").at(2) ==
        Texts{"Et|t*9L"});
  CHECK(of(R"("pp": 2, "zero": "any", "pipeline_layout": [["embedding", "decoder", "decoder"], ["loss"]])", {}, 2)
            .at(2) == Texts{"Ett|L"});
  // Of a framework without layouts none is proposed.
  for (const auto& [stages, texts] :
       of(R"("pp": "any", "pipeline_layout": "any")", Abilities{{{"pipeline_layout", {""}}}}))
    CHECK(texts == Texts{""});
}

TEST_CASE("how tokens meet experts is free by its name alone") {
  const auto ways_of = [](const std::string& fields) {
    std::set<EpCommunication> seen;
    for (const Point& p : layouts(
             space_of(fmt::format(R"({{"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 16, {}}})", fields))))
      seen.insert(p.ep_communication);
    return seen;
  };
  using enum EpCommunication;
  using Ways = std::set<EpCommunication>;
  CHECK(ways_of(R"("search": "all")") == Ways{all_to_all});
  CHECK(ways_of(R"("ep": "any", "ep_communication": "any")") == Ways{all_to_all, all_gather, flex});
  CHECK(ways_of(R"("ep": "any", "ep_communication": ["flex"])") == Ways{flex});
}

TEST_CASE("whether exchanges over tp travel beside GEMMs is free by its name alone") {
  const auto seen_of = [](const std::string& fields) {
    std::set<std::tuple<bool, bool>> seen;  // sequence parallel, overlapped
    for (const Point& p : layouts(space_of(fmt::format("{{{}, {}}}", kModel, fields))))
      seen.emplace(p.sequence_parallel, p.tp_comm_overlap);
    return seen;
  };
  using Seen = std::set<std::tuple<bool, bool>>;
  CHECK(seen_of(R"("tp": "any", "sequence_parallel": "any")") == Seen{{false, false}, {true, false}});
  CHECK(seen_of(R"("tp": "any", "sequence_parallel": "any", "tp_comm_overlap": "any")") ==
        Seen{{false, false}, {true, false}, {true, true}});
  // Given, it leaves the layouts that can have it.
  CHECK(seen_of(R"("tp": "any", "cp": "any", "sequence_parallel": "any", "tp_comm_overlap": true)") ==
        Seen{{true, true}});
  CHECK(seen_of(R"("tp": "any", "cp": "any", "sequence_parallel": "any", "tp_gathers": "product")") ==
        Seen{{true, false}});
}

TEST_CASE("dp that is given leaves devices idle, and so does a search for few devices") {
  for (const Point& p : layouts(space_of(fmt::format(R"({{{}, "dp": 2, "tp": "any"}})", kModel)))) CHECK(p.dp == 2);
  std::set<std::int64_t> worlds;
  for (const Point& p : layouts(space_of(fmt::format(R"({{{}, "tp": [1, 2]}})", kModel)), 8, false))
    worlds.insert(p.world());
  CHECK(worlds == std::set<std::int64_t>{1, 2, 4, 8});
}

TEST_CASE("what the framework has not is offered only where the spec lists it") {
  const auto stages = [](const std::string& text) {
    Space space = space_of(text);
    space.can = Abilities{{{"zero", {"0", "1"}}, {"offload", {"none"}}}};
    std::set<Zero> all;
    for (const Point& p : layouts(space)) {
      CHECK(p.offload == Offload::none);
      all.insert(p.zero);
    }
    return all;
  };
  CHECK(stages(fmt::format(R"({{{}, "search": ["zero", "offload"]}})", kModel)) == std::set{Zero::none, Zero::stage_1});
  CHECK(stages(fmt::format(R"({{{}, "zero": [1, 3], "search": ["offload"]}})", kModel)) ==
        std::set{Zero::stage_1, Zero::stage_3});
  CHECK(stages(fmt::format(R"({{{}, "zero": 2, "search": ["tp"]}})", kModel)) == std::set{Zero::stage_2});
}

TEST_CASE("values of a list that cannot be are counted with the reason") {
  const Space space = space_of(fmt::format(R"({{{}, "tp": [1, 2, 3], "dp": 1}})", kModel));
  std::map<std::string, Refused> refused;
  std::size_t found = 0;
  each_layout(space, 8, true, refused, [&](const Point&) { return ++found > 0; });
  CHECK(found == 2);
  REQUIRE(refused.size() == 1);
  CHECK(refused.begin()->second.count == 1);
  CHECK_THAT(refused.begin()->second.example, Contains("tp 3 does not divide the 8 heads"));
  CHECK_THAT(refused.begin()->second.layout, Contains("tp=3"));
}

TEST_CASE("--set gives a field another value, frees it or lists its values") {
  const std::string text = fmt::format(R"({{{}, "search": ["tp", "zero"]}})", kModel);
  for (const Point& p : layouts(space_of(text, {"tp=2"}))) CHECK(p.tp == 2);
  std::set<std::int64_t> tps;
  for (const Point& p : layouts(space_of(text, {"tp=[1,8]"}))) tps.insert(p.tp);
  CHECK(tps == std::set<std::int64_t>{1, 8});
  std::set<std::int64_t> pps;
  for (const Point& p : layouts(space_of(text, {"pp=any"}))) pps.insert(p.pp);
  CHECK(pps == std::set<std::int64_t>{1, 2, 4});
  CHECK(space_of(text, {"machine.network.gbps_per_device=94"}).base.machine.at("network.gbps_per_device") == 94);
}

TEST_CASE("what is no space is refused with its path and the nearest choice") {
  CHECK_THAT(refusal(fmt::format(R"({{{}, "search": ["zerro"]}})", kModel)),
             Contains("$.search[0]") && Contains("zero"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "search": ["seed"]}})", kModel)), Contains("no strategy offers values"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "tp": 2, "search": ["tp"]}})", kModel)), Contains("given at"));
  CHECK_THAT(refusal(fmt::format(R"({{{}}})", kModel)), Contains("no field is free"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "tp": []}})", kModel)), Contains("$.tp") && Contains("at least one"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "tp": [1, "two"]}})", kModel)), Contains("$.tp[1]"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "sweep": {{"tp": [1]}}}})", kModel)), Contains("$.sweep"));
  CHECK_THAT(refusal(fmt::format(R"({{{}, "search": "everything"}})", kModel)), Contains("$.search"));
  CHECK_THAT(refusal(R"({"search": "all"})"), Contains("\"model\" is missing"));
}
