// What the strategies write into a Plan.
#include "engine/base/error.h"
#include "engine/point/point.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using strategies::make_plan;

namespace {

Point layout(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Point p;
  p.model = {"custom", "gpt", 8, 64, 8, 256, 250, 32};
  p.seq = 32;
  p.global_batch = 8;
  p.tp = tp, p.pp = pp, p.dp = dp;
  return p;
}

struct Talk {
  Collective in, in_back, out, out_back;
  bool operator==(const Talk&) const = default;
};

// The one exchange of a list, which is over tp.
Collective only(const Exchanges& list) {
  if (list.empty()) return Collective::none;
  CHECK(list.size() == 1);
  CHECK(list[0].axis == Axis::tp);
  CHECK(list[0].dim == 0);
  return list[0].what;
}

// What a linear layer of that plan says to its neighbours, forward and backward.
Talk talk(const Plan& plan, const LinearPlan& l) {
  const Transition in = Transition::between(l.input, l.consumed, plan.mesh),
                   out = Transition::between(l.gemm, l.output, plan.mesh);
  return {only(in.forward), only(in.backward), only(out.forward), only(out.backward)};
}

constexpr Role kDense[] = {Role::column, Role::row, Role::vocabulary, Role::whole};

constexpr Collective none = Collective::none, reduce = Collective::all_reduce, gather = Collective::all_gather,
                     scatter = Collective::reduce_scatter;

}  // namespace

TEST_CASE("a serial plan communicates nothing") {
  const Plan plan = make_plan(layout(1, 1, 1));
  CHECK(plan.mesh.world() == 1);
  for (const Role role : kDense) CHECK(talk(plan, plan.role(role)) == Talk{none, none, none, none});
  REQUIRE(plan.chunks.size() == 1);
  REQUIRE(plan.chunks[0].size() == 1);
  CHECK(plan.chunks[0][0].layers == 8);
  CHECK(plan.chunks[0][0].first);
  CHECK(plan.chunks[0][0].last);
}

TEST_CASE("tensor parallelism: column then row, one all-reduce a block and direction") {
  const Plan plan = make_plan(layout(4, 1, 1));
  CHECK(plan.mesh.size(Axis::tp) == 4);
  CHECK(plan.hidden.value[Axis::tp] == replicate);
  const LinearPlan &column = plan.role(Role::column), &row = plan.role(Role::row);
  CHECK(column.weight == Spread(Axis::tp, shard(0)));
  CHECK(talk(plan, column) == Talk{none, reduce, none, none});
  CHECK(row.weight == Spread(Axis::tp, shard(1)));
  CHECK(talk(plan, row) == Talk{none, none, reduce, none});
  // The embedding's product is a sum over shards of the vocabulary.
  CHECK(plan.role(Role::vocabulary).weight == Spread(Axis::tp, shard(0)));
  CHECK(talk(plan, plan.role(Role::vocabulary)) == Talk{none, none, reduce, none});
  // A column's output is a row's input as it stands.
  CHECK(column.output == row.input);
}

TEST_CASE("sequence parallelism: gather before a block, scatter after it") {
  Point point = layout(4, 1, 1);
  point.sequence_parallel = true;
  const Plan plan = make_plan(point);
  CHECK(plan.hidden.value[Axis::tp] == shard(0));
  CHECK(plan.hidden.gradient[Axis::tp] == shard(0));
  CHECK(talk(plan, plan.role(Role::column)) == Talk{gather, scatter, none, none});
  CHECK(talk(plan, plan.role(Role::row)) == Talk{none, none, scatter, gather});
  CHECK(talk(plan, plan.role(Role::vocabulary)) == Talk{none, none, scatter, gather});
  CHECK(talk(plan, plan.role(Role::whole)) == Talk{none, none, none, none});
  CHECK(plan.whole_share().value[Axis::tp] == replicate);
}

TEST_CASE("context parallelism: the sequence is split in all of the model, and blocks say nothing along cp") {
  for (const bool split : {false, true}) {
    Point point = layout(2, 1, 1);
    point.cp = 4;
    point.attention = AttentionKind::flash;
    point.sequence_parallel = split;
    const Plan plan = make_plan(point);
    CHECK(plan.mesh.world() == 8);
    CHECK(plan.hidden.value[Axis::cp] == shard(0));
    CHECK(plan.hidden.gradient[Axis::cp] == shard(0));
    for (const Role role : kDense) {
      const LinearPlan& linear = plan.role(role);
      talk(plan, linear);  // checks that it is over tp alone
      CHECK(linear.consumed.value[Axis::cp] == shard(0));
      CHECK(reduce_over(linear.weight, linear.consumed.value).has(Axis::cp));
    }
    CHECK(plan.whole_share().value[Axis::cp] == shard(0));
    CHECK(plan.whole_share().value[Axis::tp] == replicate);
    CHECK(plan.share_of(1).rows() == 8);
    CHECK(plan.share_of(1).chunks() == 2);
  }
  Point point = layout(1, 1, 1);
  point.cp = 4;
  point.cp_communication = CpCommunication::all_to_all;
  CHECK(make_plan(point).share_of(1).chunks() == 1);
}

TEST_CASE("sequence parallelism without tensor parallelism is nothing") {
  Point point = layout(1, 1, 2);
  point.sequence_parallel = true;
  const Plan plan = make_plan(point);
  for (const Role role : kDense) CHECK(talk(plan, plan.role(role)) == Talk{none, none, none, none});
}

TEST_CASE("stages and chunks hold every layer once, in order") {
  struct Cut {
    std::int64_t stages, chunks;
  };
  for (const Cut& cut : {Cut{1, 1}, Cut{2, 1}, Cut{8, 1}, Cut{2, 2}, Cut{2, 4}, Cut{4, 2}}) {
    INFO(cut.stages << " stages, " << cut.chunks << " chunks");
    Point point = layout(1, cut.stages, 1);
    point.virtual_stages = cut.chunks;
    if (cut.chunks > 1) point.schedule = ScheduleKind::interleaved;
    const Plan plan = make_plan(point);
    REQUIRE(static_cast<std::int64_t>(plan.chunks.size()) == cut.stages);

    CHECK(plan.mesh.size(Axis::pp) == cut.stages);
    std::vector<const ChunkPlan*> in_order(static_cast<std::size_t>(cut.stages * cut.chunks), nullptr);
    for (int s = 0; s < cut.stages; ++s) {
      REQUIRE(static_cast<std::int64_t>(plan.chunks[s].size()) == cut.chunks);
      for (std::size_t c = 0; c < plan.chunks[s].size(); ++c) {
        const ChunkPlan& chunk = plan.chunks[s][c];
        CHECK(chunk.stage == s);
        CHECK(chunk.position == static_cast<int>(c) * cut.stages + s);
        in_order.at(static_cast<std::size_t>(chunk.position)) = &chunk;
      }
    }
    std::int64_t layer = 0;
    for (const ChunkPlan* chunk : in_order) {
      REQUIRE(chunk != nullptr);
      CHECK(chunk->first_layer == layer);
      CHECK(chunk->layers == 8 / (cut.stages * cut.chunks));
      CHECK(chunk->first == (chunk == in_order.front()));
      CHECK(chunk->last == (chunk == in_order.back()));
      layer += chunk->layers;
    }
    CHECK(layer == 8);
    REQUIRE(static_cast<std::int64_t>(plan.schedule.size()) == cut.stages);
    // Every chunk of a stage runs every micro batch once each way.
    for (const Schedule& schedule : plan.schedule) {
      std::int64_t forwards = 0, backwards = 0;
      for (const Action& a : schedule) {
        forwards += a.kind == Action::Kind::forward;
        backwards += a.kind == Action::Kind::backward;
      }
      CHECK(forwards == 8 * cut.chunks);
      CHECK(backwards == 8 * cut.chunks);
    }
  }
}

TEST_CASE("where stages do not divide the layers, the first and the last have one less") {
  Point point = layout(8, 16, 1);
  point.model.layers = 126;
  point.global_batch = 16;
  const Plan plan = make_plan(point);
  REQUIRE(plan.chunks.size() == 16);
  std::int64_t next = 0;
  for (int stage = 0; stage < 16; ++stage) {
    INFO("stage " << stage);
    REQUIRE(plan.chunks[stage].size() == 1);
    const ChunkPlan& chunk = plan.chunks[stage][0];
    CHECK(chunk.first_layer == next);
    CHECK(chunk.layers == (stage == 0 || stage == 15 ? 7 : 8));
    next += chunk.layers;
  }
  CHECK(next == 126);
}

TEST_CASE(
    "where the layers, the embedding and the head do not come out even either, stages differ by one at "
    "most") {
  Point point = layout(1, 16, 1);
  point.model.layers = 61;
  point.global_batch = 16;
  const Plan plan = make_plan(point);
  std::int64_t next = 0;
  for (int stage = 0; stage < 16; ++stage) {
    INFO("stage " << stage);
    const ChunkPlan& chunk = plan.chunks[stage][0];
    CHECK(chunk.first_layer == next);
    const std::int64_t held = chunk.layers + (stage == 0 ? 1 : 0) + (stage == 15 ? 1 : 0);
    CHECK((held == 3 || held == 4));
    next += chunk.layers;
  }
  CHECK(next == 61);
  point.model.layers = 41;
  CHECK_THROWS_AS(make_plan(point), Error);
}

TEST_CASE("the mesh has the point's axes, and data parallelism divides the micro batches") {
  Point point = layout(2, 2, 2);
  const Plan plan = make_plan(point);
  CHECK(plan.mesh.size(Axis::tp) == 2);
  CHECK(plan.mesh.size(Axis::pp) == 2);
  CHECK(plan.mesh.size(Axis::dp) == 2);
  CHECK(plan.mesh.world() == point.world());
  CHECK(plan.gradient_bucket_bytes > 0);
  int forwards = 0;
  for (const Action& a : plan.schedule[0]) forwards += a.kind == Action::Kind::forward;
  CHECK(forwards == 4);
}

TEST_CASE("stages whose layers are named have them, in equal chunks, and the others share the rest") {
  const auto cut = [](std::int64_t pp, std::int64_t first, std::int64_t last, std::int64_t chunks) {
    Point point = layout(1, pp, 1);
    point.first_stage_layers = first, point.last_stage_layers = last, point.virtual_stages = chunks;
    if (chunks > 1) point.schedule = ScheduleKind::interleaved;
    const Plan plan = make_plan(point);
    std::vector<std::int64_t> layers(static_cast<std::size_t>(pp * chunks)), begins = layers;
    for (const auto& stage : plan.chunks)
      for (const ChunkPlan& c : stage) {
        const auto at = static_cast<std::size_t>(c.position);
        layers[at] = c.layers, begins[at] = c.first_layer;
      }
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < layers.size(); begin += layers[i++]) CHECK(begins[i] == begin);
    CHECK(begin == 8);
    return layers;
  };
  using Layers = std::vector<std::int64_t>;
  CHECK(cut(4, 1, 1, 1) == Layers{1, 3, 3, 1});
  CHECK(cut(4, 2, 0, 1) == Layers{2, 2, 2, 2});
  CHECK(cut(4, 0, 5, 1) == Layers{1, 1, 1, 5});
  CHECK(cut(2, 3, 0, 1) == Layers{3, 5});
  CHECK(cut(2, 6, 2, 2) == Layers{3, 1, 3, 1});
}

TEST_CASE("a layout cut by hand is what the chunks hold, in Megatron-Core's order, and what they send each other") {
  struct Held {
    int stage, chunk;
    std::string parts;
    int receives, sends;
    bool operator==(const Held&) const = default;
  };
  const auto cut = [](std::int64_t pp, std::int64_t chunks, const char* text, std::int64_t depths = 0) {
    Point point = layout(1, pp, 1);
    point.virtual_stages = chunks, point.pipeline_layout = text, point.model.mtp_layers = depths;
    if (chunks > 1) point.schedule = ScheduleKind::interleaved;
    const Plan plan = make_plan(point);
    std::vector<Held> held(static_cast<std::size_t>(pp * chunks));
    std::int64_t layers = 0;
    for (const auto& stage : plan.chunks)
      for (std::size_t c = 0; c < stage.size(); ++c) {
        const ChunkPlan& p = stage[c];
        const std::string parts =
            fmt::format("{}{}-{}{}{}{}", p.first ? "E" : "", p.first_layer, p.first_layer + p.layers, p.norm ? "n" : "",
                        std::string(static_cast<std::size_t>(p.depths), 'm'), p.last ? "L" : "");
        held.at(static_cast<std::size_t>(p.position)) = {p.stage, static_cast<int>(c), parts, p.receives, p.sends};
        layers += p.layers;
      }
    CHECK(layers == 8);
    return std::pair(held, plan.stages_with_words());
  };
  using All = std::pair<std::vector<Held>, std::vector<int>>;
  CHECK(cut(4, 1, "E|t*3||t*5L") ==
        All{{{0, 0, "E0-0", 1, 1}, {1, 0, "0-3", 1, 1}, {2, 0, "3-3", 1, 1}, {3, 0, "3-8nL", 1, 1}}, {0, 3}});
  CHECK(cut(2, 2, "Et|tt|t*3|ttL") ==
        All{{{0, 0, "E0-1", 1, 1}, {1, 0, "1-3", 1, 1}, {0, 1, "3-6", 1, 1}, {1, 1, "6-8nL", 1, 1}}, {0, 1}});
  // What depths read is behind the norm, which goes with the last layer; and their hidden activations go on beside the model's.
  CHECK(cut(3, 1, "Et*3|t*5|mL", 1) ==
        All{{{0, 0, "E0-3", 1, 1}, {1, 0, "3-8n", 1, 1}, {2, 0, "8-8mL", 1, 1}}, {0, 2}});
  CHECK(cut(4, 1, "Et*3|t*5mm||L", 2) ==
        All{{{0, 0, "E0-3", 1, 1}, {1, 0, "3-8nmm", 1, 3}, {2, 0, "8-8", 3, 3}, {3, 0, "8-8L", 3, 1}}, {0, 1, 3}});
  CHECK(cut(2, 2, "Et*3|t*5|m|L", 1).second == std::vector<int>{0, 1});  // a tied head beside the first stage's table
}

TEST_CASE("layers and two more that come out even make stages of any size") {
  Point point = layout(1, 14, 1);
  point.model.layers = 40, point.global_batch = 14;
  const Plan plan = make_plan(point);
  for (int stage = 0; stage < 14; ++stage)
    CHECK(plan.chunks[static_cast<std::size_t>(stage)][0].layers == (stage == 0 || stage == 13 ? 2 : 3));
  point.pp = 42;
  CHECK(make_plan(point).chunks.front()[0].layers == 0);  // the embedding alone
  CHECK(make_plan(point).chunks.back()[0].layers == 0);
}

TEST_CASE("recompute decides what a forward drops") {
  Point point = layout(1, 1, 1);
  const auto dropped = [&](Recompute mode) {
    point.recompute = mode;
    const Plan plan = make_plan(point);
    REQUIRE(plan.recompute.size() == 8);
    for (const Regions& layer : plan.recompute) CHECK(layer == plan.recompute.front());
    return plan.recompute.front();
  };
  CHECK(dropped(Recompute::none) == Regions{});
  CHECK(dropped(Recompute::selective) == Regions{Region::core_attention});
  CHECK(dropped(Recompute::full) == Regions{Region::layer});
  CHECK(dropped({{Region::mlp, Region::norm}}) == Regions{Region::norm, Region::mlp});
  // The first layers of each chunk: here of 2 stages with 2 chunks of 2 layers.
  Point some = layout(1, 2, 1);
  some.schedule = ScheduleKind::interleaved, some.virtual_stages = 2;
  some.recompute = Recompute::full, some.recompute_layers = 1;
  const Plan plan = make_plan(some);
  for (std::size_t i = 0; i < 8; ++i) CHECK(plan.recompute[i] == (i % 2 == 0 ? Recompute::full.regions : Regions()));
}

TEST_CASE("dtypes of weights and gradients follow the precision") {
  Point point = layout(1, 1, 1);
  const auto dtypes = [&](Precision precision) {
    point.precision = precision;
    const Plan plan = make_plan(point);
    return std::make_pair(plan.precision.model, plan.precision.gradients);
  };
  CHECK(dtypes(Precision::f32) == std::make_pair(DType::f32, DType::f32));
  CHECK(dtypes(Precision::bf16) == std::make_pair(DType::bf16, DType::f32));
  CHECK(dtypes(Precision::fp16) == std::make_pair(DType::f16, DType::f16));
}

TEST_CASE("what cannot be or is not built in is refused with its reason") {
  const auto kind_of = [](const Point& p) {
    try {
      make_plan(p);
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find("need") != std::string::npos);
      return e.kind();
    }
    FAIL("accepted");
    return ErrorKind::internal;
  };
  Point uneven = layout(3, 1, 1);
  CHECK(kind_of(uneven) == ErrorKind::infeasible);
  Point layers = layout(1, 6, 1);
  CHECK(kind_of(layers) == ErrorKind::infeasible);
  Point precision = layout(1, 1, 2);
  precision.precision = Precision::fp8;
  precision.fp8_parameters = true;
  precision.offload = Offload::optimizer;
  CHECK(kind_of(precision) == ErrorKind::unsupported);
}

TEST_CASE("where weights of FP8 GEMMs live is part of the precision") {
  Point point = layout(2, 2, 2);
  point.precision = Precision::fp8;
  CHECK(!make_plan(point).precision.fp8_parameters);
  point.fp8_parameters = true;
  const PrecisionPlan precision = make_plan(point).precision;
  CHECK(precision.fp8_parameters);
  CHECK(precision.fp8 == Fp8Recipe::tensorwise);
  CHECK(precision.model == DType::bf16);
}

// The one rule for gradients, on what the strategies write.
TEST_CASE("gradients are reduced where a weight is whole and tokens are split") {
  Point point = layout(2, 2, 2);
  const auto over = [&](Role role) {
    const Plan plan = make_plan(point);
    const LinearPlan& linear = plan.role(role);
    return plan.mesh.real(reduce_over(linear.weight, linear.consumed.value));
  };
  const auto hidden_over = [&] {  // of a norm, or of the bias that a row's output gets
    const Plan plan = make_plan(point);
    return plan.mesh.real(reduce_over(Spread(), plan.hidden.value));
  };
  const Axes dp{Axis::dp}, both{Axis::dp, Axis::tp};
  for (const Role role : kDense) CHECK(over(role) == dp);
  CHECK(hidden_over() == dp);
  point.sequence_parallel = true;
  CHECK(over(Role::column) == dp);
  CHECK(over(Role::row) == dp);
  CHECK(over(Role::vocabulary) == dp);
  CHECK(over(Role::whole) == both);
  CHECK(hidden_over() == both);
  point.dp = 1;
  CHECK(over(Role::column) == Axes{});
  CHECK(hidden_over() == Axes{Axis::tp});
}

TEST_CASE("tokens of a mixture are gathered over ep where no rows are sent, and sums scattered") {
  Point p = layout(2, 1, 4);
  p.model.family = "mixtral";
  p.model.experts = 8, p.model.active_experts = 2;
  p.ep = 4;
  const auto along_ep = [](const Exchanges& list) {
    std::vector<Collective> found;
    for (const Exchange& e : list)
      if (e.axis == Axis::ep) found.push_back(e.what);
    return found;
  };
  const auto exchanges = [&](EpCommunication how) {
    p.ep_communication = how;
    const Plan plan = make_plan(p);
    const LinearPlan &column = plan.role(Role::expert_column), &row = plan.role(Role::expert_row);
    const Transition tokens = Transition::between(column.input, column.consumed, plan.mesh),
                     sums = Transition::between(row.gemm, row.output, plan.mesh);
    return std::vector{along_ep(tokens.forward), along_ep(tokens.backward), along_ep(sums.forward),
                       along_ep(sums.backward)};
  };
  using Found = std::vector<std::vector<Collective>>;
  CHECK(exchanges(EpCommunication::all_to_all) == Found{{}, {}, {}, {}});
  CHECK(exchanges(EpCommunication::all_gather) == Found{{gather}, {scatter}, {scatter}, {gather}});
  CHECK(exchanges(EpCommunication::flex) == Found{{}, {}, {}, {}});  // the mixture's own, as all_to_all's
}
