// Pipelines of equal stages against the closed forms of their bubbles.
#include "search/played_schedule.h"

#include <algorithm>

#include "strategies/schedule.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::search;

namespace {

std::vector<std::vector<ChunkPlan>> equal_chunks(ScheduleKind kind, int stages, int chunks) {
  std::vector<std::vector<ChunkPlan>> all(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s)
    for (int c = 0; c < chunks; ++c) {
      ChunkPlan chunk;
      chunk.stage = s, chunk.position = strategies::position_of(kind, stages, s, c);
      all[static_cast<std::size_t>(s)].push_back(chunk);
    }
  return all;
}

double played(ScheduleKind kind, int stages, int chunks, int micro_batches, const ActionSeconds& seconds,
              double message = 0, double lead = 0, bool ahead = false) {
  const auto plan = equal_chunks(kind, stages, chunks);
  const PlayedSchedules schedules;
  const std::vector<std::vector<ActionSeconds>> all(
      static_cast<std::size_t>(stages), std::vector<ActionSeconds>(static_cast<std::size_t>(chunks), seconds));
  const auto ends = schedules.ends_of(
      {kind, micro_batches, 0, plan, all, [message](std::int64_t, std::int64_t) { return message; }, lead, ahead});
  return *std::max_element(ends.begin(), ends.end());
}

}  // namespace

TEST_CASE("a played pipeline takes what the closed form of its schedule says, for many micro batches too") {
  const ActionSeconds whole{1, 2, 0};
  for (const int stages : {2, 4, 8})
    for (const int micro_batches : {8, 16, 40, 512}) {
      INFO(stages << " stages, " << micro_batches << " micro batches");
      const double m = micro_batches, p = stages;
      for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        CHECK(played(kind, stages, 1, micro_batches, whole) == Approx((m + p - 1) * 3));
      // Each stage has two chunks: the bubble is half as long.
      CHECK(played(ScheduleKind::interleaved, stages, 2, micro_batches, whole) == Approx(6 * m + (p - 1) * 3));
      // ZB-H1 (Qi et al. 2023): (p - 1)(F + B - W).
      CHECK(played(ScheduleKind::zb_h1, stages, 1, micro_batches, {1, 1, 1}) == Approx(3 * m + (p - 1)));
    }
}

TEST_CASE("messages and a late first stage lengthen a played pipeline") {
  const ActionSeconds seconds{1, 1, 1};
  const double plain = played(ScheduleKind::zb_h1, 4, 1, 64, seconds);
  CHECK(played(ScheduleKind::zb_h1, 4, 1, 64, seconds, 0, 5) == Approx(plain + 5));
  // Every stage but the ends waits for two in each micro batch.
  CHECK(played(ScheduleKind::zb_h1, 4, 1, 64, seconds, 0.1) >= plain + 64 * 0.2);
}

TEST_CASE("what travels while its receiver computes lengthens a played pipeline by less") {
  const ActionSeconds seconds{1, 2, 0};
  const auto step = [&](double message, bool ahead) {
    return played(ScheduleKind::interleaved, 4, 2, 64, seconds, message, 0, ahead);
  };
  CHECK(step(0, true) == step(0, false));
  CHECK(step(0.1, true) < step(0.1, false));
  // The first micro batch comes to the last of eight chunks by seven messages, and its gradient goes back by as many.
  CHECK(step(0.1, true) >= step(0, true) + 14 * 0.1 - 1e-9);
}
