// Every built-in table against its golden file, and published tables against themselves (see fixture.h).
#include <set>

#include "reports/tables/builtin_tables.h"
#include "test/catch.h"
#include "test/reports/tables/fixture.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using fixture::Json;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(MBENCH_SOURCE_DIR) / "test/reports/tables";

Json read(const std::filesystem::path& path) {
  return parse_json(read_text_file(path.string()), path.string());
}

std::string render(const ResultFile& file, const ReportOptions& options) {
  return render_report(file, options);
}

// Through the file, as the command does it.
ResultFile written_and_read(const ResultFile& file) {
  const test::TemporaryFolder folder;
  write_result_file(folder / "results.json", file);
  return read_result_file(folder / "results.json");
}

// The text of a cell as a reader sees it: without its padding, escapes, line breaks and the mark of a
// footnote.
std::string plain(std::string cell) {
  for (std::size_t at; (at = cell.find("<br>")) != std::string::npos;) cell.replace(at, 4, " ");
  std::string out;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    if (cell[i] == '\\' && i + 1 < cell.size() && std::ispunct(static_cast<unsigned char>(cell[i + 1]))) ++i;
    if (cell[i] == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += cell[i];
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  if (const std::size_t note = out.rfind(" ["); note != std::string::npos && out.back() == ']') out.resize(note);
  return out;
}

// Headings as rows of one cell, headers and rows as their cells; rules and notes left out.
std::vector<std::vector<std::string>> grid(const std::vector<std::string>& lines) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : lines) {
    if (!line.empty() && line[0] == '#') rows.push_back({plain(line.substr(line.find(' ')))});
    if (line.empty() || line[0] != '|' || line.find_first_not_of("|-: ") == std::string::npos) continue;
    rows.emplace_back();
    std::string cell;
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '|' && line[i - 1] != '\\') {
        rows.back().push_back(plain(cell));
        cell.clear();
      } else {
        cell += line[i];
      }
    }
  }
  return rows;
}

// Puts what a fixture says must differ into the published table.
void admit(const Json& differences, std::vector<std::vector<std::string>>& rows) {
  for (const Json& difference : differences) {
    const auto wanted = difference.at("row").get<std::size_t>();
    std::size_t row = 0;
    const std::vector<std::string>* header = nullptr;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool heading = rows[i].size() == 1;
      const bool is_header = !heading && (i == 0 || rows[i - 1].size() == 1);
      if (is_header) header = &rows[i];
      if (heading || is_header || ++row != wanted) continue;
      const auto column = std::find(header->begin(), header->end(), difference.at("column").get<std::string>());
      REQUIRE(column != header->end());
      std::string& cell = rows[i][static_cast<std::size_t>(column - header->begin())];
      CHECK(cell != difference.at("ours").get<std::string>());
      CHECK_FALSE(difference.at("why").get<std::string>().empty());
      cell = difference.at("ours").get<std::string>();
    }
    CHECK(row >= wanted);
  }
}

std::size_t count_of_rows(const std::string& report) {
  std::size_t rows = 0;
  for (const auto& row : grid(fixture::lines_of(fixture::tables_of(report)))) rows += row.size() > 1;
  return rows;
}

// The fields of a CSV text, line by line.
std::vector<std::vector<std::string>> parse_csv(const std::string& csv) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (quoted && c == '"' && i + 1 < csv.size() && csv[i + 1] == '"')
      fields.back() += csv[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c == '\n' && !quoted)
      lines.push_back(std::move(fields)), fields.assign(1, "");
    else
      fields.back() += c;
  }
  CHECK_FALSE(quoted);
  return lines;
}

// What must be true of a table of any shape in every format and under every option.
void check_shape(const ResultFile& file, const ReportOptions& options) {
  const std::size_t rows = count_of_rows(render(file, options));
  CHECK(rows > 1);
  ReportOptions csv = options;
  csv.format = "csv";
  std::size_t csv_rows = 0, width = 0;
  for (const auto& line : parse_csv(render(file, csv))) {
    if (line.size() == 1 && line[0].empty()) {
      width = 0;  // another table follows
      continue;
    }
    if (width == 0)
      CHECK(std::set<std::string>(line.begin(), line.end()).size() == (width = line.size()));
    else
      ++csv_rows;
    CHECK(line.size() == width);
  }
  ReportOptions json = options;
  json.format = "json";
  std::size_t json_rows = 0, sections = 0;
  const Json tables = Json::parse(render(file, json)).at("tables");
  for (const auto& table : tables)
    for (const auto& section : table.at("sections")) ++sections, json_rows += section.at("rows").size();
  CHECK(csv_rows == json_rows);
  CHECK(rows == json_rows + sections);  // with a header each

  for (const char* sort : {"iteration_ms", "samples_per_s:desc", "world", "model"}) {
    ReportOptions sorted = options;
    sorted.sort = sort;
    CHECK(count_of_rows(render(file, sorted)) == rows);
  }
  ReportOptions metric = options;
  metric.metrics = {"iteration_ms", "mfu"};
  CHECK_THAT(render(file, metric), Catch::Contains("MFU"));
  ReportOptions filtered = options;
  filtered.filters = {"id=" + file.points.back().id};
  CHECK(count_of_rows(render(file, filtered)) == 2);
}

}  // namespace

TEST_CASE("every built-in table prints as its golden file says") {
  for (const auto& path : fixture::files_below(kFolder / "declared")) {
    DYNAMIC_SECTION(path.stem().string()) {
      const Json json = read(path);
      const ResultFile file = written_and_read(fixture::file_of(json, path.string()));
      const ReportOptions options = fixture::options_of(json);
      CHECK(fixture::lines_of(fixture::tables_of(render(file, options))) ==
            json.at("prints").get<std::vector<std::string>>());
      check_shape(file, options);
    }
  }
}

TEST_CASE("every built-in table has a golden file of its name") {
  for (const std::string& name : builtin_names()) {
    INFO(name);
    const auto path = kFolder / "declared" / (name + ".json");
    REQUIRE(std::filesystem::exists(path));
    CHECK(read(path).at("table") == name);
  }
}

TEST_CASE("published tables, entered as result files, come out cell by cell") {
  for (const auto& path : fixture::files_below(kFolder / "published")) {
    DYNAMIC_SECTION(path.stem().string()) {
      const Json json = read(path);
      const ResultFile file = written_and_read(fixture::file_of(json, path.string()));
      const ReportOptions options = fixture::options_of(json);
      auto published = grid(json.at("published").get<std::vector<std::string>>());
      if (json.contains("differs")) admit(json["differs"], published);
      CHECK(grid(fixture::lines_of(fixture::tables_of(render(file, options)))) == published);
      check_shape(file, options);
    }
  }
}
