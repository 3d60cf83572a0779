// Exchanges along every dim of a tensor, against what each rank must hold, and their conjugates.
#include "engine/nn/runtime/communicate.h"

#include "engine/backend/cpu/cpu_device.h"
#include "engine/comm/mpi/mpi_world.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::nn;

namespace {

const Shape kWhole{8, 4, 12};

// Element i of the whole tensor, or of rank r's addend to it.
float value(std::int64_t i, int rank = 0) {
  return static_cast<float>((i * 37 + rank * 101) % 251);
}

// The whole tensor cut along `dim` into `parts`: part `index`. `f` gives the whole tensor's elements.
template <class F>
std::vector<float> part_of(const F& f, int dim, int parts, int index) {
  std::vector<float> values;
  std::int64_t extent[3], i[3];
  for (int d = 0; d < 3; ++d) extent[d] = kWhole[d] / (d == dim ? parts : 1);
  for (i[0] = 0; i[0] < extent[0]; ++i[0])
    for (i[1] = 0; i[1] < extent[1]; ++i[1])
      for (i[2] = 0; i[2] < extent[2]; ++i[2]) {
        std::int64_t at[3] = {i[0], i[1], i[2]};
        if (dim >= 0) at[dim] += index * extent[dim];
        values.push_back(f((at[0] * kWhole[1] + at[1]) * kWhole[2] + at[2]));
      }
  return values;
}

Shape shape_of(const Placement& place, int parts) {
  Shape s = kWhole;
  if (place.sharded()) s[place.dim] /= parts;
  return s;
}

struct Ranks {
  MpiWorld world{4};
  cpu::CpuDevice device;
};

// What a rank holds of the whole tensor there; of a partial one, its addend.
std::vector<float> held(const Placement& place, int parts, int rank) {
  if (place == partial) return part_of([&](std::int64_t i) { return value(i, rank); }, -1, parts, 0);
  // The sum of the addends is what everything else is a part of.
  const auto sum = [&](std::int64_t i) {
    float total = 0;
    for (int r = 0; r < parts; ++r) total += value(i, r);
    return total;
  };
  return part_of(sum, place.sharded() ? place.dim : -1, parts, rank);
}

}  // namespace

TEST_CASE("exchanges between all places, along every dim") {
  Ranks ranks;
  if (!ranks.world.member()) return;
  Point point;
  point.model = find_preset("gpt-bytes-tiny", "test");
  point.seq = 64;
  point.tp = 4;
  for (const Graph graph : {Graph::eager, Graph::fused}) {
    point.framework = keeps(graph);
    const Plan plan = strategies::make_plan(point);
    const Groups groups(ranks.device, ranks.world, plan.mesh);
    Context context{ranks.device, plan, groups, {}, 0};
    const int rank = groups.coordinate(Axis::tp);
    for (const Placement& from : {replicate, partial, shard(0), shard(1), shard(2)})
      for (const Placement& to : {replicate, shard(0), shard(1), shard(2)}) {
        INFO(str(from) << " to " << str(to) << ", graph " << name_of(graph));
        const auto start = [&] {
          const Tensor x = ranks.device.empty(shape_of(from, 4), DType::f32, Category::other, "test");
          const std::vector<float> values = held(from, 4, rank);
          ranks.device.write(x, std::as_bytes(std::span(values)));
          return x;
        };
        const auto check = [&](const Tensor& y) {
          CHECK(y.shape() == shape_of(to, 4));
          std::vector<float> got(static_cast<std::size_t>(y.numel()));
          ranks.device.read(y, std::as_writable_bytes(std::span(got)));
          CHECK(got == held(to, 4, rank));
        };
        const Exchanges list = exchanges(Spread(Axis::tp, from), Spread(Axis::tp, to), plan.mesh);
        CHECK(list.empty() == (from == to));
        check(communicate(context, list, start()));
        check(communicate_briefly(context, list, start()));
        for (const auto use : {Communication::Use::keep, Communication::Use::brief}) {
          Communication travelling(context, list, start(), use);
          check(travelling.finish());
        }
      }
  }
}
