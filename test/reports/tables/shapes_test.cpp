// What options and derived names do to tables of every shape, and how long a large file takes.
#include "engine/base/error.h"
#include "engine/point/bundles.h"
#include "engine/point/point_builder.h"
#include "reports/tables/builtin_tables.h"
#include "test/catch.h"
#include "test/reports/tables/fixture.h"
#include "test/support/pace.h"
#include "test/support/sanitizer.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
using fixture::Json;

namespace {

ResultFile golden(const std::string& name) {
  const std::string path = MBENCH_SOURCE_DIR "/test/reports/tables/declared/" + name + ".json";
  return fixture::file_of(parse_json(read_text_file(path), path), path);
}

std::string table_of(const ResultFile& file, const ReportOptions& options) {
  return fixture::tables_of(render_report(file, options));
}

std::string shape_refusal(const char* tables) {
  ResultFile file = sample::strategies();
  file.spec["tables"] = Json::parse(tables);
  try {
    render_report(file, {});
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a metric goes into each column that shows points of its own") {
  ReportOptions options;
  options.tables = {"fp16-savings"};
  options.metrics = {"world"};
  CHECK_THAT(table_of(golden("fp16-savings"), options), Contains("| batch size | w/o fp16 | w/ fp16 |\n"));
  options.metrics = {"world", "seq"};
  CHECK_THAT(table_of(golden("fp16-savings"), options),
             Contains("| batch size | w/o fp16, world | w/o fp16, seq | w/ fp16, world | w/ fp16, seq |\n"));
}

TEST_CASE("sorting moves rows, and neither columns nor what they are compared with") {
  ReportOptions options;
  options.tables = {"weak-scaling"};
  options.sort = "iteration_ms:desc";
  const std::string weak = table_of(golden("weak-scaling"), options);
  CHECK(weak.find("|       4 | gpt2-345m |") < weak.find("|       1 | gpt2-345m |"));
  CHECK_THAT(weak, Contains("100.0 | 32.7 %") || Contains("100.0 % (baseline) |"));
  CHECK_THAT(weak, Contains(" 29.8 % |             90.9 % |"));
  options.tables = {"cluster"};
  options.sort = "samples_per_s:desc";
  const std::string cluster = table_of(golden("cluster"), options);
  CHECK_THAT(cluster, Contains("|  1, 1*1 | 8, 1*8 | 32, 4*8 |"));
  options.sort = "samples_per_s";
  const std::string upwards = table_of(golden("cluster"), options);
  CHECK(upwards.find("with zero3") < upwards.find("| bert-345m    "));
}

TEST_CASE("a filter that leaves out the row of comparison leaves nothing to say") {
  ReportOptions options;
  options.tables = {"strategies"};
  options.filters = {"strategy=full", "seq=512"};
  CHECK_THAT(table_of(golden("strategies"), options), Contains("|      n/a |"));
}

TEST_CASE("a table can be like a built-in one but for some keys") {
  ResultFile file = sample::strategies();
  file.spec["tables"] = Json::parse(R"json([{"like": "strategies", "note": "", "columns": [
    {"header": "Time", "text": "{iteration_ms:0}"},
    {"header": "Slower", "value": "iteration_ms", "as": "difference", "against": {"strategy": "baseline"},
     "format": "{value:+0} ms", "self": "baseline"}]}])json");
  const std::string table = table_of(file, {});
  CHECK_THAT(table, Contains("## GPT-2 345M (4-way Tensor Parallelism, 2-way Pipeline Parallelism)\n\n### 512 "));
  CHECK_THAT(table, Contains("|  288 | baseline |\n") && Contains("|  340 |   +52 ms |\n"));
  CHECK_THAT(table, !Contains("Overhead"));
}

TEST_CASE("mistakes in comparisons, formats, sort and like are refused with their place") {
  CHECK_THAT(shape_refusal(R"([{"like": "strategy"}])"),
             Contains("[spec.tables[0].like] no built-in table of that name"));
  CHECK_THAT(shape_refusal(R"([{"like": "long", "sort": "seq:up"}])"),
             Contains("[spec.tables[0].sort[0]] unknown order") && Contains("FIELD:desc"));
  CHECK_THAT(shape_refusal(R"([{"like": "long", "sort": ["sequence"]}])"), Contains("table long"));
  const std::string head = R"([{"like": "long", "columns": [{"header": "A", )";
  CHECK_THAT(
      shape_refusal((head + R"("value": "mfu", "as": "ratio", "against": "first", "format": "{mfu}"}]}])").c_str()),
      Contains("columns[0].format] a comparison has one number, got {mfu}"));
  CHECK_THAT(shape_refusal((head + R"("text": "{mfu}", "self": "x"}]}])").c_str()),
             Contains("columns[0].self] goes only with \"value\""));
  for (const char* text : {"{mfu:g}", "{mfu:3g2}", "{mfu:3g2-1}", "{mfu:+}", "{mfu:0s}", "{mfu:16}"})
    CHECK_THAT(shape_refusal((head + R"("text": ")" + text + R"("}]}])").c_str()), Contains("not a number format"));
}

TEST_CASE("numbers by themselves, with a sign, and what follows from others") {
  PointResult r = sample::measured(sample::point(4, 2, 512, ""), {287.5, 288, 288.5}, 25061);
  r.point.dp = 3, r.world = 24, r.point.micro_batch = 2, r.point.global_batch = 24, r.point.iterations = 100;
  ResultFile file;
  file.environment = {{"devices_per_node", 8}, {"power_cap_w", 400}};
  file.points = {r};
  const std::vector<Record> records = records_of(file);
  const std::vector<const Record*> all = {&records[0]};
  Formatter formatter(all);
  const auto text = [&](const char* format) { return formatter.format(CellText::parse(format, "t"), records[0], {}); };
  CHECK(text("{nodes}*{devices_per_node}") == "3*8");
  CHECK(text("{micro_batches} {runtime_s:1} {environment.power_cap_w} {environment.x}") == "4 28.8 400 n/a");
  CHECK(text("{iteration_ms.samples.size} of {iteration_ms.samples.first:1}") == "3 of 287.5");
  CHECK(text("{mfu*100:+1} {iteration_ms:3g} {iteration_ms:3g1-2} {mfu:3g1-2} {mfu:4g}") ==
        "+55.6 288 288.0 0.56 0.5556");
  CHECK(text("{world:+0}") == "+24");
  CHECK(formatter.number(-0.02, CellText::parse("{value*100:+1} %", "t")) == "-2.0 %");
  CHECK(formatter.number(-0.0002, CellText::parse("{value*100:+1} %", "t")) == "0.0 %");
  CHECK(Record(r).value("nodes").is_null());  // nothing says how many devices a node has
  require_name(records, "nodes", "t");
  CHECK_THROWS_AS(require_name(records, "node", "t"), Error);
}

TEST_CASE("programs find each number of a cell, each under a name of its own") {
  ReportOptions options;
  options.format = "csv";
  options.tables = {"cluster-full"};
  const std::string csv = render_report(golden("cluster-full"), options);
  CHECK_THAT(csv, Contains("\"8, 1*8: samples_per_s\",\"8, 1*8: tflops_per_device\",\"8, 1*8: device_memory_mib\","));
  CHECK_THAT(csv, Contains("bert-345m,137.94,11.2,20480,32510,251.3,300,0.931,270.1,11.1,,32510,,300,,false,\n"));
  options.tables = {"fp16-savings"};
  CHECK_THAT(render_report(golden("fp16-savings"), options),
             Contains(",peak_memory_mib,w/ fp16: peak_memory_mib,peak_memory_mib.reduction,simulated,note\n"));
  options.format = "json";
  const Json json = Json::parse(render_report(golden("fp16-savings"), options));
  CHECK(json.at("tables")[0].at("sections")[0].at("rows")[0].at("w/ fp16: peak_memory_mib") == 4163);
}

TEST_CASE("any table of 10,000 points with 100 samples each prints in a moment, reading included") {
  constexpr std::int64_t kLengths = test::kSanitized ? 1 : 20;  // where no time is held, fewer will do
  constexpr std::size_t kPoints = 500 * kLengths;
  ResultFile file;
  file.environment = sample::environment();
  file.spec = {{"name", "large"}, {"sweep", {{"tp,pp", {}}, {"dp", {}}, {"seq", {}}, {"strategy", {}}}}};
  for (const std::int64_t tp : {1, 2, 4, 8})
    for (const std::int64_t pp : {1, 2, 4, 8, 16})
      for (const std::int64_t dp : {1, 2, 4, 8, 16})
        for (std::int64_t seq = 128; seq <= kLengths * 128; seq += 128)
          for (const Bundle& strategy : bundles()) {
            PointResult r = sample::point(tp, pp, seq, strategy.name);
            r.point.dp = dp, r.world = r.point.world(), r.id = point_id(r.point);
            std::vector<double> samples;
            for (int i = 0; i < 100; ++i)
              samples.push_back(static_cast<double>(seq) * (1 + 0.0123456789 * ((i * 37) % 100) / 100));
            r = sample::measured(r, samples, static_cast<double>(seq) * 1.2345678 / static_cast<double>(tp));
            r.losses = r.gradient_norms = samples;
            r.peak_memory_by_rank_mib.resize(8);
            file.points.push_back(std::move(r));
          }
  REQUIRE(file.points.size() == kPoints);
  const test::TemporaryFolder folder;
  write_result_file(folder / "results.json", file);
  ResultFile again;
  // All of them in one report, which makes a record of each point once.
  double reading = 0, printing = 0;
  const double idle = test::idle_seconds([&] {
    reading = test::cpu_seconds([&] { again = read_result_file(folder / "results.json"); });
    REQUIRE(again.points.size() == kPoints);
    ReportOptions options;
    options.tables = builtin_names();
    printing =
        test::cpu_seconds([&] { CHECK(render_report(again, options).size() > kPoints * options.tables.size()); });
    return reading + printing;
  });
  WARN(kPoints << " points read in " << reading << " s; " << builtin_names().size() << " tables printed in " << printing
               << " s; " << idle << " s of an idle machine");
#ifdef NDEBUG
  CHECK(idle < test::allowed_seconds(30));  // about 14; a table that grows with the square takes minutes
#endif
}
