// mbench check, from its command line.
#include <nlohmann/json.hpp>
#include <regex>

#include "engine/point/result_file.h"
#include "health/figures.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {
const std::string kQuick = "export OMP_NUM_THREADS=1; ";

health::Health read_health(const std::string& path) {
  return health::health_from_json(nlohmann::json(parse_json(read_text_file(path), path)), path + ": $");
}
}  // namespace

TEST_CASE("check: ranks of its own and of a launcher, over all and over the axes of a spec") {
  const Room room;
  const Run run =
      room.shell(kQuick + "$M check tiny.json --ranks 2 --on cpu --largest 64KiB --tolerance 99% --result c.json");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.out, Contains("# Check of 2 ranks (cpu)") && Contains("| bf16 GEMM") && Contains("| all_to_all"));
  const health::Health health = read_health(room / "c.json");
  CHECK(health.devices.size() == 2);
  REQUIRE(health.hosts.size() == 1);
  CHECK(health.hosts[0].ranks == std::vector<std::int64_t>{0, 1});
  CHECK(health.figures.size() == 6 + 5 * 2);
  CHECK(health.figures.at(3).what == "f64 GEMM");
  for (const health::Figure& f : health.figures)
    for (const health::RankFigure& m : f.of) CHECK(m.wrong == 0);
  const Run junit = room.shell("$M report c.json --format junit");
  CHECK(junit.code == 0);
  CHECK_THAT(junit.out, Contains("<testsuites name=\"mbench check\"") && Contains("name=\"f64 GEMM\""));
  const Run page = room.shell("$M report c.json --format html --out c.html");
  CHECK(page.code == 0);
  const std::string html = read_text_file(room / "c.html");
  CHECK_THAT(html, Contains("<h2>c.json</h2>") && Contains("<th scope=row>f64 GEMM</th>") &&
                       Contains("<th scope=row>all_reduce</th>"));
  CHECK(room.shell("$M report c.json --format csv").code == 2);
  const Run same = room.shell("$M compare c.json --baseline c.json --format junit");
  CHECK(same.code == 0);
  CHECK_THAT(same.out, Contains("<testsuites name=\"mbench compare\"") && Contains("failures=\"0\""));
  CHECK(room.shell("$M check --fleet c.json --result f.json").code == 0);
  CHECK_THAT(room.shell("$M report f.json --format junit").out, Contains("<testsuites name=\"mbench fleet\""));
  CHECK_THAT(room.shell("$M report f.json c.json --format html").out, Contains("a fleet of 1 node."));
  const Run alone = room.shell(kQuick + "$M check --on cpu --largest 4KiB --format junit --quiet");
  INFO(alone.out << alone.err);
  CHECK(alone.code == 0);
  CHECK_THAT(alone.out, Contains("<testsuites name=\"mbench check\" tests=\"6\" failures=\"0\""));
}

#ifdef MBENCH_SLOW_RANK
TEST_CASE("check: a slow rank is named, exit code 1, and a sweep with --check trains nothing") {
  const Room room;
  const std::string slow = kQuick + "export LD_PRELOAD=" + MBENCH_SLOW_RANK + " SLOW_RANK=1 SLOW_FOR_MS=3; ";
  const Run run = room.shell(slow + "$M check --ranks 2 --on cpu --largest 4KiB --tolerance 30%");
  INFO(run.out << run.err);
  CHECK(run.code == 1);
  CHECK_THAT(run.out, Contains("- rank 1 on ") && Contains("f32 GEMM"));
  // A launch takes under a microsecond: what else the machine does decides it, not the product of 1024 x 1024.
  CHECK_FALSE(std::regex_search(run.out, std::regex("- rank 0 on [^:]*: (f32|bf16|f16) GEMM")));
  const Run sweep =
      room.shell(slow + "$M sweep tiny.json --filter strategy=full --on cpu --check --check-tolerance 30% --out o");
  INFO(sweep.out << sweep.err);
  CHECK(sweep.code == 1);
  CHECK_THAT(sweep.err, Contains("nothing was trained"));
  CHECK(read_health(room / "o/check.json").figures.size() > 5);
  CHECK_FALSE(std::filesystem::exists(room / "o/results.json"));
}
#endif

TEST_CASE("check: a sweep whose ranks are alike goes on, and keeps what was checked") {
  const Room room;
  const Run run =
      room.shell(kQuick + "$M sweep tiny.json --filter strategy=full --on cpu --check --check-tolerance 99% --out o");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  CHECK(read_health(room / "o/check.json").devices.size() == 2);
  const ResultFile file = read_result_file(room / "o/results.json");
  CHECK(file.points.size() == 2);
  CHECK_THAT(file.environment.at("check").get<std::string>(), Contains("2 ranks, none more than 99 % worse"));
}

TEST_CASE("check: what cannot be is said before anything is measured") {
  const Room room;
  const std::pair<const char*, const char*> lines[] = {
      {"$M check --tolerance 200%", "[--tolerance] not a share between 0 and 1, got \"200%\""},
      {"$M check --mesh tp=2,xp=2", "[--mesh] not the size of an axis, got \"xp=2\""},
      {"$M check --expect nothing", "--expect"},
      {"$M check missing.json", "missing.json"},
      {"$M sweep tiny.json --on sim:2xcpu --check", "a simulation has no ranks to check"}};
  for (const auto& [line, says] : lines) {
    const Run run = room.shell(line);
    INFO(line << "\n" << run.out << run.err);
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains(says));
  }
}
