// Who may include whom. The table below is the architecture; the tests hold every source file to it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/catch.h"

namespace fs = std::filesystem;

namespace {

// A room may include itself and these rooms, at any depth below them but for implementations (see below).
const std::map<std::string, std::set<std::string>> kArrows = {
    // The public face knows nothing of what stands behind it.
    {"include/mbench", {}},
    {"engine/base", {"include/mbench"}},
    {"engine/process", {"engine/base"}},
    {"engine/framework", {"engine/base"}},
    {"engine/point", {"engine/framework", "engine/base"}},
    {"engine/device", {"engine/base"}},
    {"engine/ops", {"engine/device", "engine/base"}},
    {"engine/backend", {"engine/ops", "engine/device", "engine/base"}},
    {"engine/comm", {"engine/device", "engine/base"}},
    {"engine/plan", {"engine/framework", "engine/point", "engine/base"}},
    {"engine/nn", {"engine/ops", "engine/comm", "engine/plan", "engine/device", "engine/point", "engine/base"}},
    {"engine/model",
     {"engine/nn", "engine/ops", "engine/comm", "engine/plan", "engine/device", "engine/point", "engine/base"}},
    {"engine/train",
     {"engine/model", "engine/nn", "engine/ops", "engine/comm", "engine/plan", "engine/device", "engine/point",
      "engine/base"}},
    {"engine/run", {"engine/train", "engine/comm", "engine/plan", "engine/device", "engine/point", "engine/base"}},
    {"engine/sim",
     {"engine/run", "engine/train", "engine/ops", "engine/comm", "engine/plan", "engine/device", "engine/framework",
      "engine/point", "engine/base"}},
    {"engine/platform", {"engine/comm", "engine/ops", "engine/device", "engine/point", "engine/base"}},
    {"strategies", {"engine/plan", "engine/framework", "engine/point", "engine/base"}},
    {"sweeps", {"engine/process", "engine/point", "engine/base"}},
    {"reports/records", {"engine/point", "engine/base"}},
    {"reports/tables", {"reports/records", "engine/point", "engine/base"}},
    {"reports/plots", {"reports/tables", "reports/records", "engine/process", "engine/point", "engine/base"}},
    {"reports/page", {"reports/plots", "reports/tables", "reports/records", "engine/point", "engine/base"}},
    {"reports/cost", {"engine/base"}},
    {"reports/gate", {"reports/tables", "reports/records", "engine/point", "engine/base"}},
    {"reports/baselines",
     {"reports/gate", "reports/plots", "reports/tables", "reports/records", "engine/point", "engine/base"}},
    {"search",
     {"strategies", "sweeps", "engine/sim", "engine/device", "engine/plan", "engine/framework", "engine/point",
      "engine/base"}},
    {"health",
     {"engine/sim", "engine/comm", "engine/ops", "engine/plan", "engine/device", "engine/point", "engine/base",
      "reports/gate", "reports/tables"}},
    {"formats", {"engine/point", "engine/framework", "engine/base"}},
    {"explain", {"reports/gate", "reports/records", "engine/sim", "engine/point", "engine/base"}},
    // What the library and the program have in common; nothing of it needs MPI or a device.
    {"api",
     {"include/mbench", "strategies", "sweeps", "search", "formats", "explain", "reports", "engine/sim", "engine/run",
      "engine/plan", "engine/framework", "engine/point", "engine/base"}},
    {"cli", {"api", "strategies", "sweeps", "search", "health", "formats", "explain", "reports", "engine"}},
};

// Each folder below these is one implementation of an interface; it knows no other, and only the registry
// names it.
const std::set<std::string> kImplementations = {"engine/backend", "engine/comm"};
const std::set<std::string> kRegistries = {"engine/platform/registry"};

// Libraries that must not leak out of the implementation that wraps them.
const std::map<std::string, std::set<std::string>> kForeign = {
    {"mpi.h", {"engine/comm/mpi"}},
    {"nccl.h", {"engine/comm/nccl"}},
    {"cblas.h", {"engine/backend/cpu"}},
    {"cuda_runtime.h", {"engine/backend/cuda", "engine/comm/nccl"}},
    {"CLI/CLI.hpp", {"cli"}},
    {"utf8proc.h", {"reports/tables"}},
    {"simdjson.h", {"engine/base"}},
    {"toml++/toml.h", {"formats/torchtitan"}},
};

bool is_below(const std::string& path, const std::string& folder) {
  return path.compare(0, folder.size() + 1, folder + "/") == 0;
}

std::string room_of(const std::string& path) {
  for (const auto& [room, may] : kArrows)
    if (is_below(path, room)) return room;
  return "";
}

// "engine/backend/cpu" for a file below it, empty for the interfaces beside the implementations.
std::string implementation_of(const std::string& path) {
  for (const std::string& root : kImplementations) {
    if (!is_below(path, root)) continue;
    const std::size_t end = path.find('/', root.size() + 1);
    if (end != std::string::npos) return path.substr(0, end);
  }
  return "";
}

bool is_registry(const std::string& path) {
  return kRegistries.count(path.substr(0, path.rfind('.'))) > 0;
}

// Why `from` may not include `to`, or nothing.
std::string why_forbidden(const std::string& from, const std::string& to) {
  const std::string room = room_of(from), target = room_of(to);
  if (room.empty()) return "stands in no known room; add it to the table of this test";
  if (target.empty()) return "what it includes stands in no known room";
  const std::string implementation = implementation_of(to);
  if (!implementation.empty()) {
    if (implementation == implementation_of(from) || is_registry(from)) return "";
    return "only the registry names an implementation";
  }
  if (room == target) return "";
  for (const std::string& allowed : kArrows.at(room))
    if (target == allowed || is_below(target, allowed)) return "";
  return room + " may not include " + target;
}

std::string why_foreign_forbidden(const std::string& from, const std::string& header) {
  const auto rule = kForeign.find(header);
  if (rule == kForeign.end() || is_registry(from)) return "";
  for (const std::string& folder : rule->second)
    if (is_below(from, folder)) return "";
  return "<" + header + "> belongs to " + *rule->second.begin();
}

struct Source {
  std::string path;  // from the repository's root
  std::vector<std::string> lines;
};

std::vector<Source> read_below(const std::vector<std::string>& folders) {
  std::vector<Source> found;
  const fs::path root = MBENCH_SOURCE_DIR;
  for (const std::string& top : folders) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      Source source{fs::relative(entry.path(), root).generic_string(), {}};
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  return found;
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = read_below(
      {"include", "engine", "strategies", "sweeps", "search", "health", "formats", "explain", "reports", "api", "cli"});
  return all;
}

// The name in `#include "..."` or `#include <...>`; empty if the line is none.
std::string included(const std::string& line, char open, char close) {
  std::istringstream words(line);
  std::string directive;
  words >> directive;
  if (directive != "#include") return "";
  const std::size_t start = line.find(open), end = line.find(close, start + 1);
  return start == std::string::npos || end == std::string::npos ? "" : line.substr(start + 1, end - start - 1);
}

bool is_header(const Source& source) {
  return source.path.ends_with(".h") || source.path.ends_with(".cuh");
}

}  // namespace

TEST_CASE("the rules themselves: what they allow and what they refuse") {
  CHECK(why_forbidden("cli/commands/run.cpp", "engine/run/run_point.h") == "");
  CHECK(why_forbidden("engine/nn/linear/linear.cpp", "engine/ops/matmul.h") == "");
  CHECK(why_forbidden("engine/nn/linear/linear.cpp", "engine/comm/group.h") == "");
  CHECK(why_forbidden("engine/platform/registry.cpp", "engine/backend/cpu/cpu_device.h") == "");
  CHECK(why_forbidden("engine/backend/cpu/matmul.cpp", "engine/backend/cpu/scratch.h") == "");
  CHECK(why_forbidden("engine/nn/linear/linear.cpp", "engine/backend/cpu/cpu_ops.h") != "");
  CHECK(why_forbidden("engine/backend/cpu/matmul.cpp", "engine/backend/cuda/cuda.h") != "");
  CHECK(why_forbidden("engine/comm/group.cpp", "engine/comm/mpi/mpi_world.h") != "");
  CHECK(why_forbidden("cli/commands/run.cpp", "engine/comm/mpi/mpi_world.h") != "");
  CHECK(why_forbidden("engine/train/trainer.cpp", "strategies/strategies.h") != "");
  CHECK(why_forbidden("engine/point/point.cpp", "engine/ops/ops.h") != "");
  CHECK(why_forbidden("engine/ops/matmul.cpp", "engine/nn/linear/linear.h") != "");
  CHECK(why_forbidden("sweeps/run/runner.cpp", "engine/plan/plan.h") != "");
  CHECK(why_forbidden("reports/tables/report.cpp", "sweeps/store/store.h") != "");
  CHECK(why_forbidden("reports/baselines/trend.cpp", "reports/gate/comparable.h") == "");
  CHECK(why_forbidden("reports/tables/report.cpp", "reports/plots/gnuplot.h") != "");
  CHECK(why_forbidden("reports/plots/gnuplot.cpp", "engine/process/process.h") == "");
  CHECK(why_forbidden("reports/tables/report.cpp", "engine/process/process.h") != "");
  CHECK(why_forbidden("strategies/tensor.cpp", "engine/nn/linear/linear.h") != "");
  CHECK(why_forbidden("search/search.cpp", "engine/sim/run/simulate.h") == "");
  CHECK(why_forbidden("search/search.cpp", "reports/tables/report.h") != "");
  CHECK(why_forbidden("sweeps/run/runner.cpp", "search/search.h") != "");
  CHECK(why_forbidden("sweeps/spec/spec.cpp", "formats/formats.h") != "");
  CHECK(why_forbidden("formats/formats.cpp", "strategies/strategies.h") != "");
  CHECK(why_forbidden("api/simulator.cpp", "engine/sim/run/simulate.h") == "");
  CHECK(why_forbidden("api/simulator.cpp", "engine/platform/registry.h") != "");
  CHECK(why_forbidden("api/simulator.cpp", "cli/cli.h") != "");
  CHECK(why_forbidden("include/mbench/simulator.h", "engine/sim/run/simulate.h") != "");
  CHECK(why_forbidden("engine/novel/thing.cpp", "engine/base/error.h") != "");
  CHECK(why_foreign_forbidden("engine/train/trainer.cpp", "mpi.h") != "");
  CHECK(why_foreign_forbidden("engine/comm/mpi/mpi_world.h", "mpi.h") == "");
  CHECK(included("#include \"a/b.h\"  // why", '"', '"') == "a/b.h");
  CHECK(included("  #include <mpi.h>", '<', '>') == "mpi.h");
  CHECK(included("// #include \"a.h\"", '"', '"') == "");
}

TEST_CASE("every include follows the arrows") {
  REQUIRE(sources().size() > 50);  // the tree was found
  for (const Source& source : sources())
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::string own = included(source.lines[i], '"', '"');
      // An installed header names its neighbours, wherever they are installed.
      if (!own.empty() && is_below(source.path, "include/mbench")) own = "include/mbench/" + own;
      const std::string foreign = included(source.lines[i], '<', '>');
      if (own.empty() && foreign.empty()) continue;
      INFO(source.path << ":" << i + 1 << ": " << source.lines[i]);
      if (!own.empty()) {
        CHECK(fs::exists(fs::path(MBENCH_SOURCE_DIR) / own));  // paths start at the repository's root
        CHECK(why_forbidden(source.path, own) == "");
      } else {
        CHECK(why_foreign_forbidden(source.path, foreign) == "");
      }
    }
}

TEST_CASE("programs are started in one place") {
  for (const Source& source : sources()) {
    if (is_below(source.path, "engine/process")) continue;
    for (const std::string& line : source.lines)
      for (const char* call : {"::fork(", "::exec", "posix_spawn", "::popen(", "std::system("}) {
        INFO(source.path << ": " << line);
        CHECK(line.find(call) == std::string::npos);
      }
  }
}

TEST_CASE("every header opens with its contract, then #pragma once") {
  for (const Source& source : sources()) {
    if (!is_header(source)) continue;
    INFO(source.path);
    REQUIRE_FALSE(source.lines.empty());
    CHECK(source.lines[0].substr(0, 3) == "// ");
    const auto first_code = std::find_if(source.lines.begin(), source.lines.end(), [](const std::string& line) {
      return !line.empty() && line.substr(0, 2) != "//";
    });
    REQUIRE(first_code != source.lines.end());
    CHECK(*first_code == "#pragma once");
  }
}

TEST_CASE("files are small, those of tests too") {
  const std::vector<Source> others = read_below({"test", "bench", "examples", "python"});
  REQUIRE(others.size() > 200);
  for (const std::vector<Source>* some : {&sources(), &others})
    for (const Source& source : *some)
      if (source.lines.size() > 500)
        FAIL_CHECK(source.path << " has " << source.lines.size() << " lines, need at most 500");
}
