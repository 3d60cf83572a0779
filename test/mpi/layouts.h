// The table of layouts that the tests hold against the serial run: every strategy, alone and combined. It
// stands in layouts.json, where scripts/same-results reads it too.
#pragma once
#include <string>
#include <vector>

#include "engine/spec/point.h"

namespace mbench::test {

struct Layout {
  std::string name;
  Family family = Family::gpt;
  std::int64_t tp = 1, pp = 1, dp = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t virtual_stages = 1;
  Precision precision = Precision::f32;
  double dropout = 0;
  Graph graph = Graph::fused;
  AttentionKind attention = AttentionKind::core;
};

const std::vector<Layout>& layouts();
std::string describe(const Layout& layout);

// The point of a layout: a small model of 8 layers and 8 heads with a vocabulary that every tp pads
// differently.
Point point_of(const Layout& layout);
// The same training on one rank, nothing recomputed.
Point serial_point_of(const Layout& layout);

}  // namespace mbench::test
