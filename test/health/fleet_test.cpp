// A fleet of nodes: who is cut, whose figures fall out by which rule, and repeats of a check.
#include "health/fleet.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::health;
using Catch::Contains;

namespace {

// A check of one node of two ranks.
Health node(const std::string& name, double gemm, double memory, double launch) {
  Health h;
  h.device = "cpu";
  h.hosts = {{.name = name, .cpu = "A CPU", .ranks = {0, 1}}};
  h.devices = {"cpu", "cpu"};
  const auto figure = [](const char* what, const char* unit, bool rate, double worst) {
    Figure f{.what = what, .scope = "rank", .unit = unit, .rate = rate, .of = {}};
    f.of = {{{0}, rate ? worst * 1.05 : worst / 1.05, 1, 0}, {{1}, worst, 1, 0}};
    return f;
  };
  h.figures = {figure("f32 product", "TFLOP/s", true, gemm), figure("memory", "GB/s", true, memory),
               figure("launch", "us", false, launch)};
  Figure all{.what = "all_reduce", .scope = "all", .unit = "GB/s", .bytes = 1024, .of = {}};
  all.of = {{{0, 1}, 10 * memory, 1, 0}};
  h.figures.push_back(all);
  return h;
}

std::vector<Health> eight() {
  std::vector<Health> checks;
  for (int i = 0; i < 7; ++i) checks.push_back(node("h" + std::to_string(i), 1 + 0.002 * i, 100 + 0.3 * i, 5));
  checks.push_back(node("slow", 1, 60, 5.6));
  return checks;
}

std::vector<std::string> who(const Fleet& fleet, const std::vector<Health>& checks, const std::string& rule) {
  std::vector<std::string> names;
  for (const FallenOut& out : fallen_out(fleet, checks, {read_rule(rule, "test")})) names.push_back(out.node);
  return names;
}

}  // namespace

TEST_CASE("fleet: the worst of a node counts, outliers are cut, and the spread is of what is left") {
  const Fleet fleet = make_fleet(eight());
  CHECK(fleet.nodes.size() == 8);
  CHECK(fleet.hardware == "A CPU");
  REQUIRE(fleet.figures.size() == 4);
  const FleetFigure& memory = fleet.figures[1];
  CHECK(memory.what == "memory");
  CHECK(memory.nodes == 7);
  CHECK(memory.cut == 1);
  CHECK(memory.median == Approx(100.9));
  CHECK(memory.least == Approx(100));
  CHECK(memory.most == Approx(101.8));
  CHECK(memory.spread == Approx(1.4826 * 0.6));
  CHECK(fleet.figures[0].cut == 0);
  CHECK(fleet.figures[3].ranks == 2);
}

TEST_CASE("fleet: rules over one and over several figures name who falls out, and why") {
  const std::vector<Health> checks = eight();
  const Fleet fleet = make_fleet(checks);
  CHECK(who(fleet, checks, "memory@5%") == std::vector<std::string>{"slow"});
  CHECK(who(fleet, checks, "f32 product@5%").empty());
  CHECK(who(fleet, checks, "launch@15%").empty());
  CHECK(who(fleet, checks, "2 of memory,launch@5%") == std::vector<std::string>{"slow"});
  CHECK(who(fleet, checks, "2 of memory,f32 product@5%").empty());
  CHECK(who(fleet, checks, "3 of *@5%") == std::vector<std::string>{"slow"});
  CHECK(who(fleet, checks, "4 of *@5%").empty());
  CHECK(who(fleet, checks, "all_reduce/all@5%") == std::vector<std::string>{"slow"});
  CHECK(who(fleet, checks, "all_reduce/pairs@5%").empty());
  const auto out = fallen_out(fleet, checks, {read_rule("2 of memory,launch@5%", "test")});
  REQUIRE(out.size() == 1);
  CHECK_THAT(out[0].reasons.at(0), Contains("2 of memory,launch@5%: memory 60 GB/s, 41 % below the fleet's 100.9") &&
                                       Contains("launch 5.6 us, 12 % above the fleet's 5"));
  Fleet judged = fleet;
  CHECK_THAT(to_markdown(judged), Contains("its nodes were not judged"));
  judge(judged, checks, {read_rule("2 of memory,launch@5%", "test")});
  const Fleet kept = fleet_from_json(nlohmann::json::parse(to_json(judged).dump()), "test");
  CHECK_THAT(to_markdown(kept),
             Contains("**slow** falls out: 2 of memory,launch@5%") && Contains("Rules: 2 of memory,launch@5%."));
  CHECK_THAT(to_junit(kept), Contains("failures=\"1\"") && Contains("name=\"slow\""));
  CHECK_NOTHROW(check_rules(fleet, {read_rule("2 of *,all_reduce/all@5%", "test")}, "--rule"));
  CHECK_THROWS_WITH(check_rules(fleet, {read_rule("mem@5%", "test")}, "--rule"),
                    Contains("[--rule] no such figure in these checks, got \"mem\", need") && Contains("memory"));
}

TEST_CASE("fleet: wrong data is named whatever the rules are, and a new node is held against the stored fleet") {
  const Fleet stored = fleet_from_json(nlohmann::json::parse(to_json(make_fleet(eight())).dump()), "test");
  CHECK(stored.figures.size() == 4);
  CHECK(stored.figures[1].median == Approx(100.9));
  CHECK(fallen_out(stored, {node("new", 1, 100, 5)}, {read_rule("*@10%", "test")}).empty());
  Health wrong = node("new", 1, 100, 5);
  wrong.figures[3].of[0].wrong = 3;
  const auto out = fallen_out(stored, {wrong}, {read_rule("*@10%", "test")});
  REQUIRE(out.size() == 1);
  CHECK(out[0].node == "new");
  CHECK_THAT(out[0].reasons.at(0), Contains("gave 3 wrong elements"));
  const auto worst = deviations(stored, {node("new", 0.5, 100, 5)});
  CHECK(worst.front().figure.what == "f32 product");
  CHECK(worst.front().share == Approx(0.5).epsilon(0.01));
}

TEST_CASE("fleet: groups over several hosts are of no node, and a node that was checked twice counts once") {
  Health two = node("a", 1, 100, 5);
  two.hosts = {{.name = "a", .ranks = {0}}, {.name = "b", .ranks = {1}}};
  const Fleet fleet = make_fleet({two, node("a", 1, 100, 5)});
  CHECK(fleet.nodes == std::vector<std::string>{"a", "b"});
  for (const FleetFigure& f : fleet.figures) CHECK(f.nodes + f.cut == (f.scope == "all" ? 1 : 2));
}

TEST_CASE("fleet: rules that are none are refused") {
  for (const char* text : {"memory", "memory@5", "memory@0%", "@5%", "x of memory@5%", "0 of memory@5%", "a,,b@5%"}) {
    INFO(text);
    CHECK_THROWS_WITH(read_rule(text, "--rule"), Contains("[--rule] not a rule"));
  }
  CHECK_THROWS_AS(make_fleet({}), Error);
  Health gpu = node("g", 1, 100, 5);
  gpu.device = "cuda";
  CHECK_THROWS_WITH(make_fleet({gpu, node("a", 1, 100, 5)}), Contains("different devices"));
}

TEST_CASE("check: of repeats an outlier is out in two of three") {
  const auto repeats = [](std::vector<double> of_rank_1) {
    std::vector<Health> checks;
    for (const double value : of_rank_1) {
      Health h = node("a", 1, 100, 5);
      h.figures.resize(1);
      h.figures[0].of = {{{0}, 1.0, 1, 0}, {{1}, value, 1, 0}, {{2}, 1.0, 1, 0}};
      h.hosts[0].ranks = {0, 1, 2};
      checks.push_back(h);
    }
    return merge_repeats(checks);
  };
  CHECK(judge(repeats({0.5, 1.0, 1.0}), 0.1).empty());
  const auto found = judge(repeats({0.5, 0.6, 1.0}), 0.1);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text, Contains("0.6 TFLOP/s, 40 % below") && Contains("in 2 of 3 repeats"));
  CHECK(judge(repeats({0.5}), 0.1).size() == 1);
  CHECK(needed_of(1) == 1);
  CHECK(needed_of(2) == 2);
  CHECK(needed_of(3) == 2);
  CHECK(needed_of(5) == 4);
  const Health back = health_from_json(nlohmann::json::parse(to_json(repeats({0.5, 0.6, 1.0}), 0.1).dump()), "test");
  CHECK(back.figures[0].of[1].repeats == std::vector<double>{0.5, 0.6, 1.0});
  CHECK(judge(back, 0.1).size() == 1);
}
