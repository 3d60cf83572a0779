// A room's names stand in the room's namespace, so that a name says where it is at home.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "test/catch.h"

namespace fs = std::filesystem;

namespace {

struct Room {
  std::string folder, space;
};

// The words that all rooms share are in mbench. engine/run is there too: `run` is what every op goes through (engine/ops/run.h).
const std::vector<Room> kRooms = {
    {"engine/base", "mbench"},
    {"engine/framework", "mbench"},
    {"engine/point", "mbench"},
    {"engine/device", "mbench"},
    {"engine/plan", "mbench"},
    {"engine/run", "mbench"},
    {"engine/process", "mbench::process"},
    {"engine/ops", "mbench::ops"},
    {"engine/backend/cpu", "mbench::cpu"},
    {"engine/backend/cuda", "mbench::cuda"},
    {"engine/comm", "mbench::comm"},
    {"engine/nn", "mbench::nn"},
    {"engine/model", "mbench::model"},
    {"engine/train", "mbench::train"},
    {"engine/sim", "mbench::sim"},
    {"engine/platform", "mbench::platform"},
    {"strategies", "mbench::strategies"},
    {"search", "mbench::search"},
    {"sweeps", "mbench::sweeps"},
    {"formats", "mbench::formats"},
    {"reports", "mbench::reports"},
    {"health", "mbench::health"},
    {"explain", "mbench::explain"},
    {"cli", "mbench::cli"},
    {"api", "mbench::api"},
};

// Sources that define what stands in another namespace, with the reason.
const std::vector<std::pair<std::string, std::string>> kElsewhere = {
    {"engine/ops/run.h", "the entry of all ops, which rooms call as a word of their own"},
    {"engine/ops/ops.h", "the table of all ops, as run.h"},
    {"engine/ops/op_list.h", "the list of all ops, as run.h"},
    {"engine/ops/ops.cpp", "the table of all ops, as run.h"},
    {"api/", "what include/mbench declares"},
};

// What a namespace that is opened for another room may hold: declarations of what is defined there.
bool only_declares(const std::string& block) {
  std::istringstream lines(block);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("//"));
    if (line.find('=') != std::string::npos) return false;
    if (line.find('{') != std::string::npos && !line.starts_with("namespace ")) return false;
  }
  return true;
}

bool is_elsewhere(const std::string& file) {
  for (const auto& [name, reason] : kElsewhere)
    if (file == name || (name.ends_with('/') && file.starts_with(name))) return true;
  return false;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The blocks of a source that stand in another namespace than its room's and do not merely declare.
std::vector<std::string> strangers(const std::string& text, const std::string& space) {
  std::vector<std::string> found;
  static const std::regex opening(R"(^namespace ([\w:]+) \{$)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, opening)) continue;
    const std::string name = match[1];
    if (name == space || name.starts_with(space + "::")) continue;
    std::string block;
    for (std::string inner; std::getline(lines, inner) && !inner.starts_with('}');) block += inner + '\n';
    if (!only_declares(block)) found.push_back(name);
  }
  return found;
}

}  // namespace

TEST_CASE("what a room defines stands in the room's namespace") {
  std::size_t seen = 0;
  for (const Room& room : kRooms)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(MBENCH_SOURCE_DIR) / room.folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      const std::string file = fs::relative(entry.path(), MBENCH_SOURCE_DIR).generic_string();
      if (is_elsewhere(file)) continue;
      ++seen;
      INFO(file << ", of the room of " << room.space);
      CHECK(strangers(text_of(entry.path()), room.space) == std::vector<std::string>());
    }
  CHECK(seen > 500);
}

TEST_CASE("a definition in another room's namespace is found") {
  CHECK(strangers("namespace mbench::nn {\nclass A;\n}\nnamespace mbench::train {\nint a = 1;\n}\n", "mbench::train")
            .empty());
  CHECK(strangers("namespace mbench {\nint a = 1;\n}\n", "mbench::train") == std::vector<std::string>{"mbench"});
}
