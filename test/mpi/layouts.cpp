#include "test/mpi/layouts.h"

#include <fmt/format.h>

namespace mbench::test {

const std::vector<Layout>& layouts() {
  constexpr Family gpt = Family::gpt, bert = Family::bert;
  constexpr Recompute none = Recompute::none, selective = Recompute::selective, full = Recompute::full;
  constexpr ScheduleKind gpipe = ScheduleKind::gpipe, one = ScheduleKind::one_f_one_b,
                         inter = ScheduleKind::interleaved;
  constexpr Precision f32 = Precision::f32, bf16 = Precision::bf16, fp16 = Precision::fp16;
  constexpr Graph eager = Graph::eager, fused = Graph::fused;
  constexpr AttentionKind core = AttentionKind::core, flash = AttentionKind::flash;
  // name, family, tp, pp, dp, sp, recompute, schedule, virtual stages, precision, dropout, graph, attention
  static const std::vector<Layout> table = {
      {"eager graph", gpt, 1, 1, 1, false, none, one, 1, f32, 0.1, eager, core},
      {"flash attention", gpt, 1, 1, 1, false, none, one, 1, f32, 0.1, fused, flash},
      {"selective", gpt, 1, 1, 1, false, selective, one, 1, f32, 0.1, fused, core},
      {"selective, eager", gpt, 1, 1, 1, false, selective, one, 1, f32, 0.1, eager, core},
      {"full", gpt, 1, 1, 1, false, full, one, 1, f32, 0.1, fused, core},
      {"full, eager", gpt, 1, 1, 1, false, full, one, 1, f32, 0.1, eager, core},
      {"tp2", gpt, 2, 1, 1, false, none, one, 1, f32, 0, fused, core},
      {"tp2 dropout", gpt, 2, 1, 1, false, none, one, 1, f32, 0.1, fused, core},
      {"tp4", gpt, 4, 1, 1, false, none, one, 1, f32, 0.1, fused, core},
      {"tp8", gpt, 8, 1, 1, false, none, one, 1, f32, 0.1, eager, core},
      {"tp2 sp", gpt, 2, 1, 1, true, none, one, 1, f32, 0.1, fused, core},
      {"tp4 sp eager", gpt, 4, 1, 1, true, none, one, 1, f32, 0.1, eager, core},
      {"tp8 sp", gpt, 8, 1, 1, true, none, one, 1, f32, 0.1, fused, flash},
      {"tp4 sp selective", gpt, 4, 1, 1, true, selective, one, 1, f32, 0.1, fused, core},
      {"tp4 sp full", gpt, 4, 1, 1, true, full, one, 1, f32, 0.1, eager, core},
      {"pp2 gpipe", gpt, 1, 2, 1, false, none, gpipe, 1, f32, 0.1, fused, core},
      {"pp2 1f1b", gpt, 1, 2, 1, false, none, one, 1, f32, 0, fused, core},
      {"pp4 1f1b", gpt, 1, 4, 1, false, none, one, 1, f32, 0.1, fused, core},
      {"pp8 1f1b", gpt, 1, 8, 1, false, none, one, 1, f32, 0.1, eager, core},
      {"pp8 gpipe full", gpt, 1, 8, 1, false, full, gpipe, 1, f32, 0.1, fused, core},
      {"pp2 interleaved 2", gpt, 1, 2, 1, false, none, inter, 2, f32, 0.1, fused, core},
      {"pp2 interleaved 4", gpt, 1, 2, 1, false, none, inter, 4, f32, 0.1, fused, core},
      {"pp4 interleaved 2 full", gpt, 1, 4, 1, false, full, inter, 2, f32, 0.1, eager, core},
      {"dp2", gpt, 1, 1, 2, false, none, one, 1, f32, 0, fused, core},
      {"dp4 dropout", gpt, 1, 1, 4, false, none, one, 1, f32, 0.1, fused, core},
      {"dp8", gpt, 1, 1, 8, false, none, one, 1, f32, 0.1, eager, core},
      {"tp2 pp2", gpt, 2, 2, 1, false, none, one, 1, f32, 0.1, fused, core},
      {"tp2 pp2 dp2", gpt, 2, 2, 2, false, none, one, 1, f32, 0.1, fused, core},
      {"tp2 pp2 dp2 sp selective", gpt, 2, 2, 2, true, selective, one, 1, f32, 0.1, eager, core},
      {"tp2 pp2 dp2 sp full interleaved", gpt, 2, 2, 2, true, full, inter, 2, f32, 0.1, fused, core},
      {"tp4 pp2 sp gpipe", gpt, 4, 2, 1, true, none, gpipe, 1, f32, 0.1, fused, core},
      {"tp2 dp4 sp flash", gpt, 2, 1, 4, true, none, one, 1, f32, 0.1, fused, flash},
      {"pp4 dp2 interleaved", gpt, 1, 4, 2, false, none, inter, 2, f32, 0, fused, core},
      {"bert eager", bert, 1, 1, 1, false, none, one, 1, f32, 0.1, eager, core},
      {"bert flash", bert, 1, 1, 1, false, none, one, 1, f32, 0.1, fused, flash},
      {"bert tp2", bert, 2, 1, 1, false, none, one, 1, f32, 0, fused, core},
      {"bert tp4 sp", bert, 4, 1, 1, true, none, one, 1, f32, 0.1, fused, core},
      {"bert tp2 pp2 sp eager", bert, 2, 2, 1, true, none, one, 1, f32, 0.1, eager, core},
      {"bert tp2 pp2 dp2 selective", bert, 2, 2, 2, false, selective, one, 1, f32, 0.1, eager, core},
      {"bert tp2 pp2 dp2 sp full", bert, 2, 2, 2, true, full, one, 1, f32, 0.1, fused, core},
      {"bert pp4 interleaved 2", bert, 1, 4, 1, false, none, inter, 2, f32, 0.1, fused, core},
      {"bert dp4", bert, 1, 1, 4, false, none, one, 1, f32, 0.1, fused, core},
      {"bert pp2 gpipe dp2 full", bert, 1, 2, 2, false, full, gpipe, 1, f32, 0, fused, flash},
      {"bf16 tp2", gpt, 2, 1, 1, false, none, one, 1, bf16, 0.1, fused, core},
      {"bf16 tp2 pp2 dp2 sp selective", gpt, 2, 2, 2, true, selective, one, 1, bf16, 0.1, eager, core},
      {"bf16 bert tp2 pp2 full", bert, 2, 2, 1, false, full, one, 1, bf16, 0.1, fused, core},
      {"fp16 tp2 sp", gpt, 2, 1, 1, true, none, one, 1, fp16, 0.1, eager, core},
      {"fp16 tp2 pp2 dp2", gpt, 2, 2, 2, false, none, one, 1, fp16, 0.1, eager, core},
      {"fp16 pp4 interleaved full", gpt, 1, 4, 1, false, full, inter, 2, fp16, 0.1, fused, core},
      {"fp16 bert tp4 pp2 selective", bert, 4, 2, 1, false, selective, one, 1, fp16, 0.1, eager, core},
  };
  return table;
}

std::string describe(const Layout& l) {
  return fmt::format("{}: {} tp{} pp{} dp{}{} {} {} {} dropout {} {} {}", l.name, name_of(l.family), l.tp,
                     l.pp, l.dp, l.sequence_parallel ? " sp" : "", name_of(l.recompute), name_of(l.schedule),
                     name_of(l.precision), l.dropout, name_of(l.graph), name_of(l.attention));
}

Point point_of(const Layout& l) {
  Point p;
  p.model = {"custom", l.family, 8, 64, 8, 256, 250, 32};
  p.seq = 32;
  p.micro_batch = 1;
  p.global_batch = 8;
  p.iterations = 5;
  p.warmup = 0;
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
