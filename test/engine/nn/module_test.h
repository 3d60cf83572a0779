// Gradients of modules by finite differences: a device, a plan and a parameter store for one rank. What a backward wrote is compared
// with the real change of a scalar function of its output.
//
// The engine computes in f32, so differences are noisy. A fourth-order central difference with a wide step keeps both rounding (1e-6 /
// step) and truncation (step^4) small. Every tensor is checked along a random direction, which sees all of its elements at once. It is
// also checked element by element at up to 32 evenly strided places. Dropout masks come from counters and do not change between two
// evaluations, so the function stays smooth with dropout on.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/ops.h"
#include "engine/platform/registry.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/graphs.h"

namespace mbench::test {

using Floats = std::vector<float>;

class ModuleTest {
 public:
  explicit ModuleTest(const Point& point)
      : plan(strategies::make_plan(point)),
        device(platform::open_device("cpu", 0)),
        world(sim::lone_world(0, 1)),
        groups(*device, *world, plan.mesh, plan.model.experts > 0),
        context{*device, plan, groups, {}, 0},
        store(*device, plan, groups) {
    context.step = 3;
  }

  // Small, but with more than one of everything; dropout on. LLaMA's heads share keys and values.
  static Point small(const std::string& family) {
    Point p;
    p.model = {"small", family, 2, 16, 2, 24, 21, 8};
    if (family == "llama" || family == "mixtral") p.model.heads = 4, p.model.kv_heads = 2;
    if (family == "mixtral") p.model.experts = 4, p.model.active_experts = 2;
    p.seq = 6;
    p.micro_batch = 2;
    p.global_batch = 2;
    p.dropout = 0.25;
    return p;
  }

  // Weights unlike any initial state, so that every term of a gradient counts. Gradients are not zero, so that a backward that
  // overwrites them is found.
  void allocate_parameters() {
    store.close_unit();  // of what was added since the last
    store.allocate_and_initialise();
    use_all();
    for (const auto& p : store.all()) {
      const bool scale = p->spec.constant == 1;
      set(p->value, draw(p->value.numel(), scale ? 0.5f : -0.5f, scale ? 1.5f : 0.5f));
    }
    clear_gradients();
  }
  // Of all units, for as long as the test goes on.
  void use_all() {
    for (int unit = 0; unit < store.unit_count(); ++unit) uses_.push_back(store.use(unit));
  }
  void clear_gradients() {
    for (const auto& p : store.all()) run(*device, ops::Fill{p->gradient, kBefore});
  }

  Floats draw(std::int64_t n, float low = -1, float high = 1) {
    std::uniform_real_distribution<float> uniform(low, high);
    Floats values(static_cast<std::size_t>(n));
    for (float& v : values) v = uniform(engine_);
    return values;
  }
  Tensor random(const Shape& shape, float low = -1, float high = 1) {
    return put(shape, draw(shape.numel(), low, high));
  }
  Tensor put(const Shape& shape, const Floats& values) {
    const Tensor t = device->empty(shape, DType::f32, Category::other, "test");
    set(t, values);
    return t;
  }
  Tensor ids(const Shape& shape, const std::vector<std::int64_t>& values) {
    const Tensor t = device->empty(shape, DType::i64, Category::other, "test");
    device->write(t, std::as_bytes(std::span(values)));
    return t;
  }
  Tensor flags(const Shape& shape, const std::vector<std::uint8_t>& values) {
    const Tensor t = device->empty(shape, DType::u8, Category::other, "test");
    device->write(t, std::as_bytes(std::span(values)));
    return t;
  }
  Tensor copy(const Tensor& t) { return put(t.shape(), get(t)); }
  void set(const Tensor& t, const Floats& values) { device->write(t, std::as_bytes(std::span(values))); }
  Floats get(const Tensor& t) {
    Floats values(static_cast<std::size_t>(t.numel()));
    device->read(t, std::as_writable_bytes(std::span(values)));
    return values;
  }
  double dot(const Tensor& a, const Tensor& b) {
    const Floats x = get(a), y = get(b);
    REQUIRE(x.size() == y.size());
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * y[i];
    return sum;
  }

  // A micro batch of the point's shape with words, labels, weights, and for BERT padding at the end of
  // sample 1.
  nn::MicroBatch batch();

  // How far `gradient`, a backward's df/dx, is from differences of `f`, the scalar function of what is in the tensors now. In units of
  // the tolerance, so up to 1 is right. `where` receives the worst place.
  double gradient_error(const std::function<double()>& f, const Tensor& x, const Floats& gradient,
                        std::string* where = nullptr);
  void check_gradient(const std::string& what, const std::function<double()>& f, const Tensor& x,
                      const Floats& gradient);
  void check_gradient(const std::string& what, const std::function<double()>& f, const Tensor& x,
                      const Tensor& gradient) {
    check_gradient(what, f, x, get(gradient));
  }
  // The same for every parameter of the store.
  void check_parameters(const std::function<double()>& f);

  Plan plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<comm::World> world;
  nn::Groups groups;
  nn::Context context;
  nn::ParameterStore store;

 private:
  static constexpr float kBefore = 0.25f;  // what gradients hold before a backward adds to them
  static constexpr double kStep = 0.02;
  static constexpr double kRelative = 1e-3, kAbsolute = 3e-4;  // of the gradient's norm, and rounding / kStep
  static constexpr std::size_t kElements = 32;
  double difference(const std::function<double()>& f, const Tensor& x, const Floats& direction);
  std::mt19937 engine_{7};
  std::vector<nn::ParameterStore::Use> uses_;
};

// Where a family, a graph and an attention core differ, for tests that run all of them.
inline std::vector<Point> every_graph() {
  std::vector<Point> points;
  for (const std::string family : {"gpt", "bert", "llama"})
    for (const Graph graph : {Graph::eager, Graph::fused})
      for (const AttentionKind attention : {AttentionKind::core, AttentionKind::flash})
        for (const double dropout : {0.0, 0.25}) {
          Point p = ModuleTest::small(family);
          p.framework = keeps(graph);
          p.attention = attention;
          p.dropout = dropout;
          points.push_back(p);
        }
  return points;
}

inline std::string describe(const Point& p) {
  return fmt::format("{}, graph {}, attention {}, recompute {}, dropout {}", p.model.family, name_of(p.framework),
                     name_of(p.attention), name_of(p.recompute), p.dropout);
}

}  // namespace mbench::test
