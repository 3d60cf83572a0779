// What sharded state takes and sends: the ZeRO paper's formulas (Rajbhandari et al. 2020, sections 5 and 7), to the byte.
#include "engine/base/json_reader.h"
#include "engine/point/architecture.h"
#include "engine/sim/run/counting.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;

namespace {

constexpr int kRanks = 4;

// All sizes are multiples of 256, which four ranks cut without padding; tables of its own for words and for logits.
Point point_of(Precision precision, Zero zero, std::int64_t micro_batches = 1, bool tied = false) {
  nlohmann::json fields = {{"model",
                            {{"family", "gpt"},
                             {"layers", 3},
                             {"hidden", 256},
                             {"heads", 4},
                             {"ffn", 512},
                             {"vocab", 512},
                             {"positions", 256},
                             {"tied_embedding", tied}}}};
  Point p = point_from_json(fields, "test");
  p.seq = 256;
  p.precision = precision;
  p.zero = zero;
  p.dp = kRanks;
  p.global_batch = kRanks * micro_batches;
  return p;
}

struct Counted {
  std::int64_t parameters = 0;
  MemoryUse between_steps;
  double sent = 0;  // bytes of the tensors of collectives in a step
};

Counted count(const Point& p, int rank) {
  const Plan plan = strategies::make_plan(p);
  const auto device = open_counting_device(0);
  const auto world = lone_world(rank, kRanks);
  Trainer trainer(plan, *device, *world, nullptr);
  trainer.step();
  device->meter().reset();
  trainer.step();
  return {parameter_count(p.model, 1), device->memory().in_use(), sum_of(device->meter().communication_bytes)};
}

struct Bytes {
  std::int64_t weights, gradients, optimizer;  // of a parameter
};
Bytes bytes_of(Precision precision) {
  if (precision == Precision::f32) return {4, 4, 8};
  return {2, precision == Precision::fp16 ? 2 : 4, 12};
}

constexpr Precision kPrecisions[] = {Precision::f32, Precision::bf16, Precision::fp16};

}  // namespace

TEST_CASE("model state takes what the paper says, on every rank") {
  struct Stage {
    Zero zero;
    bool no_sync;
    int weights, gradients, optimizer;  // over how many ranks each is sharded
  };
  constexpr int k = kRanks;
  for (const Stage& stage :
       {Stage{Zero::none, false, 1, 1, 1}, Stage{Zero::stage_1, false, 1, 1, k}, Stage{Zero::stage_2, false, 1, k, k},
        Stage{Zero::stage_3, false, k, k, k}, Stage{Zero::fsdp, false, k, k, k}, Stage{Zero::fsdp, true, k, 1, k}})
    for (const Precision precision : kPrecisions)
      for (int rank = 0; rank < kRanks; ++rank) {
        INFO("zero " << name_of(stage.zero) << ", " << name_of(precision) << ", rank " << rank);
        Point p = point_of(precision, stage.zero, 2);
        p.fsdp_no_sync = stage.no_sync;
        const Counted c = count(p, rank);
        const Bytes bytes = bytes_of(precision);
        const auto held = [&](Category category) {
          return static_cast<std::int64_t>(c.between_steps.by_category[static_cast<std::size_t>(category)]);
        };
        REQUIRE(c.parameters % (kRanks * 64) == 0);  // no padding
        const auto block = [&](std::int64_t of_a_parameter, int ranks) {
          return static_cast<std::int64_t>(
              Arena::rounded(static_cast<std::size_t>(of_a_parameter * c.parameters / ranks)));
        };
        CHECK(held(Category::weights) == block(bytes.weights, stage.weights));
        CHECK(held(Category::gradients) == block(bytes.gradients, stage.gradients));
        // Moments of 4 bytes each, 4 of a 16-bit weight's original, and the norm.
        const std::int64_t fours = bytes.optimizer / 4;
        CHECK(held(Category::optimizer) ==
              fours * block(4, stage.optimizer) + static_cast<std::int64_t>(Arena::kRounding));
        CHECK(held(Category::activations) == 0);
        CHECK(held(Category::workspace) == 0);
      }
}

// A rank sends and receives (k - 1) / k of a tensor that is reduce-scattered or all-gathered, twice that of one that is
// all-reduced: so much of what is counted here, the bytes of each tensor.
TEST_CASE("stages 1 and 2 send what data parallelism does, stage 3 half as much again") {
  const double norm = 4;
  for (const Precision precision : kPrecisions)
    for (const std::int64_t micro_batches : {1, 3}) {
      INFO(name_of(precision) << ", " << micro_batches << " micro batches");
      const auto sent = [&](Zero zero, bool no_sync = false) {
        Point p = point_of(precision, zero, micro_batches);
        p.fsdp_no_sync = no_sync;
        return count(p, 1).sent;
      };
      const Bytes bytes = bytes_of(precision);
      const auto n = static_cast<double>(parameter_count(point_of(precision, Zero::none).model, 1));
      const double weights = n * static_cast<double>(bytes.weights),
                   gradients = n * static_cast<double>(bytes.gradients), times = static_cast<double>(micro_batches);
      CHECK(sent(Zero::none) == gradients);  // all-reduced: counts twice on the wire
      CHECK(sent(Zero::stage_1) == gradients + weights + norm);
      CHECK(sent(Zero::stage_2) == times * gradients + weights + norm);
      CHECK(sent(Zero::stage_3) == times * (gradients + 2 * weights) + norm);
      CHECK(sent(Zero::fsdp) == sent(Zero::stage_3));
      CHECK(sent(Zero::fsdp, true) == gradients + times * 2 * weights + norm);
      if (bytes.weights != bytes.gradients || micro_batches > 1) continue;
      CHECK(sent(Zero::stage_1) - norm == 2 * sent(Zero::none));
      CHECK(sent(Zero::stage_2) == sent(Zero::stage_1));
      CHECK(sent(Zero::stage_3) - norm == 1.5 * (sent(Zero::stage_1) - norm));
    }
}

// Of the same: within a copy as of that many ranks, and what a rank owns of the gradients between copies, once a step.
TEST_CASE(
    "copies of sharded state are each as that of fewer ranks, and sum what they own of the gradients once a "
    "step") {
  constexpr int kCopies = 2, kSharers = kRanks / kCopies;
  const double norm = 4;
  for (const Precision precision : kPrecisions)
    for (const std::int64_t micro_batches : {1, 3})
      for (const Zero zero : {Zero::stage_1, Zero::stage_2, Zero::stage_3, Zero::fsdp, Zero::oss, Zero::oss_sdp}) {
        INFO(name_of(precision) << ", " << micro_batches << " micro batches, zero " << name_of(zero));
        Point p = point_of(precision, zero, micro_batches);
        p.optimizer_instances = kCopies;
        const Counted c = count(p, 1), other_copy = count(p, 1 + kSharers);
        const Bytes bytes = bytes_of(precision);
        const auto n = static_cast<double>(c.parameters);
        const double weights = n * static_cast<double>(bytes.weights),
                     gradients = n * static_cast<double>(bytes.gradients), times = static_cast<double>(micro_batches),
                     own = gradients / kSharers;
        CHECK(c.sent == other_copy.sent);
        CHECK(c.between_steps.by_category == other_copy.between_steps.by_category);
        if (zero == Zero::stage_1) CHECK(c.sent == gradients + own + weights + norm);
        if (zero == Zero::stage_2) CHECK(c.sent == times * gradients + own + weights + norm);
        if (zero == Zero::stage_3 || zero == Zero::fsdp)
          CHECK(c.sent == times * (gradients + 2 * weights) + own + norm);
        if (zero == Zero::oss) CHECK(c.sent == gradients + weights + norm);  // gradients over all ranks at once
        if (zero == Zero::oss || zero == Zero::oss_sdp) continue;            // whose owners have unequal parts
        const auto held = [&](Category category) {
          return static_cast<double>(c.between_steps.by_category[static_cast<std::size_t>(category)]);
        };
        const double owned = static_cast<double>(bytes.optimizer) * n / kSharers;
        CHECK(held(Category::optimizer) >= owned);
        CHECK(held(Category::optimizer) <= owned + 4 * static_cast<double>(Arena::kRounding));
        const bool sharded_weights = zero == Zero::stage_3 || zero == Zero::fsdp;
        CHECK(held(Category::weights) ==
              Approx(sharded_weights ? weights / kSharers : weights).margin(Arena::kRounding));
        CHECK(held(Category::gradients) == Approx(zero == Zero::stage_1 ? gradients : own).margin(Arena::kRounding));
      }
}

TEST_CASE("a table that embeds words and makes logits is gathered for each, forward and backward") {
  const Point p = point_of(Precision::fp16, Zero::stage_3, 1, true);
  const auto n = static_cast<double>(parameter_count(p.model, 1));
  const double embedding = (512 + 256) * 256;
  CHECK(count(p, 0).sent == 2 * n + 2 * 2 * (n + embedding) + 4);
}

TEST_CASE("each stage lowers the peak") {
  for (const Precision precision : kPrecisions) {
    INFO(name_of(precision));
    const auto peak = [&](Zero zero) {
      Point p = point_of(precision, zero, 2);
      p.model.layers = 12;
      return forecast_memory(strategies::make_plan(p)).peak_by_stage[0].total;
    };
    CHECK(peak(Zero::stage_1) < peak(Zero::none));
    CHECK(peak(Zero::stage_3) < peak(Zero::stage_1));
  }
}

TEST_CASE("the largest model that fits a limit on memory grows with the stage") {
  for (const Precision precision : kPrecisions) {
    INFO(name_of(precision));
    // The bucket in which gradients are reduced is small beside this limit.
    const auto fits = [&](Zero zero, std::int64_t layers) {
      Point p = point_of(precision, zero);
      p.model.layers = layers;
      try {
        forecast_memory(strategies::make_plan(p), std::size_t{400} << 20);
        return true;
      } catch (const OutOfMemory&) {
        return false;
      }
    };
    const auto most_layers = [&](Zero zero) {
      std::int64_t most = 1, too_many = 512;
      REQUIRE(fits(zero, most));
      while (most + 1 < too_many) {
        const std::int64_t between = (most + too_many) / 2;
        (fits(zero, between) ? most : too_many) = between;
      }
      return most;
    };
    const std::int64_t none = most_layers(Zero::none), first = most_layers(Zero::stage_1),
                       second = most_layers(Zero::stage_2), third = most_layers(Zero::stage_3);
    INFO(none << ", " << first << ", " << second << ", " << third << " layers");
    CHECK(first > none);
    CHECK(second > first);
    CHECK(third > second);
  }
}

// Of what is gathered no more than two units are there at once, however many there are.
TEST_CASE("at the peak of stage 3 more layers add their shards to the weights and no more") {
  for (const Precision precision : kPrecisions) {
    INFO(name_of(precision));
    const auto count_at = [&](std::int64_t layers, std::int64_t& elements) {
      Point p = point_of(precision, Zero::stage_3);
      p.model.layers = layers;
      elements = parameter_count(p.model, 1);
      return static_cast<std::int64_t>(forecast_memory(strategies::make_plan(p))
                                           .peak_by_stage[0]
                                           .by_category[static_cast<std::size_t>(Category::weights)]);
    };
    std::int64_t some = 0, more = 0;
    const std::int64_t before = count_at(12, some), after = count_at(16, more);
    CHECK(after - before == (more - some) * bytes_of(precision).weights / kRanks);
  }
}
