// Who is compiled again when a field of a point is added: those that name the point, or something that holds one.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/catch.h"

namespace fs = std::filesystem;

namespace {

const std::string kPoint = "engine/point/point.h";
// The point, the types that have one as a member, and what reads some of these.
const std::regex kHolders(
    R"(\b(Point|PointBuilder|PointResult|PointOutcome|ResultFile|SpecPoint|Spec|Simulation|Space|Tried|Layout|Sample|BaselineEntry|BaselineFile)\b|point_of\(|point_to_json|point_from_json|\bread_spec|read_result_file|read_baseline|layouts\(\)|random_layouts)");

struct Source {
  std::string text;
  std::vector<std::string> includes;  // of the repository
};

std::map<std::string, Source> read_sources() {
  const fs::path root = MBENCH_SOURCE_DIR;
  const std::regex include(R"re(#include "([^"]+)")re");
  std::map<std::string, Source> all;
  for (const char* top :
       {"engine", "strategies", "sweeps", "search", "health", "formats", "reports", "api", "cli", "bench", "test"})
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      Source source{text.str(), {}};
      for (std::sregex_iterator it(source.text.begin(), source.text.end(), include), end; it != end; ++it)
        source.includes.push_back((*it)[1]);
      all.emplace(fs::relative(entry.path(), root).generic_string(), std::move(source));
    }
  return all;
}

// Whether a file includes the point, itself or by what it includes.
class Seeing {
 public:
  explicit Seeing(const std::map<std::string, Source>& sources) : sources_(sources) {}

  bool operator()(const std::string& path) {
    if (path == kPoint) return true;
    const auto source = sources_.find(path);
    if (source == sources_.end()) return false;
    if (const auto found = known_.find(path); found != known_.end()) return found->second;
    known_[path] = false;  // while it is asked
    bool any = false;
    for (const std::string& header : source->second.includes) any = (*this)(header) || any;
    return known_[path] = any;
  }

 private:
  const std::map<std::string, Source>& sources_;
  std::map<std::string, bool> known_;
};

}  // namespace

TEST_CASE("no source sees the whole point without naming it, or what holds one") {
  const std::map<std::string, Source> sources = read_sources();
  Seeing sees(sources);
  REQUIRE(sources.contains(kPoint));
  std::size_t readers = 0;
  for (const auto& [path, source] : sources) {
    if (!path.ends_with(".cpp") || !sees(path)) continue;
    ++readers;
    INFO(path << " includes " << kPoint << " by some header and does not need it");
    // A test also by the fixtures that it includes itself.
    bool names = std::regex_search(source.text, kHolders);
    for (const std::string& header : source.includes)
      if (const auto fixture = sources.find(header); header.starts_with("test/") && fixture != sources.end())
        names = names || std::regex_search(fixture->second.text, kHolders);
    CHECK(names);
  }
  CHECK(readers > 50);
}

TEST_CASE(
    "a simulated step follows from its plan: the point has its memory limit, its environment, and what a row says of "
    "it") {
  const std::map<std::string, Source> sources = read_sources();
  Seeing sees(sources);
  std::size_t others = 0;
  for (const auto& [path, source] : sources) {
    if (!path.starts_with("engine/sim/") || path.starts_with("engine/sim/run/simulate.")) continue;
    ++others;
    INFO(path);
    CHECK_FALSE(sees(path));
  }
  CHECK(others > 30);
}
