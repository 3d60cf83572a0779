// The optimizers beside AdamW: against the libraries that people train with, launch by launch against themselves, and the
// bytes that each keeps.
#include "engine/ops/adam_blockwise.h"
#include "engine/sim/run/counting.h"
#include "engine/train/optimizer.h"
#include "test/engine/nn/module_test.h"
#include "test/engine/ops/fixture.h"
#include "test/engine/train/serial_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;

namespace {

using fixture::Json;

class Parameters : public ModuleTest {
 public:
  Parameters(const Point& point, const std::vector<Shape>& shapes) : ModuleTest(point) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      WeightSpec w;
      w.name = "p" + std::to_string(i);
      w.shape = shapes[i];
      if (w.shape.rank() > 1) w.meets = Meets::every_token;
      store.add(w, {}, {});
    }
    store.close_unit();
    store.allocate_and_initialise();
    use_all();
    optimizer = std::make_unique<Optimizer>(*device, plan, store, groups);
  }
  Tensor main(std::size_t i) { return store.main().part(store.all()[i]->offset, store.all()[i]->local); }
  std::unique_ptr<Optimizer> optimizer;
};

Point settings(const std::string& optimizer, const Json& c) {
  Point p = ModuleTest::small("gpt");
  Json json = point_to_json(p);
  json["optimizer"] = optimizer;
  p = point_from_json(json, "test: $");
  p.learning_rate = c.at("lr");
  p.weight_decay = c.at("weight_decay");
  p.clip_grad = 0;
  return p;
}

void check_against_library(const std::string& optimizer, double tolerance) {
  for (const Json& c : fixture::cases(optimizer))
    for (const bool fused : {true, false}) {
      Point point = settings(optimizer, c);
      point.fused_optimizer = fused;
      std::vector<Shape> shapes;
      for (const Json& tensor : c.at("start")) shapes.push_back(fixture::shape_of(tensor));
      Parameters t(point, shapes);
      for (std::size_t i = 0; i < shapes.size(); ++i) t.set(t.main(i), c.at("start")[i].at("data").get<Floats>());
      REQUIRE(c.at("steps").size() == 5);
      for (const Json& step : c.at("steps")) {
        for (std::size_t i = 0; i < shapes.size(); ++i)
          t.set(t.store.all()[i]->gradient, step.at("gradients")[i].at("data").get<Floats>());
        t.optimizer->step();
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          const Floats got = t.get(t.main(i)), want = step.at("params")[i].at("data").get<Floats>();
          double worst = 0;
          for (std::size_t e = 0; e < got.size(); ++e)
            worst = std::max<double>(worst, std::fabs(got[e] - want[e]) / std::max(1.0f, std::fabs(want[e])));
          CAPTURE(c.at("name"), fused, i);
          CHECK(worst < tolerance);
        }
      }
    }
}

Point of_optimizer(OptimizerKind kind, const std::string& family = "llama") {
  Point p = ModuleTest::small(family);
  p.model.hidden = 32, p.model.ffn = 96;
  p.optimizer = kind;
  return p;
}

constexpr OptimizerKind kKinds[] = {OptimizerKind::adamw, OptimizerKind::adamw8bit, OptimizerKind::adafactor,
                                    OptimizerKind::sgd, OptimizerKind::muon};

}  // namespace

TEST_CASE("five steps of SGD with momentum agree with torch.optim.SGD") {
  check_against_library("sgd", 2e-6);
}

// Its iterations in float64, where torch takes bf16.
TEST_CASE("five steps of Muon, and of AdamW for vectors, agree with torch.optim's") {
  check_against_library("muon", 2e-5);
}

TEST_CASE("five steps of Adafactor agree with the one of transformers") {
  check_against_library("adafactor", 2e-6);
}

// Written out in PyTorch with bitsandbytes' maps, both in f32.
TEST_CASE("five steps of AdamW with moments in 8 bits agree with PyTorch's on bitsandbytes' maps") {
  check_against_library("adamw8bit", 2e-6);
}

TEST_CASE("the maps of 8-bit moments are those of bitsandbytes, and each value is its own nearest") {
  for (const Json& c : fixture::cases("dynamic_map")) {
    const bool with_sign = c.at("signed");
    const auto want = c.at("values").at("data").get<Floats>();
    REQUIRE(want.size() == 256);
    const ops::DynamicMap& map = with_sign ? ops::kSignedMap : ops::kUnsignedMap;
    for (int code = 0; code < 256; ++code) {
      CAPTURE(with_sign, code);
      CHECK(map.values[code] == Approx(want[static_cast<std::size_t>(code)]).epsilon(1e-6));
      CHECK(ops::nearest_code(map.values, map.values[code]) == code);
    }
  }
}

TEST_CASE("one launch for each parameter computes the same bits as one for all that lie together") {
  for (const OptimizerKind kind : kKinds)
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      CAPTURE(name_of(kind), name_of(precision));
      std::vector<std::vector<float>> weights;
      std::vector<std::uint64_t> launches;
      for (const bool fused : {true, false}) {
        Point p = of_optimizer(kind);
        p.precision = precision;
        p.fused_optimizer = fused;
        p.clip_grad = 0;  // the norm is summed in another order
        SerialRun run(p);
        run.steps(2);
        const std::uint64_t before = run.device->meter().launches;
        run.steps(1);
        launches.push_back(run.device->meter().launches - before);
        std::vector<float> all;
        for (const auto& parameter : run.trainer.parameters().all()) {
          const auto values =
              floats_of(*run.device, run.trainer.parameters().main().part(parameter->offset, parameter->local));
          all.insert(all.end(), values.begin(), values.end());
        }
        weights.push_back(std::move(all));
        if (fused || kind == OptimizerKind::adafactor || kind == OptimizerKind::muon) continue;
        // A norm and an update of each, in place of one of all.
        CHECK(launches[1] - launches[0] == 2 * (run.trainer.parameters().all().size() - 1));
      }
      CHECK(weights[0] == weights[1]);
    }
}

TEST_CASE("what an optimizer keeps is to the byte what its states say of each parameter") {
  for (const std::string family : {"gpt", "llama", "mixtral"})
    for (const OptimizerKind kind : kKinds)
      for (const Precision precision : {Precision::f32, Precision::bf16}) {
        CAPTURE(family, name_of(kind), name_of(precision));
        Point p = of_optimizer(kind, family);
        p.precision = precision;
        const Plan plan = strategies::make_plan(p);
        const std::int64_t unit = kind == OptimizerKind::adamw8bit ? 256 : 64;
        std::int64_t padded = 0, rows = 0, columns = 0, matrices = 0;
        for (const WeightSpec& w : weights_of(plan.model, plan.vocab)) {
          if (w.tied) continue;
          padded += (w.shape.numel() + unit - 1) / unit * unit;
          if (is_matrix_of_layers(w)) matrices += (w.shape.numel() + unit - 1) / unit * unit;
          const std::int64_t last = w.shape.rank() == 1 ? 1 : w.shape[-1];
          rows += w.shape.numel() / last;
          columns += w.shape.rank() == 1 ? 1 : w.shape.numel() / w.shape[w.shape.rank() - 2];
        }
        // The tensors of each: two moments of 4 bytes; two of 1 and a scale of 4 for 256; factors of 4; one of 4; one
        // of matrices of layers and two of the rest.
        std::vector<std::int64_t> tensors{4};  // the norm
        if (precision == Precision::bf16) tensors.push_back(4 * padded);
        if (kind == OptimizerKind::adamw) tensors.insert(tensors.end(), {4 * padded, 4 * padded});
        if (kind == OptimizerKind::adamw8bit)
          tensors.insert(tensors.end(), {padded, padded / 256 * 4, padded, padded / 256 * 4});
        if (kind == OptimizerKind::adafactor) tensors.insert(tensors.end(), {4 * rows, 4 * columns});
        if (kind == OptimizerKind::sgd) tensors.push_back(4 * padded);
        if (kind == OptimizerKind::muon)
          tensors.insert(tensors.end(), {4 * matrices, 4 * (padded - matrices), 4 * (padded - matrices)});
        std::size_t want = 0;
        for (const std::int64_t bytes : tensors) want += static_cast<std::size_t>((bytes + 511) / 512 * 512);
        const MemoryUse use = count_state(plan, 0);
        CHECK(use.by_category[static_cast<int>(Category::optimizer)] == want);
        SerialRun run(p);
        CHECK(run.device->memory().in_use().by_category == use.by_category);
      }
}
