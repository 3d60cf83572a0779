// The table of layouts that the tests compare with the serial run: every strategy, by itself and combined. It is in layouts.json, where
// scripts/same-results reads it too.
#pragma once
#include <string>
#include <vector>

#include "engine/point/point.h"

namespace mbench::test {

struct Layout {
  std::string name;
  Point point;
};

// All of the table, or those whose names contain the chosen text.
const std::vector<Layout>& layouts();
void choose_layouts(const std::string& text);
// The file to which each layout's row is written, as a line of JSON, by the case that records them (scripts/same-results).
std::string& record_file();
// Of the common part of the table: a small model of 8 layers and 8 heads with a vocabulary that every tp pads
// differently.
Layout layout_of(const std::string& name, const std::string& family, std::int64_t tp, std::int64_t pp, std::int64_t dp,
                 bool sequence_parallel);
std::string describe(const Layout& layout);
// The same training on one rank, nothing recomputed.
Point serial_point_of(const Layout& layout);

}  // namespace mbench::test
