// A check's figures: collectives and their data on ranks that are threads, who is named, and the forms of a report.
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/platform/fp64_gemm.h"
#include "engine/platform/registry.h"
#include "health/collectives.h"
#include "health/expected.h"
#include "health/figures.h"
#include "health/measure.h"
#include "health/report.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::health;
using Catch::Contains;

namespace {

std::vector<int> first(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Wrong elements on all ranks.
std::int64_t wrong_on(int ranks, const Collective& collective) {
  std::atomic<std::int64_t> wrong = 0;
  run_replicas(ranks, [&](comm::World& world) {
    const auto device = open_device("cpu", 0);
    const auto group = world.group(*device, "all", first(ranks));
    const Buffers buffers = make_buffers(*device, 210 * ranks, DType::f32, ranks);
    wrong += wrong_elements(collective, *group, *device, buffers);
  });
  return wrong;
}

Figure gemms(std::vector<double> values) {
  Figure f{.what = "f32 GEMM", .scope = "rank", .unit = "TFLOP/s"};
  for (const double v : values) f.of.push_back({{static_cast<int>(f.of.size())}, v, 1 / v, 0});
  return f;
}

Health of(Figure figure) {
  Health h;
  h.device = "cpu";
  h.hosts = {{.name = "h1", .ranks = {0, 1}}, {.name = "h2", .ranks = {2, 3}}};
  h.devices = {"GPU a", "GPU b", "GPU c", "GPU d"};
  h.figures = {std::move(figure)};
  return h;
}

}  // namespace

TEST_CASE("check: every collective brings the right data, and wrong data is counted") {
  for (const Collective& c : collectives())
    for (const int ranks : {1, 2, 3, 4}) {
      if (ranks == 1 && c.name == "send") continue;
      INFO(c.name << " of " << ranks);
      CHECK(wrong_on(ranks, c) == 0);
    }
  for (Collective c : collectives()) {
    INFO(c.name);
    const auto doing = c.call;
    c.call = [](const Buffers& b) { return comm::Collective(comm::Broadcast{b.whole.slice(0, 0), 0}); };
    CHECK(wrong_on(3, c) > 300);  // nothing was brought
    c.call = doing;
    const auto source = c.source;
    static Source (*real)(int, int, std::int64_t, std::int64_t);
    real = source;
    c.source = [](int rank, int ranks, std::int64_t each, std::int64_t i) {
      Source s = real(rank, ranks, each, i);
      if (rank == 1 && i == 5) ++s.element;
      return s;
    };
    CHECK(wrong_on(3, c) == 1);  // one element of one rank
  }
}

TEST_CASE("check: bandwidths are counted as nccl-tests does") {
  const std::map<std::string_view, double> factors = {
      {"all_reduce", 1.5}, {"all_gather", 0.75}, {"reduce_scatter", 0.75}, {"all_to_all", 0.75}, {"send", 1}};
  REQUIRE(collectives().size() == factors.size());
  for (const Collective& c : collectives()) CHECK(c.factor(4) == factors.at(c.name));
}

TEST_CASE("check: what is measured has a figure of every rank and every group") {
  std::vector<Figure> figures;
  std::mutex mutex;
  run_replicas(4, [&](comm::World& world) {
    const auto device = open_device("cpu", 0);
    MeasureOptions options;
    options.seconds = 0;
    options.sizes = {4096};
    options.fp64_gemm = fp64_gemm_on("cpu");
    auto mine = measure(*device, world, {{"all", {{0, 1, 2, 3}}}, {"pairs from 1", {{1, 2}}}}, options);
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) figures = std::move(mine);
  });
  REQUIRE(figures.size() == 6 + 5 + 5);
  CHECK(figures[3].what == "f64 GEMM");
  CHECK_FALSE(fp64_gemm_on("sim:A100-SXM4-80GB"));
  for (const Figure& f : figures) {
    INFO(f.what << " " << f.scope);
    CHECK(f.of.size() == (f.scope == "rank" ? 4u : 1u));
    for (const RankFigure& m : f.of) {
      CHECK(m.value > 0);
      CHECK(m.seconds > 0);
      CHECK(m.wrong == 0);
    }
  }
  CHECK(figures.back().of[0].ranks == std::vector<int>{1, 2});
}

TEST_CASE("check: an FP64 GEMM that is wrong is seen in every element") {
  run_replicas(1, [&](comm::World& world) {
    const auto device = open_device("cpu", 0);
    MeasureOptions options;
    options.seconds = 0;
    options.sizes = {4096};
    options.fp64_gemm = [](std::int64_t n, double value) {
      std::vector<double> c(static_cast<std::size_t>(n * n), value * value * static_cast<double>(n));
      c[7] += 1e-9;
      return Fp64Gemm{[] {}, [c] { return c; }};
    };
    const auto figures = measure(*device, world, {}, options);
    CHECK(figures.at(3).of.at(0).wrong == 1);
  });
}

TEST_CASE("check: scopes are all ranks, pairs and the axes of meshes, each once") {
  const auto names = [](const std::vector<Scope>& scopes) {
    std::string text;
    for (const Scope& s : scopes) text += (text.empty() ? "" : ", ") + s.name;
    return text;
  };
  CHECK(names(scopes_of(1, {})).empty());
  CHECK(names(scopes_of(2, {Mesh(2, 1, 1, 1)})) == "all");
  const auto scopes = scopes_of(8, {Mesh(2, 1, 2, 2), Mesh(2, 1, 4, 1, 1, 4), Mesh(16, 1, 1, 1)});
  CHECK(names(scopes) == "all, pairs, pairs from 1, dp 2, pp 2, dp 4, ep 4");  // edp lies as pp of the other mesh
  CHECK(scopes[2].groups == std::vector<std::vector<int>>{{1, 2}, {3, 4}, {5, 6}});
  CHECK(scopes[3].groups.front() == std::vector<int>{0, 2});
}

TEST_CASE("check: who is worse than the median of the others is named by host, device and rank") {
  CHECK(judge(of(gemms({10, 9.5, 10.2, 9.8})), 0.1).empty());
  const auto found = judge(of(gemms({10, 9.5, 7, 9.8})), 0.1);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "rank 2 on h2 (GPU c): f32 GEMM 7 TFLOP/s, 29 % below the median of its peers, 9.8");
  CHECK(judge(of(gemms({10, 9.5, 7, 9.8})), 0.3).empty());
  // Of a time, more is worse; a better one is none.
  Figure launch = gemms({10, 10, 15, 5});
  launch.what = "launch", launch.unit = "us", launch.rate = false;
  const auto slow = judge(of(launch), 0.1);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].of == 2);
  // Alone there is nobody to be compared with.
  CHECK(judge(of(gemms({3})), 0.1).empty());
}

TEST_CASE("check: groups are compared with those over as many hosts, wrong data is always told") {
  Figure pairs{.what = "send", .scope = "pairs", .unit = "GB/s", .bytes = 4096};
  pairs.of = {{{0, 1}, 20, 1, 0}, {{1, 2}, 2, 1, 0}, {{2, 3}, 19, 1, 3}};  // the second crosses the network
  const auto found = judge(of(pairs), 0.1);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Finding::Kind::wrong);
  CHECK(found[0].text == "ranks 2 3 on h2: send of 4.00 KiB over pairs gave 3 wrong elements");
  pairs.of[2].value = 10, pairs.of[2].wrong = 0;
  CHECK(judge(of(pairs), 0.1).size() == 1);
  pairs.judged = false;
  CHECK(judge(of(pairs), 0.1).empty());
}

TEST_CASE("check: a machine file says what is expected, which ranks of one processor share") {
  const Machine gpu = find_machine("H100-SXM5-80GB", "test");
  Health h = of(gemms({900, 900, 500, 900}));
  h.figures[0].what = "bf16 GEMM";
  Figure reduce{.what = "all_reduce", .scope = "all", .unit = "GB/s", .bytes = 1 << 28};
  reduce.of = {{{0, 1, 2, 3}, 10, 0.01, 0}};
  h.figures.push_back(reduce);
  expect(h, gpu);
  const auto bf16 = static_cast<std::size_t>(Precision::bf16);
  REQUIRE(h.figures[0].of[2].expected);
  CHECK(*h.figures[0].of[2].expected == Approx(gpu.device.peak_flops[bf16] * gpu.gemm.sustained[bf16] * 1e-12));
  // Of large buffers, the slowest link's bus bandwidth: two hosts, so the network's.
  REQUIRE(h.figures[1].of[0].expected);
  CHECK(*h.figures[1].of[0].expected > 0);
  const auto found = judge(h, 0.4);
  CHECK(std::any_of(found.begin(), found.end(), [&](const Finding& f) {
    return f.kind == Finding::Kind::below && f.text.find("what H100-SXM5-80GB says,") != std::string::npos;
  }));
  Machine cpu = gpu;
  cpu.immediate = true;
  Health shared = of(gemms({1, 1, 1, 1}));
  shared.figures[0].what = "bf16 GEMM";
  expect(shared, cpu);
  CHECK(*shared.figures[0].of[0].expected == Approx(*h.figures[0].of[0].expected / 2));  // two ranks on each host
}

TEST_CASE("check: what a machine's file estimates of its links is shown, and judges nothing") {
  Health h = of(gemms({900, 900, 900, 900}));
  Figure reduce{.what = "all_reduce", .scope = "all", .unit = "GB/s", .bytes = 1 << 28};
  reduce.of = {{{0, 1}, 0.1, 0.01, 0}};
  h.figures = {reduce};
  expect(h, "H100-SXM5-80GB", "test");  // its links were measured
  CHECK_FALSE(h.figures[0].of[0].estimated);
  CHECK(judge(h, 0.4).size() == 1);
  expect(h, "cpu", "test");
  CHECK(h.figures[0].of[0].estimated);
  CHECK(judge(h, 0.4).empty());
  const Health again = health_from_json(nlohmann::json::parse(to_json(h, 0.4).dump()), "test");
  CHECK(again.figures[0].of[0].estimated);
  CHECK_THAT(to_markdown(again, 0.4), Contains(" est. |"));
}

TEST_CASE("check: its JSON is read back, its other forms name what stands out") {
  Health h = of(gemms({10, 9.5, 7, 9.8}));
  h.machine = "some & any";
  h.figures[0].of[1].expected = 9;
  const nlohmann::ordered_json json = to_json(h, 0.1);
  CHECK(to_json(health_from_json(nlohmann::json(json), "h: $"), 0.1) == json);
  nlohmann::json earlier = json;  // as files before 0.2 name it
  earlier["figures"][0]["what"] = "f32 product";
  CHECK(health_from_json(earlier, "h: $").figures[0].what == "f32 GEMM");
  CHECK(json.at("findings").size() == 1);
  nlohmann::json damaged = nlohmann::json(json);
  damaged["figures"][0]["of"][1]["value"] = "fast";
  CHECK_THROWS_WITH(health_from_json(damaged, "h: $"), Contains("h: $.figures[0].of[1].value"));
  CHECK_THAT(to_markdown(h, 0.1), Contains("rank 2 on h2") && Contains("29 % below"));
  CHECK_THAT(to_markdown(h, 0.5), Contains("Nothing is more than 50 % worse"));
  const std::string junit = to_junit(h, 0.1);
  CHECK_THAT(junit, Contains("tests=\"1\" failures=\"1\"") &&
                        Contains("<failure type=\"slow\" message=\"rank 2 on h2 (GPU c)"));
  CHECK_THAT(to_junit(h, 0.5), Contains("failures=\"0\""));
}
