// Reports as a reader gets them: whole tables, and what the options do.
#include "reports/tables/report.h"

#include <algorithm>

#include "engine/base/error.h"
#include "reports/tables/csv.h"
#include "reports/tables/markdown.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

using Json = nlohmann::ordered_json;

std::string report_refusal(const ResultFile& file, const ReportOptions& options) {
  try {
    render_report(file, options);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

std::size_t lines_with(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

}  // namespace

TEST_CASE("a sweep of strategies prints in the shape of the published tables") {
  const std::string report = render_report(sample::strategies(), {});
  CHECK_THAT(
      report,
      Contains("## GPT-2 345M (4-way Tensor Parallelism, 2-way Pipeline Parallelism)\n\n"
               "### 512 Sequence Length\n\n"
               "| Strategy                                | Time (ms) |               Overhead | Peak Memory (MiB) | "
               "Memory Saved | Throughput (samples/s) | Tokens/s |\n"));
  CHECK_THAT(
      report,
      Contains("| Sequence Parallel + Selective Recompute | 392 +/- 1 | +36.1 % [+35.0, +37.2] |              1258 | "
               "      40.5 % |                   40.8 |    20898 |\n"));
  CHECK(lines_with(report, "\n## ") == 2);
  CHECK(lines_with(report, "\n### ") == 4);
  CHECK(lines_with(report, "| Full Recompute ") == 4);
  SECTION("a failed point is a cell with its reason below the table, escaped") {
    CHECK_THAT(report, Contains("|   OOM [1] |"));
    CHECK_THAT(report,
               Contains("- [1] rank 2: attention.scores needs 512.00 MiB of activations, 84.00 MiB \\| 31.75 GiB"));
    CHECK_THAT(report, Contains("crashed [1]"));
    CHECK_THAT(report, Contains("\\<SIGSEGV\\>"));
  }
  SECTION("it says what it was measured on, the FLOP formula and the peak with its source") {
    CHECK_THAT(report, Contains("Measured on: node01, AMD EPYC 7742, 64 cores, 502.91 GiB memory, device V100 x 8"));
    CHECK_THAT(report, Contains("Open MPI 4.1.4"));
    CHECK_THAT(report, Contains("Model FLOPs (formula version 1): 6 per weight of every matmul"));
    CHECK_THAT(report, Contains("Peak: 125 TFLOP/s per device (data sheet, fp16)"));
    CHECK_THAT(report, Contains("Every point: model gpt2-345m, micro_batch 4"));
  }
}

TEST_CASE("no report of any format hands on what a terminal or a spreadsheet obeys") {
  const std::string controls =
      "\x1b[31m \x07 \x7f \t \xC2\x9B"
      "31m";
  ResultFile file = sample::strategies();
  file.spec["name"] = "name" + controls;
  file.environment["host"] = "host" + controls;
  file.points[0].outcome = Outcome::crashed;
  file.points[0].reason = "=cmd|' /C calc'!A0" + controls;
  file.points[1].outcome = Outcome::crashed;
  file.points[1].reason = "\t@SUM(1+9)";
  file.points[1].point.strategy = "+full" + controls;
  for (const std::string format : {"md", "csv", "json"}) {
    INFO(format);
    const std::string text = render_report(file, {.format = format});
    for (const std::string control : {"\x1b", "\x07", "\x7f", "\t", "\xC2\x9B", "\r"})
      CHECK(text.find(control) == std::string::npos);
    CHECK_THAT(text, Contains("cmd|") || Contains("cmd\\|"));
  }
  const std::string csv = render_report(file, {.format = "csv"});
  CHECK_THAT(csv,
             Contains(",'=cmd|") && Contains(",' @SUM(1+9)") && !Contains(",=") && !Contains(",+") && !Contains(",@"));
}

TEST_CASE("a cell of CSV that a spreadsheet would compute is text to it, and numbers stay numbers") {
  const auto field = [](const std::string& text) {
    Table table;
    table.sections = {{{}, {{"A", "a"}}, {{Cell{text, {}}}}, {}}};
    const std::string csv = to_csv({table});
    return csv.substr(csv.find('\n') + 1, csv.rfind(",false,") - csv.find('\n') - 1);
  };
  for (const std::string number : {"-3.5", "+12", "-1e-300", "+0.5", "-inf"}) CHECK(field(number) == number);
  for (const std::string plain : {"3", "full", "=", "a=b", "392 +/- 1"}) CHECK(field(plain) == plain);
  for (const std::string unknown : {"-", "n/a"}) CHECK(field(unknown) == "");
  for (const std::string formula : {"=1+1", "+1+1", "-1+1", "@SUM(A1)", " =1", "-3.5 %", "=-3"})
    CHECK(field(formula) == "'" + formula);
  CHECK(field("\t=1") == "' =1");
  CHECK(field("\r=1") == "\"' =1\"");
  CHECK(field("=HYPERLINK(\"x\",1)") == "\"'=HYPERLINK(\"\"x\"\",1)\"");
}

TEST_CASE("GPUs are counted by their names, and their driver stands with the software") {
  ResultFile file;
  file.spec = {{"name", "x"}};
  file.environment = {{"host", "node01"},
                      {"device", "cuda"},
                      {"cuda", "CUDA 13.0, NCCL 2.28.9"},
                      {"gpus", {"NVIDIA H200", "NVIDIA H200", "NVIDIA L4"}},
                      {"driver", "580.159.04"},
                      {"gpu_links", {{"X", "NV18"}, {"NV18", "X"}}},
                      {"power_cap_w", 700}};
  const std::string report = render_report(file, ReportOptions());
  CHECK_THAT(report, Contains("Measured on: node01, device cuda, 2 x NVIDIA H200, 1 x NVIDIA L4\n"));
  CHECK_THAT(report, Contains("CUDA 13.0, NCCL 2.28.9, driver 580.159.04\n"));
  CHECK_THAT(report, Contains("Also: power_cap_w 700\n"));
}

TEST_CASE("without a strategy the default is one row per point, whatever became of it") {
  ResultFile file;
  file.spec = {{"name", "x"}, {"sweep", {{"seq", {128, 256, 512, 1024, 2048, 4096, 8192, 16384}}}}};
  const Outcome outcomes[] = {Outcome::ok,      Outcome::oom,     Outcome::infeasible, Outcome::unsupported,
                              Outcome::timeout, Outcome::crashed, Outcome::wrong,      Outcome::launch_failed};
  std::int64_t seq = 64;
  for (const Outcome outcome : outcomes) {
    PointResult r = sample::measured(sample::point(1, 1, seq *= 2, ""), {10, 11}, 100);
    file.points.push_back(outcome == Outcome::ok ? r : sample::failed(r, outcome, fmt::format("because {}", seq)));
  }
  const std::string report = render_report(file, {});
  for (const char* cell : {"| ok ", "| OOM [1] ", "| infeasible [2] ", "| unsupported [3] ", "| timeout [4] ",
                           "| crashed [5] ", "| wrong [6] ", "| launch failed [7] "})
    CHECK_THAT(report, Contains(cell));
  CHECK_THAT(report, Contains("- [6] because 8192"));
  // The loss was wrong: its speed is no result, though the record has one.
  CHECK(lines_with(report, "10.50 +/- 0.71") == 1);
  CHECK_THAT(report, Contains("Measured on: not recorded"));
}

TEST_CASE("a simulated row says so") {
  ResultFile file = sample::strategies();
  for (PointResult& r : file.points)
    if (r.point.tp == 8) r.simulated = true, r.point.device = r.device = "sim:8xdgx1";
  CHECK(lines_with(render_report(file, {}), "(simulated)") == 10);
  ReportOptions options;
  options.tables = {"long"};
  const std::string report = render_report(file, options);
  CHECK(lines_with(report, "(simulated)") == 10);
  CHECK_THAT(report, Contains("10 of 20 points are simulated (sim:8xdgx1)"));
}

TEST_CASE("programs read of a simulated row in a column of its own") {
  ResultFile file = sample::strategies();
  for (PointResult& r : file.points)
    if (r.point.tp == 8) r.simulated = true, r.point.device = r.device = "sim:8xdgx1";
  ReportOptions options;
  options.format = "csv";
  const std::string csv = render_report(file, options);
  CHECK_THAT(csv, !Contains("(simulated)"));
  CHECK_THAT(csv, Contains(",tokens_per_s,simulated,note\n"));
  CHECK(lines_with(csv, ",true,") == 10);
  CHECK(lines_with(csv, ",false,") == 10);
  options.format = "json";
  const Json row = Json::parse(render_report(file, options)).at("tables")[0].at("sections")[3].at("rows")[0];
  CHECK(row.at("simulated") == true);
  CHECK(row.at("strategy") == "Baseline");
  options.format = "csv";
  options.columns = {"strategy", "simulated"};
  CHECK_THAT(render_report(file, options), Catch::StartsWith("strategy,simulated,note\n"));
}

TEST_CASE("an overhead of measured steps has its interval, and says where no change was measured") {
  ResultFile file = sample::strategies();
  const auto around = [](double center, double spread) {
    std::vector<double> samples;
    for (int i = 0; i < 12; ++i) samples.push_back(center + spread * ((i * 5) % 12 - 5.5) / 5.5);
    return samples;
  };
  file.points.resize(5);
  const double centers[] = {100, 103, 120, 100, 120};
  for (std::size_t i = 0; i < 5; ++i) file.points[i] = sample::measured(file.points[i], around(centers[i], 10), 1000);
  file.points[3] = sample::measured(file.points[3], {100}, 1000);
  const auto row = [](const std::string& text, const std::string& name) {
    const std::size_t at = text.find("| " + name + " ");
    return text.substr(at, text.find('\n', at) - at);
  };
  const std::string report = render_report(file, {});
  CHECK_THAT(row(report, "Baseline"), Contains(" -"));
  CHECK_THAT(row(report, "Sequence Parallel"), Contains("+3.0 % [-") && Contains("] (noise)"));
  CHECK_THAT(row(report, "Selective Recompute"), Contains("+20.0 % [+1") && !Contains("noise"));
  CHECK_THAT(row(report, "Sequence Parallel + Selective Recompute"), Contains(" 0.0 % |"));  // of one sample
  CHECK_THAT(report, Contains("[ ]: the 99 % interval of the change"));
  ReportOptions csv;
  csv.format = "csv";
  CHECK_THAT(render_report(file, csv),
             Contains("iteration_ms.mean.overhead,iteration_ms.mean.overhead.low,iteration_ms.mean.overhead.high,"));
  for (PointResult& r : file.points) r.simulated = true;
  CHECK_THAT(render_report(file, {}), Contains("+20.0 % |") && !Contains("interval"));
}

TEST_CASE("points that differ in their seed alone are a row with mean and spread over the seeds") {
  ResultFile file;
  file.spec = {{"name", "x"}, {"model", "gpt2-345m"}, {"sweep", {{"seq", {512, 1024}}, {"seed", {1, 2, 3}}}}};
  for (const std::int64_t seq : {512, 1024})
    for (const std::int64_t seed : {1, 2, 3}) {
      PointResult r = sample::point(1, 1, seq, "");
      r.point.seed = static_cast<decltype(r.point.seed)>(seed);
      r.id = point_id(r.point);
      const double ms = 100 * static_cast<double>(seq) / 512 + static_cast<double>(seed);
      r = sample::measured(r, {ms - 1, ms + 1}, 1000);
      r.losses = {11, 10 + 0.5 * static_cast<double>(seed)};
      file.points.push_back(seq == 1024 && seed == 3 ? sample::failed(r, Outcome::oom, "no room") : r);
    }
  const std::string report = render_report(file, {});
  CHECK_THAT(report, Contains("## Over the seeds") &&
                         Contains("|  512 |      3 | 102.0 +/- 1.0 |              1000 |") &&
                         Contains("11.000 +/- 0.50"));
  CHECK_THAT(report, Contains("| 1024 | 2 of 3 | 201.5 +/- 0.7 |"));
  ReportOptions alone;
  alone.tables = {"seeds"};
  alone.format = "csv";
  CHECK_THAT(render_report(file, alone), Contains("512,3,102,1,"));
  file.points.resize(1);
  CHECK_THAT(render_report(file, {}), !Contains("Over the seeds"));
}

TEST_CASE("a preset with other sizes is called by what differs, and found by the preset's name") {
  ResultFile file = sample::strategies();
  file.points.resize(2);
  file.spec = {{"name", "x"}, {"sweep", {{"model", Json::array()}}}};
  file.points[0].point.model.kv_heads = 4;
  file.points[0].point.model.vocab = 1000;
  file.points[0].point.model.positions = 4096;  // seq is said
  file.points[0].id = point_id(file.points[0].point);
  const std::string report = render_report(file, {});
  CHECK_THAT(report, Contains("gpt2-345m (kv_heads 4, vocab 1000)") && !Contains("positions"));
  ReportOptions filtered;
  filtered.filters = {"model=gpt2-345m"};
  CHECK_THAT(render_report(file, filtered), Contains("vocab 1000"));
}

TEST_CASE("--metric, --columns, --sort and --filter") {
  const ResultFile file = sample::strategies();
  ReportOptions options;
  SECTION("a metric replaces the cells and keeps the rows") {
    options.metrics = {"iteration_ms.p95", "mfu"};
    const std::string report = render_report(file, options);
    CHECK_THAT(report, Contains("| Strategy                                | p95 of time (ms) |    MFU |"));
    CHECK(lines_with(report, "| Baseline ") == 4);
  }
  SECTION("columns are the whole table, in their order, sorted and filtered") {
    options.columns = {"strategy", "seq", "peak_memory_mib", "precision"};
    options.sort = "peak_memory_mib:desc";
    options.filters = {"seq=512", "tp=4", "strategy=baseline", "strategy=full"};
    const std::string report = render_report(file, options);
    CHECK_THAT(report, Contains("| strategy | seq | Peak memory (MiB) | precision |\n"
                                "| -------- | --: | ----------------: | --------- |\n"
                                "| baseline | 512 |              2113 | fp16      |\n"
                                "| full     | 512 |              1107 | fp16      |\n\n"));
  }
  SECTION("points without the value sort last") {
    options.tables = {"long"};
    options.sort = "iteration_ms";
    options.format = "csv";
    const std::string up = render_report(file, options);
    options.sort = "iteration_ms:desc";
    const std::string down = render_report(file, options);
    for (const std::string& csv : {up, down}) {
      const std::string last_two = csv.substr(csv.rfind('\n', csv.rfind('\n', csv.size() - 2) - 1) + 1);
      CHECK(lines_with(last_two, "OOM") + lines_with(last_two, "crashed") == 2);
    }
    CHECK(up.find("8,1,512,full") > up.find("4,2,512,full"));
    CHECK(down.find("8,1,512,full") < down.find("4,2,512,full"));
  }
  SECTION("names that do not exist") {
    options.metrics = {"mfuu"};
    CHECK_THAT(report_refusal(file, options), Contains("[--metric]") && Contains("did you mean \"mfu\"?"));
    options = {};
    options.columns = {"iteration_ms.mediam"};
    CHECK_THAT(report_refusal(file, options),
               Contains("[--columns]") && Contains("did you mean \"iteration_ms.median\"?"));
    options = {};
    options.tables = {"strategy"};
    CHECK_THAT(report_refusal(file, options), Contains("[--table]") && Contains("need one of all, cluster, "));
    options = {};
    options.sort = "sequence";
    CHECK_THAT(report_refusal(file, options), Contains("[--sort]"));
    options = {};
    options.sort = "seq:down";
    CHECK_THAT(report_refusal(file, options), Contains("FIELD:desc"));
    options = {};
    options.filters = {"seq=1536"};
    CHECK_THAT(report_refusal(file, options), Contains("no point has seq = 1536, need one of 512, 2048"));
    options = {};
    options.filters = {"seq"};
    CHECK_THAT(report_refusal(file, options), Contains("need field=value"));
    options = {};
    options.format = "html";
    CHECK_THAT(report_refusal(file, options), Contains("need one of md, csv, json"));
    options = {};
    options.columns = {"seq"};
    options.metrics = {"mfu"};
    CHECK_THAT(report_refusal(file, options), Contains("[--columns]"));
  }
}

TEST_CASE("a spec's own tables: declared ones, built-in ones by name, errors with their path") {
  ResultFile file = sample::strategies();
  file.spec["tables"] = nlohmann::ordered_json::parse(R"([
    "memory",
    {"name": "mine", "title": "Mine", "sections": ["tp,pp"], "rows": ["seq", "strategy"], "columns": ["mfu"]}])");
  const std::string report = render_report(file, {});
  CHECK_THAT(report, Contains("## Anatomy of the peak memory (MiB)"));
  CHECK_THAT(report, Contains("## Mine\n\n### tp 4, pp 2\n\n|  seq | strategy "));
  ReportOptions options;
  options.tables = {"mine"};
  CHECK_THAT(render_report(file, options), !Contains("Anatomy"));
  file.spec["tables"][1]["columns"][0] = "mfuu";
  CHECK_THAT(report_refusal(file, {}), Contains("table mine") && Contains("did you mean \"mfu\"?"));
  CHECK_THROWS_AS(check_tables(file.spec), Error);
  file.spec["tables"][1]["columns"] = {"mfu", "iteration_ms.p95", "memory_anatomy_mib.weights", "env.X", "losses.last"};
  CHECK_NOTHROW(check_tables(file.spec));
  file.spec["tables"][1] = "min";
  CHECK_THROWS_AS(check_tables(file.spec), Error);
  CHECK_THAT(report_refusal(file, {}), Contains("[spec.tables[1]] no table of that name"));
}

TEST_CASE("markdown cannot be broken out of, and columns line up") {
  CHECK(escape_markdown("a|b <c> \\ d\ne") == "a\\|b \\<c\\> \\\\ d e");
  Section section;
  section.columns = {{"a", "a", false}, {"\xC2\xB5s", "b", true}};
  section.rows = {{Cell{"\xC2\xB1"
                        "1",
                        {}},
                   Cell{"x\ny", {}}}};
  CHECK(grid_to_markdown(section) ==
        "| a   |     \xC2\xB5s |\n"
        "| --- | -----: |\n"
        "| \xC2\xB1"
        "1  | x<br>y |\n");
  // Every line of every table of a report has as many columns as its header.
  const std::string report = render_report(sample::strategies(), {});
  std::size_t expected = 0, tables = 0;
  for (std::size_t at = 0; at < report.size();) {
    const std::size_t end = report.find('\n', at);
    const std::string line = report.substr(at, end - at);
    const bool row = line.substr(0, 2) == "| ";
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    if (row && expected == 0) expected = bars, ++tables;
    if (row) CHECK(bars == expected);
    if (!row) expected = 0;
    at = end + 1;
  }
  CHECK(tables == 4);
}

TEST_CASE("csv holds numbers at full precision, gaps as nothing and reasons quoted") {
  ReportOptions options;
  options.format = "csv";
  const std::string csv = render_report(sample::strategies(), options);
  CHECK(csv.substr(0, csv.find('\n')) ==
        "section,section2,strategy,iteration_ms.mean,iteration_ms.stddev,iteration_ms.mean.overhead,"
        "iteration_ms.mean.overhead.low,iteration_ms.mean.overhead.high,peak_memory_mib,"
        "peak_memory_mib.saved,samples_per_s,tokens_per_s,simulated,note");
  CHECK_THAT(csv,
             Contains(",Selective Recompute,336,1.4142135623730951,0.16666666666666666,0.1568") && Contains(",1631,"));
  CHECK_THAT(csv, Contains(",Baseline,288,1.4142135623730951,,,,2113,,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 21);
}

TEST_CASE("json holds the same rows for programs") {
  ReportOptions options;
  options.format = "json";
  const auto json = nlohmann::json::parse(render_report(sample::strategies(), options));
  CHECK(json.at("schema") == "mbench.report/1");
  CHECK(json.at("environment").at("cores") == 64);
  const auto& sections = json.at("tables").at(0).at("sections");
  REQUIRE(sections.size() == 4);
  CHECK(sections[0].at("rows")[2].at("peak_memory_mib") == 1631);
  CHECK(sections[1].at("rows")[1].at("peak_memory_mib") == "OOM");
  CHECK_THAT(sections[1].at("rows")[1].at("note").get<std::string>(), Contains("attention.scores"));
}

TEST_CASE("no points, and points with nothing but their configuration") {
  ResultFile file;
  CHECK_THAT(render_report(file, {}), Contains("No points."));
  file.points.push_back(sample::failed(sample::point(1, 1, 128, ""), Outcome::infeasible, ""));
  const std::string report = render_report(file, {});
  CHECK_THAT(report, Contains("| gpt2-345m | infeasible |"));
  CHECK_THAT(report, Contains("Peak: n/a, so MFU and HFU are n/a."));
}
