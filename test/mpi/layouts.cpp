#include "test/mpi/layouts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

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

// As JSON's merge patch has it: a row's object (of the model) changes the keys that it names.
Layout read_layout(const nlohmann::json& row) {
  const std::string name = row.at("name");
  nlohmann::json fields = table().root.at("common");
  fields.merge_patch(row);
  fields.erase("name");
  const Point p = point_from_json(fields, table().path + ": " + name);
  const Layout layout{
      name,       p.model.family,   p.tp,        p.pp,      p.dp,    p.sequence_parallel, p.recompute,
      p.schedule, p.virtual_stages, p.precision, p.dropout, p.graph, p.attention};
  check(point_of(layout) == p, table().path, "{} names a field that struct Layout has not", name);
  return layout;
}

}  // namespace

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = [] {
    std::vector<Layout> read;
    for (const auto& row : table().root.at("layouts")) read.push_back(read_layout(row));
    return read;
  }();
  return all;
}

std::string describe(const Layout& l) {
  return fmt::format("{}: {} tp{} pp{} dp{}{} {} {} {} dropout {} {} {}", l.name, name_of(l.family), l.tp,
                     l.pp, l.dp, l.sequence_parallel ? " sp" : "", name_of(l.recompute), name_of(l.schedule),
                     name_of(l.precision), l.dropout, name_of(l.graph), name_of(l.attention));
}

Point point_of(const Layout& l) {
  Point p = point_from_json(table().root.at("common"), table().path + ": $.common");
  p.model.family = l.family;
  p.tp = l.tp, p.pp = l.pp, p.dp = l.dp;
  p.sequence_parallel = l.sequence_parallel;
  p.recompute = l.recompute;
  p.schedule = l.schedule;
  p.virtual_stages = l.virtual_stages;
  p.precision = l.precision;
  p.dropout = l.dropout;
  p.graph = l.graph;
  p.attention = l.attention;
  return p;
}

Point serial_point_of(const Layout& l) {
  Layout serial = l;
  serial.tp = serial.pp = serial.dp = serial.virtual_stages = 1;
  serial.sequence_parallel = false;
  serial.recompute = Recompute::none;
  serial.schedule = ScheduleKind::one_f_one_b;
  serial.graph = Graph::fused;
  serial.attention = AttentionKind::core;
  return point_of(serial);
}

}  // namespace mbench::test
