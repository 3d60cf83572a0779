// The published figures of a spec: what is read, what is refused, and the specs that come with mbench.
#include "engine/point/published.h"

#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

std::string with_rows(const std::string& rows) {
  return R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 4,
    "sweep": {"precision,zero": [["f32", 0], ["fp16", "oss"]], "strategy": ["baseline", "full"]},
    "published": {"source": "somebody", "machine": "sim:8xV100", "rows": )" +
         rows + "}}";
}

Spec read(const Folder& folder, const std::string& text, std::vector<std::string> set = {},
          std::vector<std::string> filter = {}) {
  put(folder / "s.json", text);
  SpecOptions options;
  options.path = folder / "s.json";
  options.set = std::move(set);
  options.filter = std::move(filter);
  return read_spec(options);
}

}  // namespace

TEST_CASE("published figures are read with the point that each row picks") {
  const Folder folder;
  const Spec spec = read(folder, with_rows(R"([
    {"where": {"precision": "f32", "strategy": "full"}, "iteration_ms": 448, "peak_memory_mib": 1801},
    {"where": {"zero": "oss", "recompute": "none"}, "samples_per_s": {"mean": 6.02, "stddev": 0.06}, "mfu": 0.4,
     "doubt": {"mfu": "too good"}},
    {"where": {"zero": "oss", "strategy": "full", "model": "gpt-bytes-tiny"}, "outcome": "oom", "doubt": "why?"}])"));
  const Published p = read_published(spec.json.at("published"), "s: $");
  CHECK(p.source == "somebody");
  CHECK(p.machine == "sim:8xV100");
  CHECK(p.metrics == std::vector<std::string>{"iteration_ms", "samples_per_s", "mfu", "peak_memory_mib"});
  REQUIRE(p.rows.size() == 3);
  const auto picked = [&](const PublishedRow& row) {
    std::string ids;
    for (const SpecPoint& point : spec.points)
      if (row.picks(point_to_json(point.point), point.point.model.name)) ids += point.label + ";";
    return ids;
  };
  CHECK(picked(p.rows[0]) == "precision=f32 zero=0 strategy=full;");
  CHECK(picked(p.rows[1]) == "precision=fp16 zero=oss strategy=baseline;");
  CHECK(picked(p.rows[2]) == "precision=fp16 zero=oss strategy=full;");
  REQUIRE(p.rows[1].figures.size() == 2);
  CHECK(p.rows[1].figures[0].metric == "samples_per_s");
  CHECK(p.rows[1].figures[0].mean == 6.02);
  CHECK(p.rows[1].figures[0].stddev == 0.06);
  CHECK(p.rows[1].figures[0].doubt == "");
  CHECK(p.rows[1].figures[1].doubt == "too good");
  CHECK(p.rows[2].oom);
  CHECK(p.rows[2].doubt == "why?");
}

TEST_CASE("a filter or --set may leave published rows without a point, the file may not") {
  const Folder folder;
  const std::string text = with_rows(R"([{"where": {"zero": "oss", "strategy": "full"}, "mfu": 0.4}])");
  CHECK(read(folder, text, {}, {"strategy=baseline"}).points.size() == 2);
  CHECK(read(folder, text, {"strategy=baseline"}).points.size() == 2);
  CHECK(read(folder, text, {"iterations=1"}).json.contains("published"));
}

TEST_CASE("what is wrong with published figures is said with its path") {
  const Folder folder;
  const auto rows = [&](const std::string& text) { return message_of([&] { read(folder, with_rows(text)); }); };
  const auto row = [&](const std::string& text) { return rows("[{" + text + "}]"); };
  const auto whole = [&](const std::string& text) {
    return message_of([&] { read(folder, R"({"model": "gpt-bytes-tiny", "published": )" + text + "}"); });
  };
  const std::string good = R"("where": {"zero": 0, "strategy": "full"})";
  CHECK_THAT(whole("[]"), Contains("s.json: $.published] wrong type, got []"));
  CHECK_THAT(whole("{}"), Contains("s.json: $.published] \"source\" is missing"));
  CHECK_THAT(whole(R"({"source": ""})"), Contains("$.published.source] is empty"));
  CHECK_THAT(whole(R"({"source": "x"})"), Contains("$.published] \"machine\" is missing"));
  CHECK_THAT(whole(R"({"source": "x", "machine": "V100"})"),
             Contains("$.published.machine] no such device") && Contains("sim:<N>x<MACHINE>"));
  CHECK_THAT(whole(R"({"source": "x", "machine": "cpu"})"), Contains("$.published] \"rows\" is missing"));
  CHECK_THAT(whole(R"({"source": "x", "machine": "cpu", "rows": [], "row": 1})"),
             Contains("$.published.row] unknown key") && Contains("did you mean \"rows\"?"));
  CHECK_THAT(whole(R"({"source": "x", "machine": "cpu", "flags": "--bf16", "rows": []})"),
             Contains("$.published.flags] got \"--bf16\", need an array of flags"));
  CHECK_THAT(whole(R"({"source": "x", "machine": "cpu", "flags": [""], "rows": []})"),
             Contains("$.published.flags[0]] is empty"));
  CHECK_THAT(rows("[]"), Contains("$.published.rows] got [], need an array of at least one row"));
  CHECK_THAT(rows("{}"), Contains("$.published.rows] got {}"));
  CHECK_THAT(rows("[3]"), Contains("$.published.rows[0]] wrong type, got 3"));
  CHECK_THAT(row(R"("mfu": 1)"), Contains("$.published.rows[0]] \"where\" is missing"));
  CHECK_THAT(row(R"("where": 3, "mfu": 1)"), Contains("rows[0].where] wrong type, got 3"));
  CHECK_THAT(row(R"("where": {"zer": 1}, "mfu": 1)"),
             Contains("rows[0].where.zer] unknown key") && Contains("did you mean \"zero\"?"));
  CHECK_THAT(row(R"("where": {"zero": 9}, "mfu": 1)"), Contains("rows[0].where.zero] out of range, got 9"));
  CHECK_THAT(row(R"("where": {"model": "gpt"}, "mfu": 1)"), Contains("rows[0].where.model] no such model"));
  CHECK_THAT(row(R"("where": {"device": "cpu"}, "mfu": 1)"), Contains("rows[0].where.device]"));
  CHECK_THAT(row(good), Contains("$.published.rows[0]] says nothing, need a figure"));
  CHECK_THAT(row(good + R"(, "mfuu": 1)"), Contains("rows[0].mfuu] unknown key") && Contains("did you mean \"mfu\"?"));
  CHECK_THAT(row(good + R"(, "mfu": "1")"), Contains("rows[0].mfu] wrong type, got \"1\""));
  CHECK_THAT(row(good + R"(, "mfu": -1)"), Contains("rows[0].mfu] out of range, got -1"));
  CHECK_THAT(row(good + R"(, "mfu": {"stddev": 1})"), Contains("rows[0].mfu] \"mean\" is missing"));
  CHECK_THAT(row(good + R"(, "mfu": {"mean": 1, "sigma": 1})"), Contains("rows[0].mfu.sigma] unknown key"));
  CHECK_THAT(row(good + R"(, "mfu": {"runs": [1]})"),
             Contains("rows[0].mfu.runs] got [1], need an array of two figures or more"));
  CHECK_THAT(row(good + R"(, "mfu": {"runs": [1, "2"]})"), Contains("rows[0].mfu.runs[1]] wrong type, got \"2\""));
  CHECK_THAT(row(good + R"(, "mfu": {"runs": [1, 2], "mean": 1})"), Contains("rows[0].mfu.mean] unknown key"));
  CHECK_THAT(row(good + R"(, "outcome": "crashed")"), Contains("rows[0].outcome] no such choice"));
  CHECK_THAT(row(good + R"(, "outcome": "oom", "mfu": 1)"),
             Contains("rows[0]] an outcome and figures too, got outcome \"oom\" and mfu"));
  CHECK_THAT(row(good + R"(, "mfu": 1, "doubt": "")"), Contains("rows[0].doubt] is empty"));
  CHECK_THAT(row(good + R"(, "mfu": 1, "doubt": {"hfu": "x"})"), Contains("rows[0].doubt.hfu] no figure of"));
  CHECK_THAT(row(R"("where": {"zero": 2}, "mfu": 1)"),
             Contains("rows[0].where] picks none of the 4 points, need exactly one"));
  CHECK_THAT(row(R"("where": {"zero": "oss"}, "mfu": 1)"), Contains("rows[0].where] picks 2 of the 4 points"));
  CHECK_THAT(rows("[{" + good + R"(, "mfu": 1}, {"where": {"precision": "f32", "recompute": "full"}, "mfu": 1}])"),
             Contains("rows[1].where] picks the point that") && Contains("$.published.rows[0] picks"));
}

TEST_CASE("every spec of published figures expands, and each of its rows picks one point that could be") {
  std::size_t files = 0, rows = 0, modern = 0;
  for (const auto& entry : fs::recursive_directory_iterator(MBENCH_SOURCE_DIR "/configs/published")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    SpecOptions options;
    options.path = entry.path().string();
    const Spec spec = read_spec(options);  // refuses a row that picks no point, or several
    CHECK(spec.name == entry.path().stem().string());
    REQUIRE(spec.json.contains("published"));
    const std::size_t picked = read_published(spec.json.at("published"), "test").rows.size();
    if (entry.path().parent_path().filename() == "modern") {
      CHECK(picked == 1);
      ++modern;
      continue;
    }
    rows += picked;
    ++files;
  }
  CHECK(files == 25);
  CHECK(rows == 206);
  CHECK(modern == 151);
}
