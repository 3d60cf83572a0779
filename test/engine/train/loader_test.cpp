// Who makes samples ready, and when: the same samples in any case.
#include "engine/train/loader.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/base/error.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"

using namespace mbench;
using namespace mbench::train;
using namespace mbench::test;

namespace {

HostBatch numbered(std::int64_t step, int micro) {
  HostBatch batch;
  batch.tokens = {step, micro};
  return batch;
}

}  // namespace

TEST_CASE("batches come in the order of the steps, however many workers make them") {
  for (const int workers : {0, 1, 3, 8}) {
    INFO(workers << " workers");
    Loader loader(
        [](std::int64_t step, int micro) {
          if ((step + micro) % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
          return numbered(step, micro);
        },
        {0, 1, 0, 2}, workers);
    for (std::int64_t step = 0; step < 20; ++step)
      for (const int micro : {0, 1, 0, 2})
        CHECK(loader.take(step, micro).tokens == std::vector<std::int64_t>{step, micro});
    CHECK_THROWS_WITH(loader.take(20, 2), Catch::Contains("batch 2 of step 20 is not the next one, which is 0 of 20"));
  }
}

TEST_CASE("workers are so far ahead and no further") {
  std::atomic<int> made{0};
  Loader loader([&](std::int64_t step, int micro) { return ++made, numbered(step, micro); }, {0}, 2);
  const auto settled = [&](int want) {
    for (int look = 0; look < 2000 && made < want; ++look) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return made.load();
  };
  CHECK(settled(4) == 4);
  loader.take(0, 0);
  CHECK(settled(5) == 5);
}

TEST_CASE("what a worker fails by is told to who takes the batch") {
  Loader loader(
      [](std::int64_t step, int micro) {
        check(step < 2, "data", "the end of step {}", step);
        return numbered(step, micro);
      },
      {0, 1}, 2);
  for (std::int64_t step = 0; step < 2; ++step)
    for (const int micro : {0, 1}) loader.take(step, micro);
  CHECK_THROWS_WITH(loader.take(2, 0), Catch::Contains("the end of step 2"));
}

TEST_CASE("losses do not depend on the number of workers, nor on where samples lie") {
  Point p;
  p.model = {"small", "bert", 2, 32, 4, 64, 61, 16};
  p.seq = 16;
  p.global_batch = 3;
  p.iterations = 4;
  p.warmup = 0;
  const PointResult alone = run_serially(p);
  for (const bool capture : {false, true})
    for (const std::int64_t workers : {1, 4}) {
      INFO(workers << " workers, capture " << capture);
      Point with = p;
      with.loader_workers = workers;
      with.pinned = workers == 4;
      with.capture = capture;
      const PointResult r = run_serially(with);
      CHECK(r.losses == alone.losses);
      CHECK(r.gradient_norms == alone.gradient_norms);
    }
}
