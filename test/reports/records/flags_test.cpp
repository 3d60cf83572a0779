// What the samples of a run say about how it was measured.
#include "reports/records/flags.h"

#include <cmath>
#include <random>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::reports;

namespace {

using Samples = std::vector<double>;

// 2 % of noise around 100 ms, with a shape on top.
template <class Shape>
Samples series(int n, unsigned seed, Shape shape, double noise = 0.02) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  Samples samples;
  for (int i = 0; i < n; ++i) samples.push_back(100 * shape(i) * (1 + normal(random)));
  return samples;
}

bool has(const std::vector<Flag>& flags, Flag flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace

TEST_CASE("a series without noise has no flags, however long") {
  for (const int n : {1, 2, 5, 12, 30, 1000}) {
    CHECK(flags_of(Samples(static_cast<std::size_t>(n), 100.0)).empty());
    CHECK(flags_of(series(
                       n, 1, [](int) { return 1; }, 0.0))
              .empty());
  }
  CHECK(flags_of({}).empty());
  CHECK(flags_of(Samples(30, 0.0)).empty());
}

TEST_CASE("plain noise is flagged in less than 1 % of runs") {
  int normal = 0, heavy = 0, bimodal = 0;
  for (unsigned run = 0; run < 2000; ++run) {
    normal += !flags_of(series(30, run, [](int) { return 1; })).empty();
    std::mt19937_64 random(run);
    std::student_t_distribution<double> t(3);
    heavy += !flags_of(series(
                           30, run, [&](int) { return 1 + 0.02 / std::sqrt(3.0) * t(random); }, 0.0))
                  .empty();
    std::bernoulli_distribution coin(0.5);
    bimodal += !flags_of(series(
                             30, run, [&](int) { return coin(random) ? 0.98 : 1.02; }, 0.003))
                    .empty();
  }
  INFO("normal " << normal << ", heavy-tailed " << heavy << ", bimodal " << bimodal);
  CHECK(normal <= 20);
  CHECK(heavy <= 20);
  CHECK(bimodal <= 20);
}

TEST_CASE("a clock that steps down or sinks in the middle of a run is throttling") {
  int step = 0, slope = 0;
  for (unsigned run = 0; run < 200; ++run) {
    const auto stepped = flags_of(series(30, run, [](int i) { return i < 14 ? 1.0 : 1.08; }));
    step += has(stepped, Flag::throttled);
    CHECK_FALSE(has(stepped, Flag::warming));
    slope += has(flags_of(series(60, run, [](int i) { return 1 + 0.10 * i / 60; })), Flag::throttled);
  }
  CHECK(step >= 195);
  CHECK(slope >= 195);
  CHECK_FALSE(has(flags_of(series(30, 3, [](int i) { return i < 14 ? 1.08 : 1.0; })),
                  Flag::throttled));  // it became faster
}

TEST_CASE("slow first steps are a warm-up that was too short") {
  int found = 0;
  for (unsigned run = 0; run < 200; ++run) {
    const auto flags = flags_of(series(30, run, [](int i) { return 1 + 0.4 * std::exp(-i / 2.0); }));
    found += has(flags, Flag::warming);
    CHECK_FALSE(has(flags, Flag::throttled));
  }
  CHECK(found >= 195);
  CHECK_FALSE(has(flags_of(series(30, 5, [](int i) { return i == 0 ? 1.5 : 1.0; })),
                  Flag::warming));  // one step is an outlier
}

TEST_CASE("steps that took much longer now and then are a neighbour's work") {
  int found = 0;
  for (unsigned run = 0; run < 200; ++run)
    found += has(flags_of(series(30, run, [](int i) { return i % 11 == 7 ? 1.3 : 1.0; })), Flag::disturbed);
  CHECK(found >= 198);
  CHECK_FALSE(has(flags_of(series(30, 7, [](int i) { return i == 7 ? 1.5 : 1.0; })),
                  Flag::disturbed));  // one may happen
  // Among many samples two are few.
  CHECK_FALSE(has(flags_of(series(100, 7, [](int i) { return i == 7 || i == 50 ? 1.5 : 1.0; })), Flag::disturbed));
  // A stall in one of 200 steps that takes an eighth of the run.
  CHECK(has(flags_of(series(200, 7, [](int i) { return i == 120 ? 30.0 : 1.0; })), Flag::disturbed));
}

TEST_CASE("too few samples say nothing") {
  CHECK(flags_of(series(11, 1, [](int i) { return i < 5 ? 2.0 : 1.0; })).empty());
}

TEST_CASE("a rank that had no core for much of its time is named") {
  CHECK(starved_text({0.99, 0.48, 0.97}) ==
        "starved: rank 1 had a core for 48 % of the time, something else ran, or ranks outnumber the cores");
  CHECK(starved_text({0.99, 0.8}).empty());
  CHECK(starved_text({}).empty());  // unknown
}

TEST_CASE("every flag has a name and a text that begins with it") {
  for (const Flag flag : {Flag::warming, Flag::throttled, Flag::disturbed})
    CHECK(text_of(flag).rfind(name_of(flag) + ": ", 0) == 0);
}
