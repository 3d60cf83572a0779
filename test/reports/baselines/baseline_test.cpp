// Baselines as files in a folder: what stands in them, what is refused, what a result is compared with.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "reports/baselines/baseline_store.h"
#include "reports/gate/comparable.h"
#include "reports/gate/compare.h"
#include "reports/records/flags.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Folder : test::TemporaryFolder {
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path).string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

ResultFile results(const std::string& date, const std::string& revision, double factor = 1) {
  ResultFile file = sample::strategies();
  file.environment["started"] = date;
  file.environment["git_revision"] = revision;
  for (PointResult& p : file.points)
    if (p.iteration_ms) {
      std::vector<double> samples;
      for (int i = 0; i < 30; ++i) samples.push_back(100 * factor * (1 + 0.002 * ((i * 7) % 5)));
      p.iteration_ms = statistics_of(samples);
    }
  return file;
}

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "nothing thrown";
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE(
    "adding a result makes a file for each point in its machine's folder, and adding it twice changes "
    "nothing") {
  const Folder folder;
  const ResultFile now = results("2026-01-02T03:04:05Z", "abc");
  const Added added = add_baselines(folder.path.string(), now, {});
  CHECK(added.written.size() == 19);  // one of the twenty crashed
  REQUIRE(added.refused.size() == 1);
  CHECK_THAT(added.refused[0], Contains("crashed"));
  const auto names = folder.files();
  REQUIRE(names.size() == 19);
  for (const std::string& name : names) CHECK_THAT(name, Contains("amd-epyc-7742-64-cores-v100-x-8-"));
  const std::string before = read_text_file(folder / names[0]);
  const Added again = add_baselines(folder.path.string(), now, {});
  CHECK(again.written.empty());
  CHECK(again.unchanged == 19);
  CHECK(read_text_file(folder / names[0]) == before);
}

TEST_CASE("a file's keys are sorted, its samples are one line, and a new entry is a diff of a few lines") {
  const Folder folder;
  add_baselines(folder.path.string(), results("2026-01-02T03:04:05Z", "abc"), {});
  const std::string path = folder / folder.files()[0];
  const std::string one = read_text_file(path);
  CHECK(nlohmann::json::parse(one).dump() == nlohmann::ordered_json::parse(one).dump());  // sorted as written
  CHECK(one.find("\"history\"") < one.find("\"id\""));
  std::istringstream in(one);
  int long_lines = 0;
  for (std::string line; std::getline(in, line);)
    if (line.find("\"samples_ms\": [1") != std::string::npos) long_lines += line.find(']') != std::string::npos;
  CHECK(long_lines == 1);
  add_baselines(folder.path.string(), results("2026-02-02T03:04:05Z", "def"), {});
  const std::string two = read_text_file(path);
  CHECK(lines_of(two) - lines_of(one) < 25);
  CHECK(two.substr(0, one.find("\n    }")) == one.substr(0, one.find("\n    }")));  // the first entry stands as it was
}

TEST_CASE("what was stored is what is read, every sample and loss of it") {
  const Folder folder;
  ResultFile now = results("2026-01-02T03:04:05Z", "abc");
  now.points[0].losses[1] = std::numeric_limits<double>::quiet_NaN();
  now.points[0].peak_tensors_mib = {{"linear output", 700}, {"all others", 300.5}, {"weights", 107}};
  now.points[0].communication_mib = CommunicationByAxis{{96, 0, 24, 0, 1, 0}};
  add_baselines(folder.path.string(), now, {});
  const ResultFile read = baseline_for(folder.path.string(), now, false, "");
  REQUIRE(read.points.size() == 19);
  const PointResult &a = now.points[0], &b = read.points[0];
  CHECK(a.id == b.id);
  CHECK(a.point == b.point);
  CHECK(a.device == b.device);
  CHECK(a.world == b.world);
  CHECK(a.iteration_ms->samples == b.iteration_ms->samples);
  CHECK(a.iteration_ms->median == b.iteration_ms->median);
  CHECK(a.peak_memory_mib == b.peak_memory_mib);
  CHECK(std::isnan(b.losses[1]));
  CHECK(a.peak_tensors_mib == b.peak_tensors_mib);
  CHECK(a.communication_mib->mib == b.communication_mib->mib);
  CHECK(a.losses[2] == b.losses[2]);
  for (const char* key : {"cpu", "cores", "device", "mpi", "flop_formula_version", "git_revision"})
    CHECK(read.environment.at(key) == now.environment.at(key));
  const Comparison comparison = compare_results(now, read, {});
  CHECK_FALSE(comparison.regression());
}

TEST_CASE("a result is compared with the newest entry of its machine, or that of a revision") {
  const Folder folder;
  const std::string dir = folder.path.string();
  add_baselines(dir, results("2026-02-01T00:00:00Z", "new", 1.2), {});
  add_baselines(dir, results("2026-01-01T00:00:00Z", "old", 1.0), {});  // added later, but older
  ResultFile elsewhere = results("2026-03-01T00:00:00Z", "else", 0.5);
  elsewhere.environment["cores"] = 8;
  add_baselines(dir, elsewhere, {});
  const ResultFile now = results("2026-04-01T00:00:00Z", "now", 1.2);
  CHECK(baseline_for(dir, now, false, "").environment.at("git_revision") == "new");
  CHECK_FALSE(compare_results(now, baseline_for(dir, now, false, ""), {}).regression());
  CHECK(compare_results(now, baseline_for(dir, now, false, "old"), {}).regression());
  CHECK_THAT(message([&] { baseline_for(dir, now, false, "none"); }),
             Contains("nothing there for the points of this machine at revision none"));
  ResultFile third = now;
  third.environment["cpu"] = "another";
  CHECK_THAT(message([&] { baseline_for(dir, third, false, ""); }),
             Contains("amd-epyc-7742-64-cores") && Contains("need another-64-cores"));
}

TEST_CASE("stored points of the same sweep that the result lacks are missing, those of other sweeps are not") {
  const Folder folder;
  ResultFile other = results("2026-01-01T00:00:00Z", "abc");
  other.spec["name"] = "another sweep";
  other.points.resize(3);
  for (PointResult& p : other.points) p.point.seq = 77, p.id = point_id(p.point);
  other.points.resize(1);
  add_baselines(folder.path.string(), other, {});
  ResultFile now = results("2026-01-02T00:00:00Z", "abc");
  add_baselines(folder.path.string(), now, {});
  now.points.resize(5);
  const Comparison comparison = compare_results(now, baseline_for(folder.path.string(), now, false, ""), {});
  const auto missing = std::count_if(comparison.points.begin(), comparison.points.end(),
                                     [](const PointComparison& p) { return p.metrics[0].verdict == Verdict::missing; });
  CHECK(missing == 14);
}

TEST_CASE("memory alone is stored for a kind of device and compares on any machine with it") {
  const Folder folder;
  const std::string dir = folder.path.string();
  AddOptions memory;
  memory.memory_only = true;
  const ResultFile now = results("2026-01-01T00:00:00Z", "abc");
  add_baselines(dir, now, memory);
  CHECK_THAT(folder.files()[0], !Contains("amd"));
  CHECK_THAT(read_text_file(folder / folder.files()[0]), !Contains("samples_ms") && !Contains("losses"));
  ResultFile elsewhere = now;
  elsewhere.environment["cpu"] = "another";
  CompareOptions options;
  options.metrics = {"memory"};
  const auto compare = [&](const ResultFile& file) {
    return compare_results(file, baseline_for(dir, file, true, ""), options);
  };
  CHECK_FALSE(compare(elsewhere).regression());
  elsewhere.points[0].peak_memory_mib = *elsewhere.points[0].peak_memory_mib * 1.02;
  CHECK(compare(elsewhere).regression());
  elsewhere.environment["device"] = "A100 x 8";
  CHECK_THAT(message([&] { baseline_for(dir, elsewhere, true, ""); }), Contains("nothing there"));
}

TEST_CASE("simulated points have a machine of their own and never stand in for measured ones") {
  const Folder folder;
  ResultFile simulated = results("2026-01-01T00:00:00Z", "abc");
  for (PointResult& p : simulated.points) {
    p.simulated = true;
    p.point.device = p.device = "sim:8xdgx1";
    p.id = point_id(p.point);
  }
  add_baselines(folder.path.string(), simulated, {});
  CHECK_THAT(folder.files()[0], Contains("sim-8xdgx1-"));
  const ResultFile measured = results("2026-01-02T00:00:00Z", "abc");
  CHECK_THAT(message([&] { baseline_for(folder.path.string(), measured, false, ""); }), Contains("nothing there"));
  simulated.environment["cpu"] = "another";  // which does not matter to a simulation
  CHECK_FALSE(compare_results(simulated, baseline_for(folder.path.string(), simulated, false, ""), {}).regression());
}

TEST_CASE("only the newest entries are kept where that is asked, and rm takes what it is told") {
  const Folder folder;
  const std::string dir = folder.path.string();
  AddOptions two;
  two.keep = 2;
  for (int month = 1; month <= 4; ++month)
    add_baselines(dir, results("2026-0" + std::to_string(month) + "-01T00:00:00Z", "r" + std::to_string(month)), two);
  auto stored = read_baselines(dir);
  REQUIRE(stored.size() == 19);
  REQUIRE(stored[0].file.history.size() == 2);
  CHECK(stored[0].file.history[0].revision == "r3");
  const std::string id = stored[0].file.id;
  CHECK(select_baselines(stored, "epyc", id.substr(0, 6)).size() == 1);
  CHECK(select_baselines(stored, "xeon", "").empty());
  CHECK(remove_entries(stored, [](const BaselineEntry& e) { return e.revision == "r3"; }) == 19);
  stored = read_baselines(dir);
  CHECK(stored[0].file.history.size() == 1);
  CHECK(remove_entries(select_baselines(stored, "", id), [](const BaselineEntry&) { return true; }) == 1);
  CHECK(read_baselines(dir).size() == 18);
  CHECK(remove_entries(read_baselines(dir), [](const BaselineEntry&) { return true; }) == 18);
  CHECK(fs::is_empty(folder.path));  // the machine's folder went with its last point
}

TEST_CASE(
    "a file that is cut short, empty, foreign or carries what is no number is refused with its path, and "
    "nothing is written") {
  const Folder folder;
  const std::string dir = folder.path.string();
  const ResultFile now = results("2026-01-01T00:00:00Z", "abc");
  add_baselines(dir, now, {});
  const std::string name = folder.files()[3], path = folder / name;
  const std::string good = read_text_file(path);
  const auto spoil = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, std::string> cases[] = {
      {good.substr(0, good.size() / 2), "cut short"},
      {"", "the file is empty"},
      {spoil("mbench.baseline/1", "mbench.baseline/2"), "$.schema] another schema"},
      {spoil("\"samples_ms\": [", "\"samples_ms\": [NaN, "), "not JSON at byte"},
      {spoil("\"samples_ms\": [", "\"samples_ms\": [null, "), "$.history[0].samples_ms[0]] wrong type, got null"},
      {spoil("\"samples_ms\": [", "\"samples_ms\": [-1, "), "$.history[0].samples_ms[0]] out of range"},
      {spoil("\"outcome\": \"ok\"", "\"outcome\": \"fine\""), "$.history[0].outcome] no such choice"},
      {spoil("\"date\": ", "\"dates\": "), "\"date\" is missing"},
      {spoil("\"id\": ", "\"id\": \"x\", \"id\": "), "stands twice"},
      {"[]", "need an object"},
  };
  for (const auto& [text, expected] : cases) {
    std::ofstream(path) << text;
    INFO(expected);
    const std::string add = message([&] { add_baselines(dir, results("2026-02-01T00:00:00Z", "def"), {}); });
    CHECK_THAT(add, Contains(expected) && Contains(path));
    CHECK(read_text_file(path) == text);
    for (const std::string& other : folder.files())  // none of the others got the new entry
      if (other != name) CHECK_THAT(read_text_file(folder / other), !Contains("2026-02"));
    CHECK_THAT(message([&] { baseline_for(dir, now, false, ""); }), Contains(expected) && Contains(path));
  }
}

TEST_CASE("an id that is no name, a date that is none and a folder that is not there are refused") {
  const Folder folder;
  ResultFile now = results("2026-01-01T00:00:00Z", "abc");
  now.points[0].id = "../../escaped";
  CHECK_THAT(message([&] { add_baselines(folder.path.string(), now, {}); }), Contains("not the id of a point"));
  CHECK(folder.files().empty());
  now = results("yesterday", "abc");
  CHECK_THAT(message([&] { add_baselines(folder.path.string(), now, {}); }), Contains("not a date, got \"yesterday\""));
  now.environment.erase("started");
  CHECK_THAT(message([&] { add_baselines(folder.path.string(), now, {}); }), Contains("need --date"));
  AddOptions dated;
  dated.date = "2026-01-01";
  dated.revision = "v1";
  CHECK(add_baselines(folder.path.string(), now, dated).written.size() == 19);
  CHECK_THAT(message([&] { read_baselines(folder / "none"); }), Contains("cannot be read"));
}

TEST_CASE("a machine's fingerprint is a plain name that tells machines apart") {
  const auto name = [](const nlohmann::json& machine) { return fingerprint_of(machine); };
  const std::string plain = name({{"cpu", "AMD EPYC (Gen 3) ® / \"x\""}, {"cores", 2}, {"device", "cpu"}});
  CHECK(std::all_of(plain.begin(), plain.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; }));
  CHECK_THAT(plain, Contains("amd-epyc-gen-3-x-2-cores-"));
  CHECK(plain != name({{"cpu", "AMD EPYC (Gen 3) ™ / \"x\""}, {"cores", 2}, {"device", "cpu"}}));
  CHECK(name({{"cpu", std::string(500, 'x')}}).size() < 80);
}

// Whether `now` says all that `stored` does, in the same words; fields that came later may stand beside it. Former fields of a point are
// said by others now: that it is the same point its id says.
bool holds_all_of(const nlohmann::json& now, const nlohmann::json& stored) {
  if (!stored.is_structured()) return now == stored;
  if (now.type() != stored.type() || (stored.is_array() && now.size() != stored.size())) return false;
  for (const auto& [key, value] : stored.items()) {
    const PointField* about = stored.is_object() ? find_field(key) : nullptr;
    if (about && (!about->part_of.empty() || key == "framework" || key == "precision")) continue;
    const bool there = stored.is_array() || now.contains(key);
    if (!there || !holds_all_of(stored.is_array() ? now[std::stoul(key)] : now.at(key), value)) return false;
  }
  return true;
}

TEST_CASE("the baselines of this repository are read, and written back with all that they said") {
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(MBENCH_SOURCE_DIR) / "baselines")) {
    if (entry.path().extension() != ".json" || entry.path().parent_path().filename() == "files")
      continue;  // those are records of a GPU
    INFO(entry.path().string());
    const std::string path = entry.path().string();
    const BaselineFile file = read_baseline_file(path);
    const nlohmann::json stored = nlohmann::json::parse(read_text_file(path));
    CHECK(holds_all_of(nlohmann::json::parse(baseline_text(file)), stored));
    CHECK(point_id(file.newest().result.point) == file.id);  // an id that changes orphans its file
    ++files;
  }
  CHECK(files >= 20);
}

TEST_CASE("times of a starved or throttled run are named, and an entry keeps what it is flagged by") {
  ResultFile file = results("2026-01-01T00:00:00Z", "abc");
  file.points.resize(3);
  CHECK(disturbed_points(file).empty());
  file.points[0].cpu_share_by_rank.assign(8, 0.99);
  file.points[0].cpu_share_by_rank[5] = 0.47;
  std::vector<double> samples;
  for (int i = 0; i < 40; ++i) samples.push_back(i < 20 ? 100 + i % 3 : 110 + i % 3);
  file.points[1].iteration_ms = statistics_of(samples);
  file.points[2].device_faults = "Xid 79 on rank 3 after 80 min";
  const auto disturbed = disturbed_points(file);
  REQUIRE(disturbed.size() == 3);
  CHECK_THAT(disturbed[2], Contains("faulty: the devices reported Xid 79"));
  CHECK_THAT(disturbed[0], Contains(file.points[0].id + ": starved: rank 5 had a core for 47 % of the time"));
  CHECK_THAT(disturbed[1], Contains("throttled"));
  const Folder folder;
  add_baselines(folder.path.string(), file, {});
  for (const StoredBaseline& stored : read_baselines(folder.path.string()))
    if (stored.file.id == file.points[0].id)
      CHECK_THAT(what_disturbed(stored.file.newest().result).at(0), Contains("rank 5 had a core for 47 %"));
  // As a comparison with the stored one says beside its row.
  const Comparison comparison = compare_results(file, baseline_for(folder.path.string(), file, false, ""), {});
  CHECK_THAT(comparison.points[0].flags.at(1), Contains("baseline: starved: rank 5"));
  CHECK_THAT(comparison.points[2].flags.at(1), Contains("baseline: faulty: the devices reported Xid 79"));
  // Memory has no part in it.
  AddOptions memory;
  memory.memory_only = true;
  const Folder other;
  add_baselines(other.path.string(), file, memory);
  for (const std::string& name : other.files())
    CHECK_THAT(read_text_file(other / name), !Contains("cpu_share") && !Contains("device_faults"));
}

TEST_CASE("a store that has other points of this machine says in which field they differ") {
  const Folder folder;
  const ResultFile stored = results("2026-01-01T00:00:00Z", "abc");
  add_baselines(folder.path.string(), stored, {});
  ResultFile now = stored;
  now.points.resize(1);
  now.points[0].point.seq = 64;
  now.points[0].id = point_id(now.points[0].point);
  CHECK_THAT(message([&] { baseline_for(folder.path.string(), now, false, ""); }),
             Contains("has other points of this machine: seq is 64 here and ") && Contains("2048") &&
                 Contains(" there; need a sweep of those"));
  // With --allow-different the point that differs in that alone will do.
  Choice choice;
  choice.allow_different = {"seq"};
  CHECK(choose_baseline(folder.path.string(), now, false, choice).results.points.at(0).point.tp ==
        now.points[0].point.tp);
  Choice pinned;
  pinned.stand = Stand::pinned;
  CHECK_THAT(message([&] { choose_baseline(folder.path.string(), stored, false, pinned); }),
             Contains("mbench baseline pin"));
}
