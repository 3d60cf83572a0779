// The declaration language: the shapes of published tables, and messages for what it refuses.
#include "reports/tables/table_declaration.h"

#include "engine/base/error.h"
#include "reports/tables/build_table.h"
#include "reports/tables/builtin_tables.h"
#include "reports/tables/markdown.h"
#include "reports/tables/report.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

PointResult run(std::int64_t dp, Precision precision, std::int64_t zero, double ms, double memory) {
  PointResult r = sample::point(1, 1, 512, "");
  r.point.dp = dp;
  r.point.precision = precision;
  r.point.zero = static_cast<Zero>(zero);
  r.id = point_id(r.point);
  r.world = dp;
  return sample::measured(r, {ms * 0.99, ms, ms * 1.01}, memory);
}

std::string render(std::vector<PointResult> points, const char* declaration) {
  ResultFile file;
  file.spec = {{"name", "shape"},
               {"tables", nlohmann::ordered_json::array({nlohmann::ordered_json::parse(declaration)})}};
  file.environment = sample::environment();
  file.points = std::move(points);
  const std::string report = render_report(file, {});
  const std::size_t table = report.find("\n\n", report.find("Every point")) + 2;
  return report.substr(table, report.find("- Model FLOPs") - table);
}

std::string declaration_refusal(const char* declaration) {
  try {
    table_declaration_from_json(nlohmann::ordered_json::parse(declaration), "spec.json: tables[0]");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("rows that several fields tell apart, mean and spread, failed and missing points") {
  std::vector<PointResult> points = {run(4, Precision::fp16, 1, 310, 15709), run(4, Precision::fp16, 0, 418, 25061),
                                     run(4, Precision::f32, 0, 1, 1)};
  points[2] = sample::failed(points[2], Outcome::oom, "activations do not fit");
  CHECK(render(points, R"json({
    "name": "zero",
    "rows": [{"header": "Solution", "names": [
      {"text": "No optimization", "where": {"precision": "f32"}},
      {"text": "Mixed-precision training", "where": {"precision": "fp16", "zero": 0}},
      {"text": "Mixed-precision training + ZeRO Stage {zero}", "where": {"precision": "fp16", "zero": [1, 2]}}]}],
    "columns": [
      {"header": "Throughput (samples/s)", "text": "{samples_per_s:2} +/- {samples_per_s.stddev:2}"
},
      {"header": "Peak memory (MB)", "text": "{peak_memory_mib:,0}"}]
})json") ==
        "| Solution                                | Throughput (samples/s) | Peak memory (MB) |\n"
        "| --------------------------------------- | ---------------------: | ---------------: |\n"
        "| No optimization                         |                OOM [1] |              OOM |\n"
        "| Mixed-precision training                |         38.28 +/- 0.38 |           25,061 |\n"
        "| Mixed-precision training + ZeRO Stage 1 |         51.61 +/- 0.52 |           15,709 |\n"
        "\n- [1] activations do not fit\n\n");
}

TEST_CASE("a pivot with several lines in a cell, and gaps where there is no such point") {
  std::vector<PointResult> points = {run(1, Precision::fp16, 0, 100, 1000), run(8, Precision::fp16, 0, 200, 1000),
                                     run(8, Precision::fp16, 3, 400, 500)};
  CHECK(render(points, R"json({
    "name": "scaling",
    "rows": [{"header": "model \\ GPUs", "text": "{model}[ with zero{zero}]"}],
    "pivot": "{world} GPUs",
    "columns": [{"header": "", "text": ["{samples_per_s:1} samples/sec", "{power_w:0} W"]}],
    "labels": {"zero": {"0": ""}}
  })json") ==
        "| model \\\\ GPUs        |                   1 GPUs |                  8 GPUs |\n"
        "| -------------------- | -----------------------: | ----------------------: |\n"
        "| gpt2-345m            | 160.0 samples/sec<br>n/a | 80.0 samples/sec<br>n/a |\n"
        "| gpt2-345m with zero3 |                          | 40.0 samples/sec<br>n/a |\n\n");
}

TEST_CASE("columns of different points of one row, and comparisons") {
  const auto table = render({run(1, Precision::f32, 0, 200, 4247), run(1, Precision::fp16, 0, 100, 4163)}, R"json({
    "name": "precision",
    "rows": [{"header": "batch size", "text": "{global_batch}"}],
    "columns": [
      {"header": "w/o --fp16", "text": "{peak_memory_mib:0}", "where": {"precision": "f32"}},
      {"header": "w/ --fp16", "text": "{peak_memory_mib:0}", "where": {"precision": "fp16"}},
      {"header": "savings", "value": "peak_memory_mib", "as": "saved", "against": {"precision": "f32"},
       "where": {"precision": "fp16"}},
      {"header": "speedup", "value": "iteration_ms", "as": "speedup", "against": {"precision": "f32"},
       "where": {"precision": "fp16"}}]
  })json");
  CHECK_THAT(table, Contains("|         16 |       4247 |      4163 |   2.0 % | 2.00x [1.93, 2.08] |"));
}

TEST_CASE("strong scaling: relative to the first row, with the efficiency of more devices") {
  const auto table = render(
      {run(1, Precision::fp16, 0, 400, 1), run(2, Precision::fp16, 0, 208, 1), run(4, Precision::fp16, 0, 108, 1)},
      R"json({
    "name": "strong",
    "rows": [{"header": "GPUs", "text": "{world}"}],
    "columns": [
      {"header": "Time", "value": "iteration_ms", "as": "ratio", "against": "first"},
      {"header": "Speedup", "value": "iteration_ms", "as": "speedup", "against": "first"},
      {"header": "Efficiency", "value": "iteration_ms", "as": "efficiency", "against": "first"}]
  })json");
  CHECK_THAT(table, Contains("|    1 |                  - |                  - |          - |"));
  CHECK_THAT(table, Contains("|    2 | 0.52x [0.50, 0.54] | 1.92x [1.85, 2.00] |     96.2 % |"));
  CHECK_THAT(table, Contains("|    4 | 0.27x [0.26, 0.28] | 3.70x [3.57, 3.85] |     92.6 % |"));
}

TEST_CASE("points that a declaration does not tell apart are never merged") {
  const auto table = render({run(1, Precision::f32, 0, 200, 1), run(1, Precision::fp16, 0, 100, 1)}, R"json({
    "name": "x", "rows": ["model"], "columns": ["peak_memory_mib"]})json");
  CHECK_THAT(table, Contains("## precision f32"));
  CHECK_THAT(table, Contains("## precision fp16"));
}

TEST_CASE("points that no row of a declaration holds are counted") {
  const auto table = render({run(1, Precision::f32, 0, 200, 1), run(1, Precision::fp16, 0, 100, 1)}, R"json({
    "name": "x", "rows": ["model"], "where": {"precision": "f32"}, "columns": ["peak_memory_mib"]})json");
  CHECK_THAT(table, Contains("1 of 2 points have no place in the tables above"));
}

TEST_CASE("a declaration that cannot be is refused with its path and the nearest choice") {
  CHECK(declaration_refusal(R"json({"name": "x", "rows": ["seq"], "columns": ["mfu"], "colums": []})json") ==
        "[spec.json: tables[0].colums] unknown key, got \"colums\", need one of name, like, title, note, "
        "where, each, sections, rows, pivot, columns, labels, sort; did you mean \"columns\"?");
  CHECK_THAT(declaration_refusal(R"json({"name": "x", "columns": ["mfu"]})json"), Contains("no \"rows\""));
  CHECK_THAT(declaration_refusal(R"json({"name": "x", "rows": [], "columns": ["mfu"]})json"),
             Contains("[spec.json: tables[0].rows]"));
  CHECK_THAT(declaration_refusal(R"json({"name": "x", "rows": ["seq"], "columns": [{"header": "A"}]})json"),
             Contains("columns[0]] a cell comes from one place"));
  CHECK_THAT(
      declaration_refusal(R"json({"name": "x", "rows": ["seq"], "columns": [{"header": "A", "text": "{mfu"}]})json"),
      Contains("columns[0].text] a { without its }"));
  CHECK_THAT(
      declaration_refusal(R"json({"name": "x", "rows": ["seq"], "columns": [{"header": "A", "text": "{mfu:x}"}]})json"),
      Contains("not a number format"));
  CHECK_THAT(declaration_refusal(
                 R"json({"name": "x", "rows": ["seq"], "columns": [{"header": "A", "value": "mfu", "as": "rato",
                         "against": "first"}]})json"),
             Contains("columns[0].as] unknown comparison") && Contains("did you mean \"ratio\""));
  CHECK_THAT(declaration_refusal(
                 R"json({"name": "x", "rows": ["seq"], "columns": [{"header": "A", "value": "mfu", "as": "ratio",
                         "against": {}}]})json"),
             Contains("columns[0].against]"));
  CHECK_THAT(declaration_refusal(R"json({"name": 3, "rows": ["seq"], "columns": ["mfu"]})json"),
             Contains("tables[0].name] wrong type, got 3"));
  CHECK_THAT(declaration_refusal(R"json(["strategies"])json"), Contains("wrong type"));
}

TEST_CASE("texts of cells") {
  const std::vector<Record> records = {
      Record(sample::measured(sample::point(4, 2, 512, "full"), {287.5, 288, 288.5}, 25061)),
      Record(sample::measured(sample::point(4, 2, 512, "baseline"), {3.21, 3.22, 3.26}, 1))};
  const std::vector<const Record*> all = {&records[0], &records[1]};
  Formatter formatter(all);
  const auto text = [&](const char* format, std::size_t record = 0, const Labels& labels = {}) {
    return formatter.format(CellText::parse(format, "test"), records[record], labels);
  };
  CHECK(text("{tp}-way, {model}") == "4-way, gpt2-345m");
  CHECK(text("{peak_memory_mib:,0} MB") == "25,061 MB");
  CHECK(text("{peak_memory_mib/1024:1}GB") == "24.5GB");
  CHECK(text("{iteration_ms:1} [+/- {iteration_ms.stddev:2}]") == "288.0 +/- 0.50");
  CHECK(text("{iteration_ms}") == "288.00");  // as many decimals as the column's 3.23 needs for three digits
  CHECK(text("{iteration_ms}", 1) == "3.23");
  CHECK(text("{losses.first} {losses.last:1} {losses.size}") == "10.8 9.9 3");
  CHECK(text("{model.layers} layers, {model.name}") == "24 layers, gpt2-345m");
  CHECK(text("{power_w:0}") == "n/a");
  CHECK(text("{seq}[ at {power_w:0} W]") == "512");
  CHECK(text("{{{seq}}} [[x]]") == "{512} [x]");
  CHECK(text("{strategy}", 0, {{"strategy", {{"full", "Full"}}}}) == "Full");
  CHECK(text("{tp}[, {dp}-way]", 0, {{"dp", {{"1", ""}}}}) == "4");
  CHECK(with_thousands("1234567.25") == "1,234,567.25");
  CHECK(with_thousands("-123456") == "-123,456");
  CHECK(with_thousands("123") == "123");
}

TEST_CASE("one sample has no spread") {
  const Record one(sample::measured(sample::point(1, 1, 1, ""), {5}, 1));
  CHECK(one.value("iteration_ms.stddev").is_null());
  CHECK(one.value("iteration_ms") == 5);
}

TEST_CASE("every built-in declaration parses and has a name of its own") {
  std::set<std::string> names;
  for (const TableDeclaration& declaration : builtin_tables()) CHECK(names.insert(declaration.name).second);
  CHECK(names.count("strategies"));
  CHECK(names.count("long"));
  CHECK(names.count("memory"));
}
