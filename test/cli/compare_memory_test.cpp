// mbench compare --memory: what is said of two specs and of recorded rows, against plans and rows.
#include <nlohmann/json.hpp>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr const char* kSpec = R"({"model": "gpt-bytes-3m", "seq": 64, "micro_batch": 2, "global_batch": 4, "dp": 2,
  "precision": "bf16", "framework": "megatron-core", "iterations": 2, "warmup": 1)";

json compared(const Room& room, const std::string& args) {
  const Run run = room.shell("$M compare --format json --memory " + args);
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  return json::parse(run.out);
}

std::int64_t sum_of(const json& comparison) {
  std::int64_t sum = 0;
  for (const json& change : comparison.at("changes")) sum += change.at("bytes").get<std::int64_t>();
  return sum;
}

std::int64_t between(const json& comparison) {
  return comparison.at("b").at("bytes").get<std::int64_t>() - comparison.at("a").at("bytes").get<std::int64_t>();
}

const json& change_of(const json& comparison, const std::string& tensor) {
  for (const json& change : comparison.at("changes"))
    if (change.at("tensor") == tensor) return change;
  FAIL("no " << tensor << " in " << comparison.dump(1));
  return comparison;
}

}  // namespace

TEST_CASE("compare --memory: one spec with one field changed") {
  const Room room;
  room.put("a.json", std::string(kSpec) + "}");
  const json full = compared(room, "a.json a.json --set recompute=full");
  CHECK(sum_of(full) == between(full));
  CHECK(between(full) < 0);
  CHECK_FALSE(full.at("by_name").get<bool>());
  const json& input = change_of(full, "linear output");
  CHECK((input.at("change") == "went" || input.at("change") == "shrank"));
  CHECK(input.at("category") == "activations");
  CHECK(input.at("a").at("dtype") == "bf16");
  CHECK_THAT(input.at("a").at("where").get<std::string>(), Contains("layers 0-"));

  // 8 bytes a parameter, of both moments.
  const json moments = compared(room, "a.json a.json --set offload=moments");
  CHECK(sum_of(moments) == between(moments));
  for (const char* moment : {"Adam first moment", "Adam second moment"}) {
    CHECK(change_of(moments, moment).at("change") == "went");
    CHECK(change_of(moments, moment).at("bytes").get<std::int64_t>() <= -4 * 3487232);
    CHECK(change_of(moments, moment).at("b").is_null());
  }

  // A larger micro batch: tensors grow with it, and none comes under another name.
  const json larger = compared(room, "a.json a.json --set micro_batch=1");
  for (const json& change : larger.at("changes")) CHECK(change.at("change") == "shrank");

  const Run text = room.shell("$M compare --memory a.json a.json --set recompute=full");
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("## Memory at the peak: ") && Contains("| activations |") && Contains("| shrank |") &&
                           Contains("| linear output |"));
  CHECK_THAT(room.shell("$M compare --memory a.json a.json").out, Contains("as many bytes as before"));
}

TEST_CASE("compare --memory: rows of results, by this version's plan or by their names") {
  const Room room;
  room.put("s.json", std::string(kSpec) + R"(, "sweep": {"recompute": ["none", "full"]}})");
  const Run swept = room.shell("$M sweep s.json --out o --quiet --on sim:2xA100-SXM4-80GB");
  INFO(swept.out << swept.err);
  REQUIRE(swept.code == 0);
  const Run two = room.shell("$M compare --memory o o");
  CHECK(two.code == 2);
  CHECK_THAT(two.err, Contains("[--memory] compares one point of each, got 2 of") && Contains("need --filter"));

  const json same = compared(room, "o o --filter recompute=none --set recompute=full");
  CHECK_FALSE(same.at("by_name").get<bool>());
  ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() == 2);
  for (const std::size_t i : {0, 1}) {
    double sum = 0;
    for (const PeakTensor& t : file.points[i].peak_tensors_mib) sum += t.mib * 1048576;
    CHECK(same.at(i == 0 ? "a" : "b").at("bytes").get<double>() == Approx(sum));
  }

  // As another version recorded it.
  file.points.resize(1);
  file.points[0].peak_tensors_mib[0].mib += 1;
  room.put("old.json", result_file_text(file));
  const json by_name = compared(room, "old.json o --filter recompute=none");
  CHECK(by_name.at("by_name").get<bool>());
  REQUIRE(by_name.at("changes").size() == 1);
  CHECK(by_name.at("changes")[0].at("tensor") == file.points[0].peak_tensors_mib[0].name);
  CHECK(by_name.at("changes")[0].at("bytes") == -1048576);
}

TEST_CASE("compare --memory: what is not two runs is refused") {
  const Room room;
  room.put("a.json", std::string(kSpec) + "}");
  const auto refused = [&](const std::string& args, const std::string& why) {
    const Run run = room.shell("$M compare " + args);
    INFO(args << "\n" << run.err);
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains(why));
  };
  refused("", "[NEW] nothing to judge, need a result file or --memory A B");
  refused("a.json", "[--baseline] nothing to judge a.json by");
  refused("a.json --baseline a.json --set dp=1", "[--set] is of --memory A B");
  refused("a.json --memory a.json a.json", "[--memory] compares A with B, got NEW too");
  refused("--memory a.json a.json --format junit", "[--format] of --memory, got \"junit\", need md or json");
  refused("--memory a.json none.json", "none.json");
}
