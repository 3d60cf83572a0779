#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/base/atomic_file.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

using Folder = test::TemporaryFolder;

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

PointResult result_of(std::int64_t seq) {
  PointResult r;
  r.point.model = find_preset("gpt-bytes-tiny", "test");
  r.point.seq = seq;
  r.id = point_id(r.point);
  r.device = "cpu";
  return r;
}

PointResult full_result() {
  PointResult r = result_of(64);
  r.point.strategy = "full";
  r.point.recompute = Recompute::full;
  r.device = "Some CPU @ 3 GHz";
  r.world = 4;
  r.reason = "stopped by max_seconds";
  r.iteration_ms = statistics_of({3, 1, 2});
  r.samples_per_s = 10.5, r.samples_per_s_stddev = 0.25, r.tokens_per_s = 1000;
  r.tflops_per_device = 0.125, r.mfu = 0.5, r.mfu_causal = 0.4, r.hfu = 0.6, r.peak_tflops = 0.25;
  r.peak_source = "measured GEMM";
  r.peak_memory_mib = 12.5;
  r.peak_memory_by_rank_mib = {12.5, 11, 10, 9};
  r.memory_anatomy_mib = MemoryAnatomy{1, 2, 3, 4, 5, 6};
  r.time_anatomy_ms = TimeAnatomy{{1, 0.25, 0.5, 0.125, 0, 0.125}};
  r.reserved_memory_mib = 16, r.device_memory_mib = 24576, r.library_memory_mib = 1.75;
  r.communication_fraction = 0.1, r.bubble_fraction = 0.2;
  r.gemm_epilogues = {{"16 x 32 x 8, bf16 to bf16, bias", true, 12.5, 14.25},
                      {"8 x 8 x 8, bf16 to f32, gradient of bias", false, 3, 2}};
  r.losses = {5.5, -0.25};
  r.gradient_norms = {1, 0.5};
  r.auxiliary_losses = {0.125, 0.25};
  r.skipped_steps = 1, r.parameters = 216000, r.power_w = 45.5, r.utilization = 0.9;
  r.step_ms_by_rank = {3, 3, 2.5, 3},
  r.compute_ms_by_rank = {{1.5, 0.5, {1, 2}}, {2, 0, {1.5, 2.25}}, {0.5, 0, {0.5, 0.1234}}, {1, 0, {1, 1}}};
  r.clock_mhz = 1980, r.throttle_reasons = "sw_power_cap";
  return r;
}

std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

}  // namespace

TEST_CASE("statistics keep the samples and interpolate between ranks") {
  const Statistics s = statistics_of({4, 1, 3, 2});
  CHECK(s.mean == 2.5);
  CHECK(s.stddev == Approx(std::sqrt(5.0 / 3)));
  CHECK(s.median == 2.5);
  CHECK(s.p95 == Approx(3.85));
  CHECK(s.min == 1);
  CHECK(s.max == 4);
  CHECK(s.samples == std::vector<double>{4, 1, 3, 2});
  CHECK(statistics_of({7}).stddev == 0);
  CHECK(statistics_of({7}).p95 == 7);
  CHECK_THROWS_AS(statistics_of({}), Error);
}

TEST_CASE("a result is read back as it was written, unknown as null") {
  const PointResult r = full_result();
  const nlohmann::ordered_json first = result_to_json(r);
  const PointResult again = result_from_json(nlohmann::json(first), "r: $");
  CHECK(result_to_json(again) == first);
  CHECK(again.point == r.point);
  CHECK(again.device == r.device);
  CHECK(again.losses == r.losses);
  CHECK(again.auxiliary_losses == r.auxiliary_losses);
  CHECK(first.at("iteration_ms").at("samples").size() == 3);
  CHECK(first.at("samples_per_s").at("stddev") == 0.25);
  CHECK(first.at("strategy") == "full");

  PointResult empty = result_of(128);
  empty.outcome = Outcome::oom;
  empty.reason = "weights: need 3 GiB";
  const nlohmann::ordered_json sparse = result_to_json(empty);
  for (const char* key : {"iteration_ms", "samples_per_s", "mfu", "peak_memory_mib", "memory_anatomy_mib", "losses",
                          "peak_source", "parameters"})
    CHECK(sparse.at(key).is_null());
  const PointResult back = result_from_json(nlohmann::json(sparse), "r: $");
  CHECK(back.outcome == Outcome::oom);
  CHECK(back.reason == empty.reason);
  CHECK(back.device == "cpu");
  CHECK_FALSE(back.mfu);
  CHECK_FALSE(back.iteration_ms);
}

TEST_CASE("a NaN loss survives as null, and a reason that is not UTF-8 as text") {
  PointResult r = full_result();
  r.losses = {1, NAN};
  r.mfu = INFINITY;
  r.reason = "log said \xff\xfe";
  const std::string text = dump_json(result_to_json(r));
  const PointResult back = result_from_json(nlohmann::json::parse(text), "r: $");
  CHECK(back.losses.size() == 2);
  CHECK(std::isnan(back.losses[1]));
  CHECK_FALSE(back.mfu);
  CHECK_THAT(back.reason, Contains("log said"));
}

TEST_CASE("a result file is read back as it was written") {
  const Folder folder;
  ResultFile file;
  file.spec = nlohmann::ordered_json::parse(R"({"name": "x", "sweep": {"b": 1, "a": 2}})");
  file.environment = {{"host", "h"}};
  file.points = {full_result(), result_of(128)};
  write_result_file(folder / "results.json", file);
  const ResultFile again = read_result_file(folder / "results.json");
  CHECK(again.spec.dump() == file.spec.dump());  // in the same order
  CHECK(again.points.size() == 2);
  CHECK(result_to_json(again.points[0]) == result_to_json(file.points[0]));
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // no temporary left
}

TEST_CASE("what is wrong with a result file is said with file and place") {
  const Folder folder;
  const std::string path = folder / "r.json";
  const auto refusal = [&](std::string_view text) {
    put(path, text);
    return refusal_of([&] { read_result_file(path); });
  };
  const std::string row = dump_json(result_to_json(full_result()));
  const auto file_of = [](const std::string& points) {
    return R"({"schema": "mbench.results/1", "points": [)" + points + "]}";
  };
  CHECK_THAT(refusal_of([&] { read_result_file(folder / "none.json"); }),
             Contains("none.json] cannot be read: No such file"));
  CHECK_THAT(refusal_of([&] { read_result_file(folder.path.string()); }), Contains("cannot be read"));
  CHECK_THAT(refusal(""), Contains("r.json] the file is empty"));
  const std::string whole = file_of(row);
  CHECK_THAT(refusal(whole.substr(0, whole.size() / 2)),
             Contains(fmt::format("cut short: the file ends at byte {}", whole.size() / 2)));
  CHECK_THAT(refusal("{\n\"schema\": NaN}"), Contains("not JSON at byte 12 (line 2)") && Contains("JSON has no NaN"));
  CHECK_THAT(refusal("{\"schema\": 1} // why"), Contains("need JSON, which has no comments"));
  CHECK_THAT(refusal("{\"schema\": 1,}"), Contains("need another value, or no comma before it"));
  CHECK_THAT(refusal("{\"schema\": True}"), Contains("need true, false or null"));
  CHECK_THAT(refusal("{'schema': 1}"), Contains("need a string between double quotes"));
  CHECK_THAT(refusal("{\"schema\": 1e999}"), Contains("a number that is too large, got 1e999, need at most 1.79"));
  CHECK_THAT(refusal("{\"schema\": 1}}"), Contains("need one JSON value and nothing behind it"));
  CHECK_THAT(refusal("[1]"), Contains("$] wrong type"));
  CHECK_THAT(refusal("{}"), Contains("\"schema\" is missing"));
  CHECK_THAT(refusal(R"({"schema": "mbench.results/2", "points": []})"),
             Contains("$.schema] another schema, got \"mbench.results/2\", need \"mbench.results/1\""));
  CHECK_THAT(refusal(R"({"schema": "mbench.results/1"})"), Contains("\"points\" is missing"));
  CHECK_THAT(refusal(R"({"schema": "mbench.results/1", "schema": "mbench.results/1"})"),
             Contains("the key \"schema\" stands twice"));
  CHECK_THAT(refusal(file_of(row + "," + row)), Contains("$.points[1].id] stands twice") && Contains("$.points[0]"));
  CHECK_THAT(refusal(file_of("3")), Contains("$.points[0]] wrong type, got 3"));
  CHECK_THAT(refusal(file_of("{}")), Contains("$.points[0]] \"id\" is missing"));
  CHECK_THAT(refusal(file_of(R"({"id": "a"})")), Contains("\"outcome\" is missing"));
  CHECK_THAT(refusal(file_of(R"({"id": "a", "outcome": "fine"})")), Contains("$.points[0].outcome] no such choice"));
  nlohmann::json changed = nlohmann::json::parse(row);
  changed["mfu"] = "high";
  CHECK_THAT(refusal(file_of(changed.dump())), Contains("$.points[0].mfu] wrong type, got \"high\""));
  changed = nlohmann::json::parse(row);
  changed["iteration_ms"].erase("p95");
  CHECK_THAT(refusal(file_of(changed.dump())), Contains("$.points[0].iteration_ms] \"p95\" is missing"));
  changed = nlohmann::json::parse(row);
  changed["iteration_ms"]["samples"][1] = nullptr;
  CHECK_THAT(refusal(file_of(changed.dump())), Contains("$.points[0].iteration_ms.samples[1]] wrong type, got null"));
  changed = nlohmann::json::parse(row);
  changed["tp"] = -2;
  CHECK_THAT(refusal(file_of(changed.dump())), Contains("$.points[0].tp] out of range, got -2"));
  changed = nlohmann::json::parse(row);
  changed["from_a_later_version"] = 1;
  put(path, file_of(changed.dump()));
  CHECK(read_result_file(path).points.size() == 1);
}

TEST_CASE("a result file that ends early, goes on after its end or says a thing twice is refused with its place") {
  const Folder folder;
  const std::string path = folder / "r.json";
  const auto refusal = [&](std::string_view text) {
    put(path, text);
    return refusal_of([&] { read_result_file(path); });
  };
  write_result_file(path, {{{"name", "n"}}, {{"cores", 2}}, {full_result()}});
  const std::string whole = read_text_file(path);
  // The last line among them: all of the points stand in it, and only what closes it is missing.
  for (std::size_t end = whole.size() - 2; end > 0;
       end -= std::min<std::size_t>(end, end > whole.size() - 40 ? 1 : 97)) {
    INFO(end);
    CHECK_THAT(refusal(std::string_view(whole).substr(0, end)),
               Contains(fmt::format("r.json] cut short: the file ends at byte {}", end)));
  }
  CHECK_THAT(refusal(whole + "}"), Contains(fmt::format("not JSON at byte {} (line ", whole.size())));
  const auto with = [&](std::string_view before, std::string_view more) {
    std::string text = whole;
    return text.insert(text.find(before), more);
  };
  CHECK_THAT(refusal(with("\"tp\"", "\"tp\": 1, ")), Contains("r.json: $.points] the key \"tp\" stands twice"));
  CHECK_THAT(refusal(with("\"cores\"", "\"cores\": 1, ")),
             Contains("r.json: $.environment] the key \"cores\" stands twice"));
  CHECK_THAT(refusal(with("\"cores\"", "\"far\": 1e999, ")), Contains("a number that is too large"));
  // A number that no integer holds is one after all, to the general parser.
  put(path, with("\"cores\"", "\"ticks\": 18446744073709551616, "));
  CHECK(read_result_file(path).environment.at("ticks") == 18446744073709551616.0);
}

TEST_CASE("when a file cannot be written the old one stands and the message says what was needed") {
  const Folder folder;
  const std::string path = folder / "results.md";
  write_file_atomically(path, "old");
  // A file size limit, as a full disk, fails the write half way; in a child, so that only it is limited.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 1;
    try {
      write_file_atomically(path, std::string(5000, 'x'));
    } catch (const Error& e) {
      const std::string message = e.what();
      if (message.find("results.md] could not be written: File too large, need 4.88 KiB") != std::string::npos &&
          message.find("the older file stands") != std::string::npos)
        code = 0;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(read_text_file(path) == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);

  CHECK_THAT(refusal_of([&] { write_file_atomically(folder / "no/such/f", "x"); }),
             Contains("no/such/f] could not be written: No such file"));
  CHECK_THAT(refusal_of([] { write_file_atomically("/dev/null", "x"); }), Contains("[/dev/null] not a plain file"));
  CHECK(fs::is_character_file("/dev/null"));
}
