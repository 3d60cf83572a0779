// mbench report's page and plots from the command line, and the promise of the page: its commands run the
// point again, that one and no other.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/point/result.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

bool has_gnuplot(const Room& room) {
  return room.shell("gnuplot --version").code == 0;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Point id -> the command in its row, as a reader would copy it.
std::map<std::string, std::string> commands_of(const std::string& page) {
  std::map<std::string, std::string> commands;
  const std::string row = "<tr id=\"f1-";
  for (std::size_t at = 0; (at = page.find(row, at)) != std::string::npos;) {
    at += row.size();
    const std::string id = page.substr(at, page.find('"', at) - at);
    const std::size_t begin = page.find("<code>", at) + 6;
    std::string command = page.substr(begin, page.find("</code>", begin) - begin);
    for (const auto& [from, to] : std::map<std::string, std::string>{
             {"<span>", ""}, {"</span>", ""}, {"&#39;", "'"}, {"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}})
      replace_all(command, from, to);
    replace_all(command, "&amp;", "&");
    commands[id] = command;
  }
  return commands;
}

// A sweep that is over in a moment. Its data lies beside its spec, not where the command is given; two points
// never run, because the micro batch does not fit.
constexpr const char* kSpec = R"({"model": "gpt-bytes-tiny", "seq": 64, "data": "text:the words.txt",
  "global_batch": 2, "iterations": 2, "warmup": 1,
  "sweep": {"tp,pp": [[1, 1], [2, 1]], "strategy": ["baseline", "full"], "micro_batch": [1, 3],
            "env": [{}, {"A": "it's \"1\" & <2>"}]}})";

std::string some_text() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox " + std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("each command of a page runs its point, that one and no other") {
  const Room folder;
  folder.put("specs/tiny.json", kSpec);
  folder.put("specs/the words.txt", some_text());
  const Run swept =
      folder.shell("$M sweep specs/tiny.json --filter micro_batch=3 --filter tp=1 --set seed=7 --out o --quiet");
  REQUIRE(swept.code == 0);
  const Run page = folder.shell("$M report o/results.json --out page.html");
  REQUIRE(page.code == 0);
  CHECK(page.out.empty());
  const auto commands = commands_of(read_text_file(folder / "page.html"));
  REQUIRE(commands.size() == 4);
  for (const auto& [id, command] : commands) {
    INFO(command);
    REQUIRE(command.starts_with("mbench sweep o/results.json --on cpu --filter tp=1 --filter pp=1 --filter strategy="));
    const Run dry = folder.shell("\"$M\" " + command.substr(7) + " --dry-run");
    CHECK(dry.code == 0);
    CHECK_THAT(dry.out, Contains("[1/1] ") && Contains(id));
  }
}

TEST_CASE("a result file stands for its spec, and what is no spec inside it is refused with its path") {
  const Room folder;
  folder.put("old.json",
             R"({"schema": "mbench.results/1", "spec": {"model": "gpt-bytes-tiny", "seqq": 3}, "points": []})");
  const Run run = folder.shell("$M sweep old.json --dry-run");
  CHECK(run.code == 2);
  CHECK_THAT(run.err, Contains("old.json: $.spec.seqq") && Contains("seq"));
}

TEST_CASE("a sweep draws its plots beside its tables") {
  const Room folder;
  folder.put("tiny.json",
             R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "iterations": 4, "warmup": 1,
                              "sweep": {"tp": [1, 2], "strategy": ["baseline", "full"]}})");
  SECTION("where there is gnuplot") {
    if (!has_gnuplot(folder)) {
      WARN("not checked: there is no gnuplot on this machine");
      return;
    }
    REQUIRE(folder.shell("$M sweep tiny.json --out o --quiet").code == 0);
    const std::string tables = read_text_file(folder / "o/results.md");
    CHECK_THAT(tables, Contains("## Plots") && Contains("### Throughput over tensor-parallel ranks"));
    std::size_t images = 0;
    for (std::size_t at = 0; (at = tables.find("](plots/", at)) != std::string::npos; ++images) {
      at += 2;
      CHECK(fs::exists(folder.path / "o" / tables.substr(at, tables.find(')', at) - at)));
    }
    CHECK(images == 6);  // a line over tp; where the time goes; the anatomy and the samples of each tp
  }
  SECTION("and is none the worse without it") {
    // A folder that has what mpirun needs, but no gnuplot.
    const Run run = folder.shell(
        "mkdir bin; for f in /usr/bin/*; do case $f in *gnuplot*) ;; *) ln -s $f bin/;; esac; "
        "done; PATH=$PWD/bin $M sweep tiny.json --out o --quiet");
    CHECK(run.code == 0);
    CHECK_THAT(run.err, Contains("gnuplot-nox"));
    CHECK_FALSE(fs::exists(folder.path / "o/plots/x"));
    CHECK_THAT(read_text_file(folder / "o/results.md"), Contains("# tiny") && !Contains("## Plots"));
    const Run report = folder.shell("PATH=/nowhere $M report o/results.json --plots p");
    CHECK(report.code == 0);
    CHECK_THAT(report.out, Contains("# tiny"));
    CHECK_THAT(report.err, Contains("gnuplot-nox"));
  }
}

TEST_CASE("a trace is drawn without any result file") {
  const Room folder;
  const std::string trace = MBENCH_SOURCE_DIR "/test/fixtures/traces/two_stages.json";
  CHECK(folder.shell("$M report --trace " + trace).code == 2);
  const Run nothing = folder.shell("$M report");
  CHECK(nothing.code == 2);
  CHECK_THAT(nothing.err, Contains("need RESULT or --trace FILE"));
  CHECK(folder.shell("$M report --trace nowhere.json --plots p").code == 2);
  const Run run = folder.shell("$M report --trace " + trace + " --plots p --format html");
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("<title>Timeline</title>"));
  if (!has_gnuplot(folder)) return;
  CHECK(fs::exists(folder.path / "p/timeline.svg"));
  CHECK(fs::exists(folder.path / "p/timeline.png"));
  CHECK_THAT(run.out, Contains("<figure class=broad>"));
}
