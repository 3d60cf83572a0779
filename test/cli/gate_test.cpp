// The gate as CI uses it: compare, baseline and trend from the command line, on results made by hand.
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/spent.h"
#include "test/support/pace.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

ResultFile result(double factor, const std::string& started, const std::string& revision, int points = 3) {
  ResultFile file;
  file.spec = {{"name", "gate"}, {"sweep", {{"seq", {32, 64, 96}}}}};
  file.environment = {{"host", "a"},        {"cpu", "A CPU"},          {"cores", 2},
                      {"device", "cpu"},    {"mpi", "Open MPI 4"},     {"flop_formula_version", 1},
                      {"started", started}, {"git_revision", revision}};
  std::mt19937_64 random(std::hash<std::string>()(started));
  std::normal_distribution<double> noise(1, 0.01);
  for (int p = 0; p < points; ++p) {
    PointResult r;
    r.point.model = find_preset("gpt-bytes-tiny", "test");
    r.point.seq = 32 * (p + 1);
    r.id = point_id(r.point);
    r.device = "A CPU";
    std::vector<double> samples;
    for (int i = 0; i < 30; ++i) samples.push_back(100 * factor * noise(random));
    r.iteration_ms = statistics_of(samples);
    r.peak_memory_mib = 10 + p;
    r.losses = {5.5, 5.4};
    file.points.push_back(r);
  }
  return file;
}

}  // namespace

TEST_CASE("compare's exit code and formats, from the command line") {
  const Room room;
  write_result_file(room / "old.json", result(1, "2026-01-01T00:00:00Z", "a"));
  write_result_file(room / "new.json", result(1, "2026-01-02T00:00:00Z", "b"));
  write_result_file(room / "slow.json", result(1.07, "2026-01-03T00:00:00Z", "c"));
  CHECK(room.shell("$M compare new.json --baseline old.json").code == 0);
  const Run slow = room.shell("$M compare slow.json --baseline old.json");
  CHECK(slow.code == 1);
  CHECK_THAT(slow.out, Contains("% slower: all 3 points; A CPU, 2 cores, c against a\n") && Contains("<details>"));
  CHECK(room.shell("$M compare slow.json --baseline old.json --metric memory").code == 0);
  CHECK(room.shell("$M compare slow.json --confirm new.json --baseline old.json").code == 0);
  CHECK(room.shell("$M compare slow.json --confirm slow.json --baseline old.json").code == 1);
  const Run junit = room.shell("$M compare slow.json --baseline old.json --format junit");
  CHECK(junit.code == 1);
  CHECK_THAT(junit.out, Contains("tests=\"9\" failures=\"3\""));
  const Run json = room.shell("$M compare slow.json --baseline old.json --format json");
  CHECK(nlohmann::json::parse(json.out).at("regression") == true);
  write_result_file(room / "less.json", result(1, "2026-01-04T00:00:00Z", "d", 2));
  CHECK(room.shell("$M compare less.json --baseline old.json").code == 0);
  CHECK(room.shell("$M compare less.json --baseline old.json --fail-on missing").code == 1);
  for (const std::string bad : {"--format xml", "--metric tme", "--threshold time=5", "--fail-on slow", "--at abc",
                                "--against oldest", "--against oldst", "--budget loss=5%"}) {
    INFO(bad);
    const Run run = room.shell("$M compare new.json --baseline old.json " + bad);
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains(bad.substr(0, bad.find(' '))));
  }
}

TEST_CASE("the folder of a sweep stands for its results.json") {
  const Room room;
  fs::create_directory(room / "old");
  fs::create_directory(room / "slow");
  write_result_file(room / "old/results.json", result(1, "2026-01-01T00:00:00Z", "a"));
  ResultFile slow = result(1.07, "2026-01-03T00:00:00Z", "c");
  slow.spec["model"] = "gpt-bytes-tiny";
  write_result_file(room / "slow/results.json", slow);
  for (const char* comparison : {"slow --baseline old", "slow/ --baseline old/results.json --confirm slow"}) {
    const Run run = room.shell(std::string("$M compare ") + comparison);
    CHECK(run.code == 1);
    CHECK_THAT(run.out, Contains("% slower: all 3 points"));
  }
  CHECK(room.shell("$M report slow").out == room.shell("$M report slow/results.json").out);
  CHECK_THAT(room.shell("$M report slow").out, Contains("gpt-bytes-tiny"));
  const Run plan = room.shell("$M plan slow");
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("seq=96"));
  CHECK(room.shell("$M baseline add old --dir b").code == 0);
  CHECK(room.shell("$M compare slow --baseline b").code == 1);  // a folder of baselines is still one
}

TEST_CASE(
    "files that are cut, empty, foreign, not finite or hold a point twice end with exit code 2 and stay as "
    "they are") {
  const Room room;
  const ResultFile good = result(1, "2026-01-01T00:00:00Z", "a");
  write_result_file(room / "good.json", good);
  const std::string text = read_text_file(room / "good.json");
  ResultFile twice = good;
  twice.points.push_back(twice.points[0]);
  write_result_file(room / "twice.json", twice);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string copy = text;
    REQUIRE(copy.find(from) != std::string::npos);
    return copy.replace(copy.find(from), from.size(), to);
  };
  const std::pair<std::string, std::string> cases[] = {
      {text.substr(0, text.size() / 2), "cut short"},
      {"", "the file is empty"},
      {with("mbench.results/1", "mbench.results/2"), "$.schema] another schema"},
      {with("\"samples\": [", "\"samples\": [NaN,"), "not JSON at byte"},
      {with("\"samples\": [", "\"samples\": [null,"), "$.points[0].iteration_ms.samples[0]]"},
      {read_text_file(room / "twice.json"), "$.points[3].id] stands twice"},
  };
  for (const auto& [content, message] : cases) {
    std::ofstream(room / "bad.json") << content;
    for (const std::string command : {"compare bad.json --baseline good.json", "compare good.json --baseline bad.json",
                                      "baseline add bad.json --dir stored"}) {
      INFO(command << ": " << message);
      const Run run = room.shell("$M " + command);
      CHECK(run.code == 2);
      CHECK(run.out.empty());
      CHECK_THAT(run.err, Contains("bad.json") && Contains(message));
      CHECK(read_text_file(room / "bad.json") == content);
      CHECK_FALSE(fs::exists(room / "stored"));
    }
  }
}

TEST_CASE("a baseline's life: add, compare with the folder, list, show, trend, rm") {
  const Room room;
  for (int i = 1; i <= 9; ++i) {
    const std::string date = "2026-01-0" + std::to_string(i) + "T00:00:00Z", name = "r" + std::to_string(i);
    write_result_file(room / (name + ".json"), result(i < 6 ? 1 : 1.1, date, name));
    const Run add = room.shell("$M baseline add " + name + ".json");
    INFO(add.err);
    REQUIRE(add.code == 0);
    CHECK_THAT(add.out, Contains("baselines/a-cpu-2-cores-"));
  }
  write_result_file(room / "now.json", result(1.1, "2026-02-01T00:00:00Z", "now"));
  CHECK(room.shell("$M compare now.json --baseline baselines").code == 0);
  CHECK(room.shell("$M compare now.json --baseline baselines --at r3").code == 1);
  CHECK(room.shell("$M compare now.json --baseline baselines --at none").code == 2);
  // Against an entry that is not named by its revision, and with a budget since it.
  CHECK(room.shell("$M compare now.json --baseline baselines --against best").code == 1);
  const Run oldest = room.shell("$M compare now.json --baseline baselines --against oldest");
  CHECK(oldest.code == 1);
  CHECK_THAT(oldest.out, Contains("% slower: all 3 points; A CPU, 2 cores, now against r1\n") &&
                             Contains("    mbench baseline add now.json --dir baselines\n"));
  CHECK(room.shell("$M compare now.json --baseline baselines --against pinned").code == 2);
  const Run budget = room.shell("$M compare now.json --baseline baselines --budget time=5%");
  CHECK(budget.code == 1);
  CHECK_THAT(budget.out, Contains("over the budget of 5 % since r1 (2026-01-01)") &&
                             Contains("    mbench baseline pin --dir baselines\n"));
  CHECK(room.shell("$M baseline pin --revision r7").code == 0);
  CHECK(room.shell("$M compare now.json --baseline baselines --budget time=5% --against pinned").code == 0);
  CHECK_THAT(room.shell("$M baseline show").out, Contains("r7, pinned"));
  CHECK(room.shell("$M baseline unpin").code == 0);
  CHECK(room.shell("$M baseline pin --revision none").code == 2);
  CHECK(room.shell("$M compare now.json --baseline r1.json --budget time=5%").code == 2);
  const Run list = room.shell("$M baseline list");
  CHECK_THAT(list.out, Contains("| seq 64") && Contains("|       9 | 2026-01-09T00:00:00Z | r9"));
  const Run trend = room.shell("$M trend");
  CHECK(trend.code == 0);
  CHECK_THAT(trend.out, Contains(" at r6 (2026-01-06T00:00:00Z): 100") && Contains("█"));
  CHECK(nlohmann::json::parse(room.shell("$M trend --format json").out).at("trends").size() == 3);
  CHECK(room.shell("$M trend --metric tme").code == 2);
  const std::string id = result(1, "", "").points[0].id;
  CHECK_THAT(room.shell("$M baseline show --point " + id).out, Contains("mpi Open MPI 4"));
  CHECK(room.shell("$M baseline rm").code == 2);
  CHECK(room.shell("$M baseline rm --revision r1 --point " + id).out == "1 entry removed\n");
  CHECK(room.shell("$M baseline rm --before 2027").code == 0);
  CHECK(room.shell("$M baseline list").code == 2);
  CHECK(room.shell("$M trend").code == 2);
  CHECK(room.shell("$M trend --dir nowhere").code == 2);
}

TEST_CASE("10,000 points are read and compared in seconds") {
  const Room room;
  constexpr int kPoints = kSanitized ? 500 : 10000;  // where no time is held, fewer will do
  write_result_file(room / "a.json", result(1, "2026-01-01T00:00:00Z", "a", kPoints));
  REQUIRE(room.shell("sed 's/2026-01-01T00/2026-01-02T00/' a.json >b.json && ! cmp -s a.json b.json").code == 0);
  const double seconds = idle_seconds([&] {
    const Spent spent = spend(room, {"compare", "b.json", "--baseline", "a.json"});
    CHECK(spent.code == 0);
    return spent.cpu_seconds;
  });
  WARN(kPoints << " points of 30 samples, read and compared in " << seconds << " s of an idle machine");
#ifdef NDEBUG
  CHECK(seconds < 4);
#endif
}

TEST_CASE("gate: times of a starved run are no baseline unless they are forced, and stay flagged") {
  const Room room;
  ResultFile starved = result(1, "2026-01-01T00:00:00Z", "a", 2);
  for (PointResult& p : starved.points) p.cpu_share_by_rank = {0.47};
  write_result_file(room / "old.json", starved);
  write_result_file(room / "new.json", result(1, "2026-01-02T00:00:00Z", "b", 2));
  const Run refused = room.shell("$M baseline add old.json --dir b");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("2 times are not of an undisturbed machine") &&
                              Contains("rank 0 had a core for 47 %") && Contains("--force"));
  CHECK_FALSE(fs::exists(room / "b"));
  CHECK(room.shell("$M baseline add old.json --dir b --metric memory,loss").code == 0);
  CHECK(room.shell("$M baseline add old.json --dir f --force").code == 0);
  CHECK_THAT(room.shell("$M baseline show --dir f").out, Contains("| starved"));
  CHECK_THAT(room.shell("$M compare new.json --baseline f").out,
             Contains("baseline: starved: rank 0 had a core for 47 %"));
}

TEST_CASE(
    "gate: an environment variable is compared where it may differ, and other points of a store are named by their "
    "field") {
  const Room room;
  ResultFile old = result(1, "2026-01-01T00:00:00Z", "a", 1), now = result(1, "2026-01-02T00:00:00Z", "b", 1);
  now.points[0].point.env = {{"NCCL_ALGO", "Tree"}};
  now.points[0].id = point_id(now.points[0].point);
  write_result_file(room / "old.json", old);
  write_result_file(room / "new.json", now);
  CHECK(room.shell("$M compare new.json --baseline old.json").code == 2);
  CHECK_THAT(room.shell("$M compare new.json --baseline old.json").err,
             Contains("env is ") && Contains("need --allow-different env"));
  const Run allowed = room.shell("$M compare new.json --baseline old.json --allow-different env");
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.out, Contains("- env: NCCL_ALGO=Tree, was none, as --allow-different has it"));
  CHECK(room.shell("$M baseline add old.json --dir b").code == 0);
  CHECK_THAT(room.shell("$M compare new.json --baseline b").err,
             Contains("has other points of this machine: env is NCCL_ALGO=Tree here and none there"));
  CHECK(room.shell("$M compare new.json --baseline b --allow-different env").code == 0);
  CHECK_THAT(room.shell("$M compare new.json --baseline b --allow-different envv").err,
             Contains("did you mean \"env\"?"));
  CHECK_THAT(room.shell("$M compare new.json --baseline b --allow-different model").err,
             Contains("[--allow-different] got model"));
}

TEST_CASE("gate: a baseline that is not there is said, with the command that makes one") {
  const Room room;
  write_result_file(room / "new.json", result(1, "2026-01-02T00:00:00Z", "b", 1));
  const Run none = room.shell("$M compare new.json --baseline b");
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("[b] is not there, need ") && Contains("(mbench baseline add new.json --dir b)"));
}

TEST_CASE("gate: a page of two results says which they are, on what machine, and the verdicts") {
  const Room room;
  write_result_file(room / "old.json", result(1, "2026-01-01T00:00:00Z", "a", 1));
  write_result_file(room / "new.json", result(1.5, "2026-01-02T00:00:00Z", "b", 1));
  const Run page = room.shell("$M report --compare new.json old.json");
  INFO(page.err);
  CHECK(page.code == 0);
  CHECK_THAT(page.out, Contains(" % slower") && Contains("new.json against old.json; ") && Contains("b against a") &&
                           Contains("<h2>Verdicts</h2>"));
}
