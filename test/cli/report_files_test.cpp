// mbench report of files that are not as they should be: a message with the file and place, exit code 2,
// nothing on standard output and no file touched.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

struct Folder : test::TemporaryFolder {
  void put(const std::string& name, std::string_view text) const {
    std::ofstream(path / name, std::ios::binary) << text;
  }
  // Its exit code; standard output is left in "out", the messages in "err".
  int report(const std::string& arguments) const {
    const std::string line =
        "cd '" + path.string() + "' && '" MBENCH_BINARY "' report " + arguments + " >out 2>err </dev/null";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

std::string result_text() {
  ResultFile file;
  file.spec = {{"name", "x"}};
  file.environment = {{"host", "h"}};
  for (const std::int64_t seq : {64, 128}) {
    PointResult r;
    r.point.model = find_preset("gpt-bytes-tiny", "test");
    r.point.seq = seq;
    r.id = point_id(r.point);
    r.iteration_ms = statistics_of({1.25, 1.5});
    r.losses = {5.5, 5.25};
    file.points.push_back(r);
  }
  const Folder folder;
  write_result_file(folder / "r.json", file);
  return read_text_file(folder / "r.json");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a result file that is not one is refused by report with its place") {
  const Folder folder;
  const std::string good = result_text();
  folder.put("good.json", good);
  REQUIRE(folder.report("good.json") == 0);
  REQUIRE_THAT(read_text_file(folder / "out"), Contains("| ok "));
  const std::string first = R"("seq": 64)";
  const struct {
    std::string text, message;
  } cases[] = {
      {"", "[bad.json] the file is empty, need JSON"},
      {" \n", "[bad.json] the file is empty, need JSON"},
      {good.substr(0, good.size() / 2), fmt::format("[bad.json] cut short: the file ends at byte {}", good.size() / 2)},
      {good.substr(0, good.size() - 3), "[bad.json] cut short: the file ends at byte"},
      {good + "{", "[bad.json] not JSON at byte"},
      {replaced(good, "mbench.results/1", "mbench.results/2"),
       "[bad.json: $.schema] another schema, got \"mbench.results/2\", need \"mbench.results/1\""},
      {replaced(good, "mbench.results/1", "mbench.report/1"), "[bad.json: $.schema] another schema"},
      {R"({"nccl": [1, 2]})", "[bad.json: $] \"schema\" is missing"},
      {"size time algbw\n1024 1.5 0.7\n", "[bad.json] not JSON at byte 0"},
      {replaced(good, "1.25", "NaN"), "[bad.json] not JSON at byte"},
      {replaced(good, "\"mean\": 1.375", "\"mean\": null"),
       "[bad.json: $.points[0].iteration_ms.mean] wrong type, got null"},
      {replaced(good, "\"samples\": [\n", "\"samples\": [null,"),
       "[bad.json: $.points[0].iteration_ms.samples[0]] wrong type, got null"},
      {replaced(good, "1.25,", "1e999,"), "[bad.json]"},
      {replaced(good, "\"samples\": [\n", "\"samples\": [-1.25,"),
       "[bad.json: $.points[0].iteration_ms.samples[0]] out of range, got -1.25"},
      {replaced(good, first, first + ", " + first), "[bad.json: $.points] the key \"seq\" stands twice"},
  };
  for (const auto& c : cases) {
    folder.put("bad.json", c.text);
    CHECK(folder.report("bad.json") == 2);
    CHECK_THAT(read_text_file(folder / "err"), Contains(c.message));
    CHECK(fs::file_size(folder.path / "out") == 0);
    CHECK(folder.report("good.json bad.json --format csv") == 2);  // nothing of the good one either
    CHECK(fs::file_size(folder.path / "out") == 0);
    CHECK(read_text_file(folder / "bad.json") == c.text);
  }
  CHECK(read_text_file(folder / "good.json") == good);
}

TEST_CASE("points that stand twice are refused by their ids") {
  const Folder folder;
  auto file = nlohmann::ordered_json::parse(result_text());
  file["points"].push_back(file["points"][0]);
  folder.put("twice.json", file.dump());
  CHECK(folder.report("twice.json") == 2);
  CHECK_THAT(read_text_file(folder / "err"),
             Contains("[twice.json: $.points[2].id] stands twice") && Contains("$.points[0]"));
  // In another order of keys, which the general parser reads, the message is the same.
  nlohmann::json sorted = file;
  folder.put("twice.json", sorted.dump());
  CHECK(folder.report("twice.json") == 2);
  CHECK_THAT(read_text_file(folder / "err"), Contains("[twice.json: $.points[2].id] stands twice"));
}

TEST_CASE("a NaN among the losses, stored as null, is a row and no mistake") {
  const Folder folder;
  folder.put("r.json", replaced(result_text(), "5.25", "null"));
  CHECK(folder.report("r.json --table all") == 0);
  CHECK_THAT(read_text_file(folder / "out"), Contains("n/a"));
}
