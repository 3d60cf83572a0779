#include "test/mpi/layouts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "strategies/strategies.h"
#include "test/graphs.h"

namespace mbench::test {
namespace {

// The table's file: what all layouts have in common, and the rows, which each name what differs from it.
struct Table {
  std::string path = MBENCH_SOURCE_DIR "/test/mpi/layouts.json";
  nlohmann::json root = parse_json(read_text_file(path), path);
};

const Table& table() {
  static const Table read;
  return read;
}

std::string& chosen() {
  static std::string text;
  return text;
}

Point point_from(const nlohmann::json& fields, const std::string& name) {
  return point_from_json(fields, table().path + ": " + name);
}

// As JSON's merge patch has it: a row's object (of the model) changes the keys that it names.
Layout read_layout(const nlohmann::json& row) {
  const std::string name = row.at("name");
  nlohmann::json fields = table().root.at("common");
  fields.merge_patch(row);
  fields.erase("name");
  return {name, point_from(fields, name)};
}

}  // namespace

void choose_layouts(const std::string& text) {
  chosen() = text;
}

std::string& record_file() {
  static std::string path;
  return path;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = [] {
    std::vector<Layout> read;
    for (const auto& row : table().root.at("layouts"))
      if (row.at("name").get<std::string>().find(chosen()) != std::string::npos) read.push_back(read_layout(row));
    if (read.empty()) fail(ErrorKind::bad_input, "--layouts", "no layout's name holds \"{}\"", chosen());
    return read;
  }();
  return all;
}

Layout layout_of(const std::string& name, const std::string& family, std::int64_t tp, std::int64_t pp, std::int64_t dp,
                 bool sequence_parallel) {
  Layout l{name, point_from(table().root.at("common"), "$.common")};
  l.point.model.family = family;
  l.point.tp = tp, l.point.pp = pp, l.point.dp = dp;
  l.point.sequence_parallel = sequence_parallel;
  return l;
}

std::string describe(const Layout& l) {
  const Point& p = l.point;
  return fmt::format("{}: {} tp{} pp{} dp{} cp{} by {}{} zero {} offload {} {} {} {} dropout {} {} {}", l.name,
                     p.model.family, p.tp, p.pp, p.dp, p.cp, name_of(p.cp_communication),
                     p.sequence_parallel ? " sp" : "", name_of(p.zero), name_of(p.offload), name_of(p.recompute),
                     name_of(p.schedule), name_of(p.precision), p.dropout, name_of(p.framework), name_of(p.attention));
}

Point serial_point_of(const Layout& l) {
  Point p = without(l.point, {FieldKind::layout});
  p.attention = AttentionKind::core;
  if (!strategies::can_be(p)) p.attention = AttentionKind::flash;  // windows, caps, sinks: the only one that has them
  return p;
}

}  // namespace mbench::test
