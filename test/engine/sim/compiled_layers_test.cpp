// What a layer gathers, scatters, copies and multiplies under tp, beside the graphs that torch.compile leaves of one
// (scripts/count_compiled_collectives.py, PyTorch 2.15).
#include <map>

#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::test;

namespace {

struct Calls {
  int gathers = 0, scatters = 0, copies = 0, gemms = 0;
  bool operator==(const Calls&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Calls& c) {
  return out << c.gathers << " gathers, " << c.scatters << " scatters, " << c.copies << " copies, " << c.gemms
             << " GEMMs";
}

Point point_of(std::int64_t layers, std::int64_t batch, TpGathers gathers, Recompute recompute,
               const std::string& preset) {
  Point p;
  p.model.family = "llama", p.model.layers = layers, p.model.hidden = 1024, p.model.heads = 16, p.model.ffn = 4096;
  p.model.positions = 512, p.model.vocab = 32000;
  p.model.kv_heads = 16;
  p.seq = 512, p.tp = 4, p.micro_batch = p.global_batch = batch;
  p.sequence_parallel = true, p.tp_gathers = gathers, p.recompute = recompute;
  p.precision = Precision::bf16, p.dropout = 0, p.attention = AttentionKind::flash;
  p.framework = FrameworkSpec{.preset = preset};
  return p;
}

// By phase ("forward 0", "backward 0"), of a step of so many layers.
std::map<std::string, Calls> calls_of_step(const Point& p) {
  const sim::Simulation s =
      simulated(p, sim::find_machine("H100-SXM5-80GB", "test"), find_framework(p.framework.preset, "test"), 4, true);
  const auto& spans = s.timeline_by_stage.at(0).spans();
  std::map<std::string, Calls> all;
  for (const TimelineSpan& phase : spans) {
    if (phase.track.kind != Track::phase) continue;
    Calls& c = all[phase.name];
    for (const TimelineSpan& span : spans) {
      if (span.track.kind == Track::phase || span.begin < phase.begin || span.end > phase.end) continue;
      c.gathers += span.name == "all_gather tp";
      c.scatters += span.name == "reduce_scatter tp";
      c.copies += span.name == "copy_blocks";
      c.gemms += span.name == "matmul";
    }
  }
  return all;
}

// A layer's: what a second one adds.
std::map<std::string, Calls> calls_of_layer(std::int64_t batch, TpGathers gathers, Recompute recompute,
                                            const std::string& preset = "torchtitan") {
  const auto one = calls_of_step(point_of(1, batch, gathers, recompute, preset));
  auto two = calls_of_step(point_of(2, batch, gathers, recompute, preset));
  for (auto& [phase, c] : two) {
    const Calls& less = one.at(phase);
    c.gathers -= less.gathers, c.scatters -= less.scatters, c.copies -= less.copies, c.gemms -= less.gemms;
  }
  return two;
}

}  // namespace

TEST_CASE("compiled layers under tp gather, scatter and copy as often as PyTorch's graphs of them") {
  // GEMMs: queries, keys and values are one here, and so are gates and ups, where a block gathers: 4 a layer where the graph has 7. A
  // layer that is run again has one less.
  struct Case {
    TpGathers gathers;
    Recompute recompute;
    std::int64_t batch;
    Calls forward, backward;
  };
  const Case cases[] = {
      {TpGathers::block, Recompute::none, 1, {2, 2, 2, 4}, {2, 2, 2, 8}},
      {TpGathers::block, Recompute::none, 2, {2, 2, 4, 4}, {2, 2, 4, 8}},
      {TpGathers::block, Recompute::full, 1, {2, 2, 2, 4}, {4, 3, 3, 11}},
      {TpGathers::block, Recompute::full, 2, {2, 2, 4, 4}, {4, 3, 7, 11}},
      {TpGathers::gemm, Recompute::none, 1, {2, 2, 2, 7}, {2, 5, 5, 14}},
      {TpGathers::gemm, Recompute::none, 2, {2, 2, 7, 7}, {2, 5, 7, 14}},
      {TpGathers::gemm, Recompute::full, 1, {2, 2, 2, 7}, {4, 6, 6, 20}},
      {TpGathers::gemm, Recompute::full, 2, {2, 2, 7, 7}, {4, 6, 13, 20}},
  };
  for (const Case& each : cases) {
    INFO((each.gathers == TpGathers::block ? "block" : "each GEMM")
         << ", recompute " << name_of(each.recompute) << ", batch " << each.batch);
    const auto calls = calls_of_layer(each.batch, each.gathers, each.recompute);
    CHECK(calls.at("forward 0") == each.forward);
    CHECK(calls.at("backward 0") == each.backward);
  }
}

TEST_CASE("without torch.compile each GEMM gathers for itself, and mbench's own layers copy nothing") {
  const auto eager = calls_of_layer(2, TpGathers::gemm, Recompute::none, "torch-eager");
  CHECK(eager.at("forward 0").gathers == 5);
  CHECK(eager.at("forward 0").copies == 7);
  const auto own = calls_of_layer(2, TpGathers::block, Recompute::full, "mbench");
  // Backward gathers again what GEMMs of weights' gradients read, and runs the whole layer.
  CHECK(own.at("backward 0") == Calls{6, 4, 0, 12});
}

// The last norm of a model whose layers are compiled is PyTorch's small ops: an f32 copy of its input and what gamma multiplies, where a
// kernel keeps its input in 16 bits.
TEST_CASE(
    "the norm behind compiled layers keeps an f32 copy of its input, and none does in a model compiled as a whole") {
  const auto peak = [](std::int64_t layers, const std::string& compiled) {
    Point p = point_of(layers, 2, TpGathers::block, Recompute::none, "torchtitan");
    p.tp = 1, p.sequence_parallel = false;
    p.framework.options["compiled"] = compiled;
    const Plan plan = strategies::make_plan(p);
    return sim::simulate_point(p, plan, sim::find_machine("H100-SXM5-80GB", "test"), 1).peak_by_stage.at(0).total;
  };
  const std::size_t elements = std::size_t{2} * 512 * 1024;
  // As many for any number of layers: the layers' own norms are in their graphs.
  for (const std::int64_t layers : {1, 3}) CHECK(peak(layers, "layers") - peak(layers, "model") == elements * 4);
}
