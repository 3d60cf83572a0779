#include "reports/records/stragglers.h"

#include "reports/records/record.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;

namespace {

// Steps of 10 ms, by a draw of its own for each rank and step, within 4 % of it.
PointResult ranks_of(std::int64_t tp, std::int64_t pp, std::size_t steps, std::uint32_t seed = 1) {
  PointResult r = sample::measured(sample::point(tp, pp, 512, "baseline"), std::vector<double>(steps, 20), 100);
  r.hosts = {{.name = "h1", .ranks = {}}, {.name = "h2", .ranks = {}}};
  for (std::int64_t rank = 0; rank < tp * pp; ++rank) {
    r.hosts[static_cast<std::size_t>(rank % 2)].ranks.push_back(rank);
    std::vector<double> samples;
    for (std::size_t i = 0; i < steps; ++i) {
      seed = seed * 1664525u + 1013904223u;
      samples.push_back(10 * (0.96 + 0.08 * (seed >> 8) / double(1 << 24)));
    }
    r.compute_ms_by_rank.push_back(parts_of(samples));
    r.step_ms_by_rank.push_back(20);
  }
  return r;
}

void slow_down(PointResult& r, std::size_t rank, double factor) {
  StepParts& reported = r.compute_ms_by_rank[rank];
  reported.median *= factor;
  for (double& ms : reported.parts) ms *= factor;
}

}  // namespace

TEST_CASE("stragglers: ranks that differ by noise alone are not named") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed)
    for (const std::size_t steps : {5, 12, 20, 100}) CHECK(straggler_text(ranks_of(4, 2, steps, seed)).empty());
}

TEST_CASE("stragglers: parts of the steps suffice to find a slow rank among many, and a row has no more of each rank") {
  PointResult r = ranks_of(64, 1, 100);
  slow_down(r, 17, 1.15);
  CHECK_THAT(straggler_text(r), Catch::StartsWith("straggler: rank 17 on h2 computes 1"));
  for (const StepParts& rank : r.compute_ms_by_rank) CHECK(rank.parts.size() == StepParts::kMost);
  // 64 ranks of 100 steps each, whose every step would be 6400 numbers.
  const std::string reported = result_to_json(r).at("compute_ms_by_rank").dump();
  CHECK(reported.size() < 10000);
}

TEST_CASE("stragglers: a slow rank is named with its host, its peers and other stages are not") {
  PointResult r = ranks_of(4, 2, 20);
  slow_down(r, 5, 1.5);
  CHECK_THAT(straggler_text(r), Catch::StartsWith("straggler: rank 5 on h2 computes ") &&
                                    Catch::EndsWith(" % longer than the other ranks of its stage"));
  const auto times = rank_times(r);
  REQUIRE(times.size() == 8);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    CHECK(times[rank].stage == static_cast<std::int64_t>(rank / 4));
    CHECK(times[rank].straggler == (rank == 5));
    CHECK(times[rank].against_peers == Approx(rank == 5 ? 1.5 : 1).epsilon(0.05));
  }
  CHECK_THAT(Record(r).reason(), Catch::Contains("straggler: rank 5 on h2"));
  // A rank's record has its own figures, and there is one for each.
  const auto ranks = Record(r).by_rank();
  REQUIRE(ranks.size() == 8);
  CHECK(ranks[5].text("rank.host") == "h2");
  CHECK(ranks[5].value("rank.straggler") == true);
  CHECK(ranks[4].value("rank.straggler") == false);
  CHECK(ranks[4].text("tp") == "4");
}

TEST_CASE("stragglers: a stage with more work is none, nor one rank of two by less than the threshold") {
  PointResult stages = ranks_of(2, 2, 20);
  slow_down(stages, 2, 3);
  slow_down(stages, 3, 3);
  CHECK(straggler_text(stages).empty());
  PointResult little = ranks_of(2, 1, 20);
  slow_down(little, 1, 1.07);
  CHECK(straggler_text(little).empty());
  slow_down(little, 1, 1.2);
  CHECK_THAT(straggler_text(little), Catch::Contains("rank 1 on h2 computes "));
}

TEST_CASE("stragglers: half of the ranks may be slow, and what cannot be told is not") {
  PointResult half = ranks_of(8, 1, 20);
  for (const std::size_t rank : {0, 1, 2, 3}) slow_down(half, rank, 2);
  CHECK_THAT(straggler_text(half),
             Catch::StartsWith("stragglers: rank 0 on h1 computes ") && Catch::Contains("rank 3 on h2"));
  PointResult few = ranks_of(4, 1, 4);
  slow_down(few, 0, 2);
  CHECK(straggler_text(few).empty());
  PointResult routed = ranks_of(4, 1, 20);
  slow_down(routed, 0, 2);
  routed.expert_imbalance = 1.4;
  CHECK(straggler_text(routed).empty());
  PointResult alone = ranks_of(1, 4, 20);  // no rank has a peer
  slow_down(alone, 0, 2);
  CHECK(straggler_text(alone).empty());
  CHECK(std::isnan(rank_times(alone)[0].against_peers));
  PointResult damaged = ranks_of(4, 1, 20);
  damaged.compute_ms_by_rank[2].parts.pop_back();
  CHECK(rank_times(damaged).empty());
  CHECK(rank_times(PointResult()).empty());
}
