#include "reports/tables/text_width.h"

#include "engine/base/error.h"
#include "reports/tables/csv.h"
#include "reports/tables/json.h"
#include "reports/tables/markdown.h"
#include "reports/tables/report.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

TEST_CASE("wide characters take two columns, combining ones none") {
  CHECK(text_width("") == 0);
  CHECK(text_width("abc") == 3);
  CHECK(text_width("\u00b1\u00b5\u00d7") == 3);
  CHECK(text_width("Mod\u00e8le") == 6);
  CHECK(text_width("Mode\u0300le") == 6);
  CHECK(text_width("\u6a21\u578b") == 4);                      // Han
  CHECK(text_width("\ubaa8\ub378 \u30e2\u30c7\u30eb") == 11);  // Hangul and kana
  CHECK(text_width("\uff27\uff30\uff34") == 6);                // full-width Latin
  CHECK(text_width("\U0001f680") == 2);
  CHECK(text_width("\u0e42\u0e21\u0e40\u0e14\u0e25") == 5);  // Thai letters
  CHECK(text_width("\u2b50\U0001f7e9\U0001f004") == 6);      // a star, a green square, a tile
  CHECK(text_width("\u0995\u09c1") == 1);                    // Bengali, a vowel sign below
  CHECK(text_width("a\xff\xfe") == 3);                       // no UTF-8
  CHECK(text_width("\xe6\xa8") == 2);                        // cut short
}

TEST_CASE("columns line up below names of any script") {
  Section section;
  section.columns = {{"\u6a21\u578b", "model", false}, {"ms", "ms", true}};
  section.rows = {{Cell{"gpt", {}}, Cell{"1.5", 1.5}}, {Cell{"Mode\u0300le", {}}, Cell{"12.5", 12.5}}};
  CHECK(grid_to_markdown(section) ==
        "| \u6a21\u578b   |   ms |\n"
        "| ------ | ---: |\n"
        "| gpt    |  1.5 |\n"
        "| Mode\u0300le | 12.5 |\n");
}

TEST_CASE("names with markup, quotes and commas come out as themselves in every format") {
  const std::string name = "a|b \"c\", <d> & &amp; [e](f) `g` `h` \\ _i_ \u6a21\u578b";
  ResultFile file;
  file.environment = sample::environment();
  file.spec = {{"name", name}};
  PointResult r = sample::measured(sample::point(1, 1, 128, ""), {10, 11}, 100);
  r.point.model.name = name;
  file.points = {r, sample::failed(sample::point(2, 1, 128, ""), Outcome::crashed, "said \"a|b\",\n<c>")};
  ReportOptions options;
  options.columns = {"model", "outcome", "iteration_ms.mean"};
  const std::string md = render_report(file, options);
  CHECK_THAT(md, Contains("# a\\|b \"c\", \\<d\\> & \\&amp; \\[e](f) \\`g\\` \\`h\\` \\\\ \\_i\\_ \u6a21\u578b\n"));
  CHECK_THAT(md, Contains("- [1] said \"a\\|b\", \\<c\\>\n"));
  CHECK(escape_markdown("iteration_ms 5 & 6 [1] ~2") == "iteration_ms 5 & 6 [1] ~2");
  options.format = "csv";
  const std::string csv = render_report(file, options);
  CHECK_THAT(csv, Contains("\n\"a|b \"\"c\"\", <d> & &amp; [e](f) `g` `h` \\ _i_ \u6a21\u578b\",ok,10.5,false,\n"));
  CHECK_THAT(csv, Contains(",crashed,,false,\"said \"\"a|b\"\", <c>\"\n"));
  options.format = "json";
  const auto rows = nlohmann::json::parse(render_report(file, options)).at("tables")[0].at("sections")[0].at("rows");
  CHECK(rows[0].at("model") == name);
  CHECK(rows[1].at("note") == "said \"a|b\",\n<c>");
}
