#include "formats/table/framework_rows.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/framework/framework.h"

namespace mbench::formats {
namespace {

// "--no-rope-fusion" is given where the option is false.
std::vector<std::pair<json, json>> values_of(const std::string& flag) {
  const bool off = flag.starts_with("--no-");
  return {{true, !off}, {false, off}};
}

bool is_switch(const FrameworkOption& option) {
  const bool one = option.flag.starts_with("--") && option.flag.find(',') == std::string::npos;
  return one && std::all_of(option.choices.begin(), option.choices.end(), [](const FrameworkChoice& choice) {
           return choice.name == "true" || choice.name == "false";
         });
}

}  // namespace

void add_framework(Table& table, const std::string& framework, const std::vector<std::string>& by_rule) {
  const FrameworkFile* file = find_builtin(framework);
  if (!file) fail(ErrorKind::internal, table.name, "no framework {}", framework);
  table.fixed.emplace_back("framework.preset", framework);
  table.fixed.emplace_back("framework.host", framework);
  for (const FrameworkOption& option : file->options()) {
    const std::string field = "framework." + option.name;
    const bool has_row =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const Row& row) { return row.field == field; });
    if (has_row || std::find(by_rule.begin(), by_rule.end(), option.name) != by_rule.end()) continue;
    if (!is_switch(option))
      fail(ErrorKind::internal, table.name, "{} takes a value, need a row or a rule of {}", option.flag, option.name);
    Row row;
    row.key = option.flag;
    row.field = field;
    row.values = values_of(option.flag);
    row.absent = false;
    table.rows.push_back(std::move(row));
  }
}

}  // namespace mbench::formats
