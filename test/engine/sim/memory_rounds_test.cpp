// Memory of a pipeline with many micro batches: to leave out actions that follow from earlier ones changes nothing.
#include "engine/sim/play/memory_rounds.h"

#include <set>

#include "engine/sim/cost/device.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;

namespace {

// Is reported every block, so every action is played but for micro batches that come and go alone.
class Listener final : public sim::MemoryListener {
 public:
  void step(int) override {}
  void taken(std::size_t, std::size_t, Category, const sim::TensorName&, const Action*) override {}
  void given(std::size_t) override {}
};

Point pipeline(std::int64_t pp, std::int64_t virtual_stages, ScheduleKind schedule) {
  Point p;
  p.model = {"small", "gpt", 8, 64, 4, 256, 400, 64};
  p.seq = 64;
  p.precision = Precision::bf16;
  p.pp = pp, p.virtual_stages = virtual_stages, p.schedule = schedule;
  p.micro_batch = 2, p.global_batch = 2 * 48;
  return p;
}

template <class MakeMemory>
void check_same(const Point& p, const MakeMemory& make) {
  const Plan plan = strategies::make_plan(p);
  const sim::Recording recording = sim::record(plan, 0, nullptr, nullptr);
  for (const sim::RankClasses::Class& c : recording.classes.classes) {
    INFO("stage " << c.stage);
    Listener listener;
    auto all = make(), few = make();
    const sim::ReplayedMemory every = sim::replay_memory_of(plan, recording, c, all, &listener),
                              quick = sim::replay_memory_of(plan, recording, c, few, nullptr);
    CHECK(quick.peak.total == every.peak.total);
    CHECK(quick.peak.by_category == every.peak.by_category);
    CHECK(quick.reserved == every.reserved);
    CHECK(quick.retries == every.retries);
    CHECK(few.free() == all.free());
    // With one micro batch in flight at a time its blocks soon lie where the last one's lay.
    if (c.stage + 1 == p.pp && p.virtual_stages == 1) CHECK(quick.played * 2 < every.played);
  }
}

}  // namespace

TEST_CASE("memory of a pipeline: what repeats itself is not played, and all is as if it were") {
  for (const auto& [pp, virtual_stages, schedule] :
       {std::tuple(2, 1, ScheduleKind::one_f_one_b), std::tuple(4, 1, ScheduleKind::one_f_one_b),
        std::tuple(4, 2, ScheduleKind::interleaved), std::tuple(2, 2, ScheduleKind::interleaved)}) {
    INFO("pp " << pp << ", virtual_stages " << virtual_stages);
    const Point p = pipeline(pp, virtual_stages, schedule);
    check_same(p, [] { return Arena(std::make_unique<sim::CountedMemory>(), 0); });
    for (const char* settings : {"", "expandable_segments:True", "max_split_size_mb:21"}) {
      INFO(settings);
      check_same(p, [&] { return sim::CachingAllocator(sim::changed_by({}, settings, "a test"), 0); });
    }
  }
}

TEST_CASE("memory of a pipeline: a moment is like another one only with the same blocks in the same places") {
  using Rounds = sim::MemoryRounds<int>;
  Rounds rounds;
  CHECK_FALSE(rounds.seen(10));
  CHECK(rounds.seen(10));
  const Rounds::Moment before{3, 1, 10, 0, 5, {{7, -1, 0, 512, 10}}};
  const auto later = [&](auto change) {
    Rounds::Moment m = before;
    m.action = 9, m.micro = 2;
    change(m);
    return m;
  };
  CHECK(rounds.find(before) == nullptr);
  for (const auto& other :
       {later([](auto& m) { m.free = 6; }), later([](auto& m) { m.retries = 1; }),
        later([](auto& m) { m.used[0].place = 1024; }), later([](auto& m) { m.used[0].micro = -2; })})
    CHECK(rounds.find(other) == nullptr);
  const Rounds::Moment* found = rounds.find(later([](auto&) {}));
  REQUIRE(found);
  CHECK(found->action == 3);
  CHECK(found->micro == 1);
}

// Ranks of one stage with the same recording are placed once, and each class has the figures of its own stage.
TEST_CASE("memory of a pipeline: several threads place the blocks of its stages as one does") {
  Point p = pipeline(4, 2, ScheduleKind::interleaved);
  p.tp = 2;
  const Plan plan = strategies::make_plan(p);
  const sim::Recording recording = sim::record(plan, 0, nullptr, nullptr);
  const auto one = sim::replay_memory(plan, recording, 0, std::nullopt, 1);
  const auto three = sim::replay_memory(plan, recording, 0, std::nullopt, 3);
  REQUIRE(one.size() == recording.classes.classes.size());
  REQUIRE(three.size() == one.size());
  std::set<std::size_t> peaks;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const sim::ReplayedMemory alone =
        sim::replay_memory_of(plan, recording, recording.classes.classes[i], 0, std::nullopt);
    CHECK(one[i].peak.total == alone.peak.total);
    CHECK(three[i].peak.total == alone.peak.total);
    CHECK(three[i].reserved == alone.reserved);
    peaks.insert(alone.peak.total);
  }
  CHECK(peaks.size() > 1);
}
