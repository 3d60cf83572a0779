// mbench cost: of a spec on a simulated machine and of its results, with what is not given unknown.
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
using nlohmann::json;

namespace {

void put_spec(const Room& room) {
  room.put(
      "s.json",
      R"({"name": "small", "model": "gpt2-345m", "seq": 1024, "precision": "bf16", "micro_batch": 4, "global_batch": 64, "dp": 8})");
}

constexpr const char* kOn = " --on sim:8xH100-SXM5-80GB ";

}  // namespace

TEST_CASE("cost of a spec and of the results of its sweep is the same, and adds up") {
  const Room room;
  put_spec(room);
  const std::string asked =
      " --tokens 30B --price 2 --mtbf 1000h --restart 10min --checkpoint-bandwidth 2GB/s --watts 1000 --json";
  const Run simulated = room.shell("$M cost s.json" + std::string(kOn) + asked);
  INFO(simulated.err);
  REQUIRE(simulated.code == 0);
  REQUIRE(room.shell("$M sweep s.json --quiet --out o" + std::string(kOn)).code == 0);
  const Run read = room.shell("$M cost o" + asked);
  INFO(read.err);
  REQUIRE(read.code == 0);
  const json a = json::parse(simulated.out).at(0), b = json::parse(read.out).at(0);
  for (const auto& [key, value] : a.items())
    if (key != "label") CHECK(b.at(key) == value);
  CHECK(a.at("simulated") == true);
  CHECK(a.at("steps") == json::array({457764, 457764}));  // 30e9 tokens of 65,536
  CHECK(a.at("job_mtbf_s").at(0) == 1000 * 3600 / 8);
  const double elapsed = a.at("elapsed_s").at(0), work = a.at("training_s").at(0);
  CHECK(work == Approx(457764 * a.at("step_s").get<double>()));
  CHECK(a.at("goodput").at(0).get<double>() == Approx(work / elapsed));
  CHECK(a.at("device_hours").at(0).get<double>() == Approx(8 * elapsed / 3600));
  CHECK(a.at("money").at(0).get<double>() == Approx(2 * 8 * elapsed / 3600));
  CHECK(a.at("joules").at(0).get<double>() == Approx(8000 * elapsed));
  CHECK(b.at("label") == "gpt2-345m");
  CHECK(a.at("joules_of") == "all that --watts counts");
  // 14 bytes a parameter: 2 of the weights, 4 of their originals, 8 of Adam's moments.
  const double parameters = 354871296;  // of a vocabulary that is padded to 50,304
  CHECK(a.at("checkpoint_bytes").get<double>() == 14 * parameters);
}

TEST_CASE("cost says which input an unknown figure needs, and is a range where an input is one") {
  const Room room;
  put_spec(room);
  const Run bare = room.shell("$M cost s.json --tokens 30B" + std::string(kOn));
  REQUIRE(bare.code == 0);
  CHECK_THAT(bare.out, Contains("goodput            unknown, need --mtbf, --checkpoint-bandwidth and --restart"));
  CHECK_THAT(bare.out, Contains("money              unknown, need --price"));
  const Run never =
      room.shell("$M cost s.json --tokens 30B --mtbf 10s --restart 1h --checkpoint-bandwidth 1GB/s" + std::string(kOn));
  CHECK_THAT(never.out, Contains("elapsed            more than 1000 years") && Contains("it hardly comes on, need"));
  CHECK_THAT(bare.out, Contains("Wh, only of the devices in training"));
  json machine = json::parse(read_text_file(MBENCH_SOURCE_DIR "/engine/sim/machines/L4.json"));
  machine["device"].erase("watts");
  room.put("bare.json", machine.dump());
  const Run unknown = room.shell("$M cost s.json --tokens 30B --on sim:8x./bare.json");
  CHECK_THAT(unknown.out, Contains("energy             unknown, need --watts"));
  CHECK_THAT(bare.out, Contains(", without failures"));
  CHECK_THAT(bare.out, Contains("(simulated)"));
  const Run range = room.shell("$M cost s.json --tokens 30B..60B --price 1.9..2.5" + std::string(kOn));
  REQUIRE(range.code == 0);
  CHECK_THAT(range.out, Contains("steps              457764 to 915528"));
}

TEST_CASE("cost refuses what it cannot know, and a point that cannot run is a row") {
  const Room room;
  put_spec(room);
  const Run spec = room.shell("$M cost s.json --tokens 1T");
  CHECK(spec.code == 2);
  CHECK_THAT(spec.err, Contains("need --on sim:<N>x<MACHINE>, or a result file"));
  const Run unit = room.shell("$M cost s.json --tokens 1X" + std::string(kOn));
  CHECK(unit.code == 2);
  CHECK_THAT(unit.err, Contains("[--tokens]") && Contains("a number and K, M, B or T"));
  const Run oom = room.shell("$M cost s.json --tokens 1T --set memory_limit=64MiB" + std::string(kOn));
  CHECK(oom.code == 3);
  CHECK_THAT(oom.out, Contains("oom: "));
}
