// The page of a report: what must stand in it, and that it is sound HTML that asks for nothing.
#include "reports/page/html.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "reports/page/html_text.h"
#include "reports/page/reproduce.h"
#include "reports/plots/timeline.h"
#include "test/catch.h"
#include "test/reports/plots/plot_sample.h"
#include "test/support/pace.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kNoGnuplot = "no-such-gnuplot";

std::string page_of(const ResultFile& file, const ReportOptions& options = {}) {
  return html_report({{"out/results.json", file}}, options, {}, kNoGnuplot).text;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// The value of an attribute in a tag, quoted or not; empty if it has none.
std::string attribute(const std::string& tag, const std::string& name) {
  std::size_t at = tag.find(" " + name + "=");
  if (at == std::string::npos) return "";
  at += name.size() + 2;
  if (tag[at] == '"') return tag.substr(at + 1, tag.find('"', at + 1) - at - 1);
  return tag.substr(at, tag.find_first_of(" >", at) - at);
}

// Every element is closed in turn, every id stands once, every link within the page leads somewhere. Returns
// what is wrong, or nothing.
std::string trouble_in(const std::string& html) {
  static const std::set<std::string> empty = {"meta", "link", "br", "path", "use", "polygon"};
  std::vector<std::string> open;
  std::set<std::string> ids, targets;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    if (html.compare(at, 9, "<!doctype") == 0) {
      ++at;
      continue;
    }
    std::size_t end = at;
    for (bool quoted = false; end < html.size() && (quoted || html[end] != '>'); ++end)
      if (html[end] == '"') quoted = !quoted;
    const std::string tag = html.substr(at, end - at + 1);
    at = end;
    const bool closing = tag[1] == '/';
    const std::string name = tag.substr(closing ? 2 : 1, tag.find_first_of(" />", 2) - (closing ? 2 : 1));
    if (closing) {
      if (open.empty() || open.back() != name) return "closes what is not open: " + tag;
      open.pop_back();
      continue;
    }
    const std::string id = attribute(tag, "id"), link = attribute(tag, "href");
    if (!id.empty() && !ids.insert(id).second) return "an id stands twice: " + id;
    if (!link.empty() && link[0] == '#') targets.insert(link.substr(1));
    if (!link.empty() && link[0] != '#' && link != "data:,") return "a link leads out: " + link;
    if (!attribute(tag, "src").empty()) return "something is loaded: " + tag;
    if (empty.count(name) || tag.ends_with("/>")) continue;
    open.push_back(name);
    if (name == "script" || name == "style") at = html.find("</" + name, at);
  }
  if (!open.empty()) return "is not closed: " + open.back();
  for (const std::string& target : targets)
    if (!ids.count(target)) return "a link leads nowhere: #" + target;
  return "";
}

}  // namespace

TEST_CASE("the page has no control characters of 7 or 8 bits") {
  ResultFile file = sample::strategies();
  file.environment["host"] =
      "host\x1b[31m \xC2\x9B"
      "31m";
  file.points[0].outcome = Outcome::crashed;
  file.points[0].reason =
      "red \x1b[31m \x07 \x7f \xC2\x9B"
      "31m";
  const std::string page = page_of(file);
  for (const std::string control : {"\x1b", "\x07", "\x7f", "\xC2\x9B", "\x9b"})
    CHECK(page.find(control) == std::string::npos);
  CHECK_THAT(page, Contains("red "));
}

TEST_CASE("a page holds the tables, every point, and where the numbers come from") {
  const ResultFile file = sample::strategies();
  const std::string page = page_of(file);
  CHECK(trouble_in(page).empty());
  CHECK_THAT(page, Contains("<title>gpt345m</title>"));
  CHECK_THAT(page, Contains("<h3>GPT-2 345M (4-way Tensor Parallelism, 2-way Pipeline Parallelism)</h3>"));
  CHECK_THAT(page, Contains("<caption>512 Sequence Length</caption>"));
  CHECK_THAT(page, Contains("<th scope=col class=r>Time (ms)</th>"));
  CHECK_THAT(page, Contains("392 \u00b1 1</td>"));
  SECTION("a row leads to its point, which has the samples, the losses and the command") {
    const PointResult& point = file.points[4];
    CHECK_THAT(page, Contains("<a href=\"#f1-" + point.id + "\">Full Recompute</a>"));
    const std::size_t at = page.find("<tr id=\"f1-" + point.id);
    REQUIRE(at != std::string::npos);
    const std::string row = page.substr(at, page.find("</tr>", at) - at);
    CHECK_THAT(row, Contains("tp 4, pp 2, seq 512, full"));
    CHECK_THAT(row, Contains("<td class=r>6</td><td class=r>412.0 \u00b1 1.4</td>"));
    CHECK_THAT(row, Contains("<td class=r>410.0 to 414.0</td>"));
    CHECK_THAT(row, Contains("10.8321 \u2192 9.9034"));
    CHECK_THAT(row, Contains("<span>mbench sweep out/results.json</span> <span>--on cuda</span> "
                             "<span>--filter tp=4</span> <span>--filter pp=2</span> <span>--filter seq=512</span> "
                             "<span>--filter strategy=full</span>"));
    for (const PointResult& p : file.points) CHECK(count(page, "<tr id=\"f1-" + p.id + "\" ") == 1);
  }
  SECTION("a failure is named with its reason, at the table and at the point") {
    CHECK_THAT(page,
               Contains("class=\"r gap\">") && Contains("OOM<sup><a href=\"#f1-note-strategies-2-1\">1</a></sup>"));
    CHECK(count(page, "84.00 MiB | 31.75 GiB are free") == 2);
    CHECK(count(page, "signal 11 &lt;SIGSEGV&gt;") == 2);
    CHECK_THAT(page, Contains("<dt>Points</dt><dd>18 ok, 1 oom, 1 crashed</dd>"));
  }
  SECTION("the machine, the formula and the peak stand at the top and below every table") {
    CHECK_THAT(page, Contains("<dt>Measured on</dt><dd>node01, AMD EPYC 7742, 64 cores"));
    CHECK(count(page,
                "<p class=source>Measured on: node01, AMD EPYC 7742, 64 cores, 502.91 GiB memory, device V100 "
                "x 8. FLOP formula version 1. Peak: 125 TFLOP/s per device (data sheet, fp16).</p>") == 2);
    CHECK_THAT(page, Contains("6 per weight of every matmul and token"));
  }
}

TEST_CASE("a page opens with the best and the worst point, what bounds them, and what is flagged") {
  ResultFile file = sample::strategies();
  const auto answer_of = [](const std::string& page) {
    const std::size_t at = page.find("<h2>Answer</h2>");
    REQUIRE(at != std::string::npos);
    return page.substr(at, page.find("</div>", at) - at);
  };
  const std::string page = page_of(file), answer = answer_of(page);
  CHECK(page.find("<h2>Answer</h2>") < page.find("<dl class=facts>"));
  CHECK_THAT(answer, Contains("<strong>Best</strong>: <a href=\"#f1-") && Contains("tokens/s per device"));
  CHECK_THAT(answer, Contains("<strong>Worst</strong>: <a href=\"#f1-") && Contains("Bound by GEMMs 50 %"));
  CHECK_THAT(answer, Contains("of 18 points with a time"));
  CHECK_THAT(answer, Contains("2 of 20 points without a time:") && Contains(": OOM</li>"));
  SECTION("a measurement that was disturbed is named with its reason") {
    file.points[3].cpu_share_by_rank = {0.99, 0.4};
    CHECK_THAT(answer_of(page_of(file)),
               Contains("1 of 20 points flagged:") && Contains("starved: rank 1 had a core for 40 %"));
  }
  SECTION("models that differ are ranked by FLOP/s, since their tokens are not the same work") {
    file.points[1].point.model = find_preset("gpt2-1.5b", "test");
    file.points[1].id = point_id(file.points[1].point);
    CHECK_THAT(answer_of(page_of(file)), Contains("TFLOP/s per device"));
  }
  SECTION("a single point is the result, and one without a time says so") {
    file.points.resize(1);
    CHECK_THAT(answer_of(page_of(file)), Contains("<strong>Result</strong>") && !Contains("Worst"));
    file.points[0] = sample::failed(file.points[0], Outcome::oom, "full");
    file.points[0].iteration_ms.reset(), file.points[0].tokens_per_s.reset();
    CHECK_THAT(answer_of(page_of(file)), Contains("No point has a time."));
  }
}

TEST_CASE("a page carries the figures of its points, which nothing in a name can end") {
  ResultFile file = sample::strategies();
  file.points[0].throttle_reasons = "</script><b>";
  const std::string page = page_of(file);
  CHECK(trouble_in(page).empty());
  const std::string begin = "<script type=\"application/json\" id=\"f1-pairs\">";
  const std::size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const auto pairs =
      nlohmann::json::parse(page.substr(at + begin.size(), page.find("</script>", at) - at - begin.size()));
  CHECK(pairs.at("points").size() == file.points.size());
  const auto& names = pairs.at("names");
  for (const auto& [id, figures] : pairs.at("points").items()) CHECK(figures.size() == names.size());
  const auto place = std::find(names.begin(), names.end(), "Time (ms)") - names.begin();
  CHECK(pairs.at("points").at(file.points[4].id)[static_cast<std::size_t>(place)] == "412.0 +/- 1.4");
  CHECK(std::find(names.begin(), names.end(), "MFU") != names.end());
  CHECK(std::find(names.begin(), names.end(), "HFU") == names.end());  // no point has it
  file.points.resize(1);
  CHECK(page_of(file).find("id=\"f1-pairs\"") == std::string::npos);
}

TEST_CASE("a page counts the steps of each point and those that are outliers") {
  ResultFile file = sample::strategies();
  std::vector<double> samples(20, 100);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] += 0.1 * static_cast<double>(i % 3);
  samples[7] = 300;
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), samples, 1107)};
  const std::string page = page_of(file);
  const std::string row = page.substr(page.find("<tr id=\"f1-"));
  CHECK_THAT(row, Contains("<td>ok</td><td class=r>20</td>"));
  CHECK_THAT(row, Contains("<td class=r>100.0 to 300.0</td><td class=r>1</td>"));
}

TEST_CASE("the commands of a search's page each name one of the layouts that it found") {
  ResultFile file = sample::strategies();
  file.spec = {{"name", "s"}, {"model", "gpt2-345m"}, {"search", {"tp", "micro_batch"}}};
  file.points.resize(5);
  file.points[0].point.micro_batch = 2;
  file.points[0].id = point_id(file.points[0].point);
  const std::string page = page_of(file);
  CHECK(count(page, "<span>--filter micro_batch=2</span>") == 1);
  CHECK(count(page, "<span>--filter micro_batch=4</span>") == 4);
  CHECK(count(page, "<span>--filter strategy=full</span>") + count(page, "<span>--filter recompute=full</span>") == 1);
}

TEST_CASE("the page of a search begins with its answer, and has the front and what was left out") {
  ResultFile file = sample::strategies();
  file.environment["search"] = {
      {"answer", {"Best by time: tp=2 <pp>=1, 12.6 s, 74 GiB of 75 GiB a rank."}},
      {"counted", "12 layouts that can be: 3 simulated, 9 ruled out by a lower bound."},
      {"front",
       {{{"layout", "tp=2"}, {"id", "a"}, {"iteration_ms", 200.0}, {"needed_mib", 900.0}},
        {{"layout", "tp=8"}, {"id", "b"}, {"iteration_ms", 250.0}, {"needed_mib", 300.0}}}},
      {"left_out", {"4 layouts do not fit: rank 0, activations", "2 layouts cannot be: tp 3 and 16 heads"}}};
  const std::string page = page_of(file);
  CHECK(trouble_in(page) == "");
  CHECK_THAT(page, Contains("Answer</h2>") && Contains("Best by time: tp=2 &lt;pp&gt;=1, 12.6 s"));
  CHECK(page.find("Answer</h2>") < page.find("<dl class=facts>"));
  CHECK(count(page, "ruled out by a lower bound") == 1);  // and not among the facts again
  CHECK_THAT(page, Contains("<th scope=row>tp=8</th><td>250</td><td>25.0</td><td>300</td>"));
  CHECK_THAT(page,
             Contains("<li>4 layouts do not fit: rank 0, activations</li>") && Contains("<li>2 layouts cannot be"));
  file.environment["search"] = {{"answer", "not a list"}, {"front", {1, nullptr}}, {"left_out", {7}}};
  CHECK(trouble_in(page_of(file)) == "");  // what another program wrote there does not break the page
  file.environment.erase("search");
  CHECK_THAT(page_of(file),
             Contains("<strong>Best</strong>") && !Contains("Best by time"));  // no search: of its points
}

TEST_CASE("without gnuplot a page has its tables and says what to install") {
  const HtmlReport report = html_report({{"r.json", sample::strategies()}}, {}, {}, kNoGnuplot);
  CHECK(count(report.text, "<figure") == 0);
  CHECK(count(report.text, "<table") == 5);
  REQUIRE(report.notes.size() == 1);
  CHECK_THAT(report.notes[0], Contains("gnuplot-nox"));
  CHECK_THAT(report.text, Contains("gnuplot-nox"));
}

TEST_CASE("plots stand in the page as elements of it, with their source") {
  const HtmlReport report = html_report({{"r.json", sample::strategies()}, {"s.json", sample::scaling()}}, {});
  REQUIRE(!report.notes.empty());
  if (report.notes[0].starts_with("No plots")) {
    WARN("not checked: " << report.notes[0]);
    return;
  }
  CHECK(report.notes == std::vector<std::string>{"The page holds 12 of 14 plots, those of each kind that vary most. "
                                                 "--filter chooses, --plots DIR writes all."});
  CHECK(trouble_in(report.text) == "");
  CHECK(report.text.find("<rect class=\"tip\"") != std::string::npos);
  const std::size_t figures = count(report.text, "<figure");
  CHECK(figures >= 14);
  CHECK(count(report.text, "<svg viewBox=") == figures);
  CHECK(count(report.text, "<span class=source>Measured on: node01") +
            count(report.text, "<span class=source>Simulated on: ") ==
        figures);
  CHECK(count(report.text, "role=\"img\" aria-label=\"Time overhead against Baseline: GPT-2 345M (4-way") == 1);
  CHECK(report.text.find("://") == std::string::npos);
}

TEST_CASE("simulated rows and plots are marked where they stand") {
  const std::string page = page_of(sample::scaling());
  CHECK(count(page, "<span class=sim>simulated</span>") ==
        14);  // each in its table and in the list; the best, the worst
  CHECK_THAT(page, Contains("<p class=sim>Rows marked simulated were computed by a model of a machine"));
  CHECK_THAT(page, Contains("6 of 6 points are simulated (sim:8xV100)"));
  CHECK(page_of(sample::strategies()).find("class=sim") == std::string::npos);
}

TEST_CASE("no name can leave its place in the page") {
  const std::string evil =
      "</td></script><script>alert(1)</script> \"x\" 'y' &amp; a|b Gr\u00f6\u00dfe \u6a21\u578b \xff\xc3(";
  ResultFile file = sample::strategies();
  file.spec["name"] = evil;
  file.spec["sweep"] = {{"env", nlohmann::ordered_json::array()}, {"data", nlohmann::ordered_json::array()}};
  file.environment["cpu"] = evil;
  file.points.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    file.points[i].point.data = evil + std::to_string(i);
    file.points[i].point.env = {{"NAME", evil}};
    file.points[i].reason = evil;
    file.points[i].id = point_id(file.points[i].point);
  }
  const HtmlReport report = html_report({{evil + ".json", file}}, {}, {}, kNoGnuplot);
  CHECK(trouble_in(report.text).empty());
  CHECK(count(report.text, "<script>") == 1);
  CHECK(count(report.text, "</script>") == 2);  // of the page's own, and of the points' figures
  CHECK_THAT(report.text, Contains("&lt;/td&gt;&lt;/script&gt;&lt;script&gt;alert(1)") &&
                              Contains("a|b Gr\u00f6\u00dfe \u6a21\u578b \uFFFD\uFFFD("));
  CHECK(escape_html("\xed\xa0\x80 \xf0\x9f\x98\x80 \xc0\xaf") == "\uFFFD\uFFFD\uFFFD \xf0\x9f\x98\x80 \uFFFD\uFFFD");
}

TEST_CASE("several files share a page, each with its own points") {
  const ResultFile file = sample::strategies();
  const HtmlReport report = html_report({{"a.json", file}, {"b.json", file}}, {}, {}, kNoGnuplot);
  CHECK(trouble_in(report.text).empty());
  CHECK_THAT(report.text,
             Contains("<h2>gpt345m</h2>") && Contains("mbench sweep a.json") && Contains("mbench sweep b.json"));
  CHECK(count(report.text, "id=\"f2-" + file.points[0].id + "\"") == 1);
}

TEST_CASE("filters and tables choose what is on the page, as they do in other formats") {
  ReportOptions options;
  options.filters = {"seq=512"};
  options.tables = {"memory"};
  const std::string page = page_of(sample::strategies(), options);
  CHECK(count(page, "<tr id=\"f1-") == 10);
  CHECK_THAT(page, Contains("Anatomy of the peak memory (MiB)"));
  options.filters = {"seq=513"};
  CHECK_THROWS_AS(page_of(sample::strategies(), options), Error);
}

TEST_CASE("a file without points, or one that nothing is known of, is still a page") {
  ResultFile file;
  CHECK(trouble_in(page_of(file)).empty());
  file.points.push_back(sample::failed(sample::point(1, 1, 128, ""), Outcome::launch_failed, ""));
  const std::string page = page_of(file);
  CHECK(trouble_in(page).empty());
  CHECK_THAT(page, Contains("launch failed") && Contains("Measured on</dt><dd>not recorded"));
}

TEST_CASE("the command names its point: by the spec's swept fields, else by the point itself") {
  ResultFile file = sample::strategies();
  const auto command = [&](std::size_t i) { return reproduce_command(file, "r.json", Record(file.points[i])); };
  CHECK(command(19) ==
        "mbench sweep r.json --on cuda --filter tp=8 --filter pp=1 --filter seq=2048 --filter strategy=full");
  SECTION("a value goes in as --filter reads it, and as a shell takes it") {
    file.spec["sweep"] = {{"data", {"text:a b.txt"}},
                          {"env", nlohmann::ordered_json::array()},
                          {"model", nlohmann::ordered_json::array()}};
    file.points[0].point.data = "text:it's a b.txt";
    file.points[0].point.env = {{"NCCL_P2P_DISABLE", "1"}};
    CHECK(command(0) ==
          "mbench sweep r.json --on cuda --filter 'data=text:it'\\''s a b.txt' "
          "--filter 'env={\"NCCL_P2P_DISABLE\":\"1\"}' --filter model=gpt2-345m");
  }
  SECTION("without a spec the point is written first") {
    file.spec = nullptr;
    const std::string line = command(0);
    CHECK_THAT(line, Contains("printf '%s\\n' '{\"model\":\"gpt2-345m\",\"seq\":512,"));
    CHECK_THAT(line,
               Contains("> " + file.points[0].id + ".point.json && mpirun -np 8 mbench run " + file.points[0].id));
  }
}

TEST_CASE("a page of 10,000 points is made in seconds") {
  ResultFile file;
  file.environment = sample::environment();
  file.spec = {{"name", "big"},
               {"model", "gpt2-345m"},
               {"sweep", {{"tp,pp", {{1, 1}}}, {"dp", {1}}, {"seq", {1}}, {"strategy", {"full"}}}}};
  constexpr int kLengths = test::kSanitized ? 2 : 50;  // where no time is held, fewer will do
  constexpr std::size_t kPoints = 200 * kLengths;
  std::vector<double> samples(100);
  for (int tp = 1; tp <= 8; tp *= 2)
    for (int pp = 1; pp <= 2; ++pp)
      for (int dp = 1; dp <= 5; ++dp)
        for (int seq = 1; seq <= kLengths; ++seq)
          for (const char* strategy :
               {"baseline", "sequence_parallel", "selective", "sequence_parallel+selective", "full"}) {
            PointResult r = sample::point(tp, pp, 128 * seq, strategy);
            r.point.dp = dp;
            r.id = point_id(r.point);
            for (std::size_t i = 0; i < samples.size(); ++i)
              samples[i] = 10.0 * seq / tp + static_cast<double>(i * i % 17) / 10;
            file.points.push_back(sample::measured(r, samples, 100 * seq));
          }
  REQUIRE(file.points.size() == kPoints);
  HtmlReport report;
  const double seconds = test::idle_seconds([&] {
    return test::cpu_seconds([&] { report = html_report({{"big.json", file}}, {}); });
  });
  CHECK(count(report.text, "<tr id=\"f1-") == kPoints);
#ifdef MBENCH_UNDER_ASAN
  WARN("not held to its limit under the sanitizers: " << seconds << " s of an idle machine");
#else
  WARN(seconds << " s of an idle machine");
  CHECK(seconds < test::allowed_seconds(10));  // about 5
#endif
}
