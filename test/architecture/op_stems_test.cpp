// An op has one stem: its files have the same name in the ops, in each backend and in the tests.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/catch.h"

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = MBENCH_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("an op's files have one stem: the op, the CPU's, the GPU's, its cases") {
  int ops = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "engine/ops")) {
    const std::string header = text_of(entry.path()), stem = entry.path().stem().string();
    if (header.find("static constexpr std::string_view name = ") == std::string::npos) continue;
    CAPTURE(stem);
    ++ops;
    CHECK(text_of(kRoot / "engine/ops/ops.h").find("\"engine/ops/" + stem + ".h\"") != std::string::npos);
    CHECK(fs::exists(kRoot / "engine/backend/cpu" / (stem + ".cpp")));
    // A library's work has a room of its own, with kernels or without.
    const fs::path cuda = kRoot / "engine/backend/cuda", own = cuda / stem;
    CHECK((fs::exists(cuda / "kernels" / (stem + ".cuh")) || fs::exists(own / (stem + ".cuh")) ||
           fs::exists(own / (stem + ".cpp"))));
    const fs::path cases_file = kRoot / "test/ops" / (stem + "_cases.cpp");
    CHECK(fs::exists(cases_file));
    const std::string cases = text_of(cases_file);
    // Each of the header's ops has its list there, not in another's file.
    for (std::size_t at = header.find("\nstruct "); at != std::string::npos; at = header.find("\nstruct ", at + 1)) {
      const std::size_t begin = at + 8, end = header.find_first_of(" {;", begin);
      const std::string op = header.substr(begin, end - begin);
      const std::size_t close = header.find("\n};", at);
      if (header.substr(at, close - at).find("std::string_view name = ") == std::string::npos) continue;
      CAPTURE(op);
      CHECK((cases.find("Cases<ops::" + op + ">") != std::string::npos ||
             cases.find("Cases<" + op + ">") != std::string::npos));
    }
  }
  CHECK(ops > 10);
}
