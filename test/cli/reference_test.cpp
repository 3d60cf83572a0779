// Files of the repository that the program writes: they are what it prints.
#include <fstream>
#include <sstream>

#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench::test;
using Catch::Contains;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(MBENCH_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the reference page and the schemas are what the program prints: scripts/write-reference writes them") {
  const Room room;
  for (const auto& [path, command] :
       {std::pair{"docs/reference/fields.md", "$M help --format markdown"},
        std::pair{"schemas/fields.json", "$M help --format json"}, std::pair{"schemas/spec.json", "$M schema sweep"},
        std::pair{"schemas/search.json", "$M schema search"}}) {
    INFO(path);
    const Run run = room.shell(command);
    CHECK(run.code == 0);
    CHECK(run.out == text_of(path));
  }
}

TEST_CASE("help explains fields, and ends with 2 for what is none") {
  const Room room;
  CHECK_THAT(room.shell("$M help").out, Contains("overlap_grad_reduce"));
  const Run two = room.shell("$M help tp zero");
  CHECK_THAT(two.out, Contains("Tensor parallelism") && Contains("oss+sdp"));
  const Run none = room.shell("$M help tpp");
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("no such field, got \"tpp\""));
}
