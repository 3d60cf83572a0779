#include "engine/plan/mesh.h"

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;

namespace {

constexpr Axis kAll[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp};

}  // namespace

TEST_CASE("a mesh of one") {
  const Mesh mesh;
  CHECK(mesh.world() == 1);
  for (const Axis axis : kAll) {
    CHECK(mesh.coordinate(0, axis) == 0);
    CHECK(mesh.members(0, {axis}) == std::vector<int>{0});
  }
}

TEST_CASE("rank order is Megatron's: tp adjacent, then dp, pp furthest apart") {
  const Mesh mesh(2, 1, 2, 2);
  CHECK(mesh.world() == 8);
  CHECK(mesh.members(0, {Axis::tp}) == std::vector<int>{0, 1});
  CHECK(mesh.members(0, {Axis::dp}) == std::vector<int>{0, 2});
  CHECK(mesh.members(0, {Axis::pp}) == std::vector<int>{0, 4});
  CHECK(mesh.members(5, {Axis::tp}) == std::vector<int>{4, 5});
  CHECK(mesh.members(5, {Axis::dp}) == std::vector<int>{5, 7});
  CHECK(mesh.members(5, {Axis::pp}) == std::vector<int>{1, 5});
  CHECK(mesh.members(3, {Axis::tp, Axis::pp}) == std::vector<int>{2, 3, 6, 7});
  CHECK(mesh.members(3, {}) == std::vector<int>{3});
  CHECK(mesh.members(3, {Axis::tp, Axis::dp, Axis::pp}).size() == 8);
}

TEST_CASE("copies of sharded state are runs of neighbouring ranks of a stage, of dense weights and of experts") {
  Mesh mesh(2, 1, 4, 2, 1, 2);  // edp 4
  mesh.resize(Axis::dp_replicate, 2);
  CHECK(mesh.world() == 32);
  CHECK(mesh.size(Axis::edp) == 4);
  CHECK(mesh.members(1, {Axis::dp}) == std::vector<int>{1, 3, 5, 7});
  CHECK(mesh.members(1, {Axis::dp_replicate}) == std::vector<int>{1, 9});
  CHECK(mesh.members(1, {Axis::pp}) == std::vector<int>{1, 17});
  CHECK(mesh.members(9, kBatchAxes) == std::vector<int>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(mesh.members(9, {Axis::edp}) == std::vector<int>{9, 11, 13, 15});
  CHECK(mesh.members(9, {Axis::edp, Axis::dp_replicate}) == std::vector<int>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(str(Axes{Axis::edp, Axis::dp_replicate}) == "edp x dp_replicate");
  for (int rank = 0; rank < mesh.world(); ++rank) {
    CHECK(mesh.coordinate(rank, Axis::dp_replicate) == rank / 8 % 2);
    // A copy is the same ranks, whichever way they are folded.
    CHECK(mesh.members(rank, {Axis::tp, Axis::dp}) == mesh.members(rank, {Axis::etp, Axis::ep, Axis::edp}));
  }
}

TEST_CASE("coordinates name a rank, and the groups of an axis part the ranks") {
  for (const Mesh& mesh : {Mesh(3, 2, 4, 2), Mesh(1, 1, 5, 3), Mesh(4, 1, 1, 1)}) {
    std::set<std::vector<int>> places;
    for (int rank = 0; rank < mesh.world(); ++rank) {
      std::vector<int> place;
      for (const Axis axis : kAll) {
        place.push_back(mesh.coordinate(rank, axis));
        CHECK(place.back() >= 0);
        CHECK(place.back() < mesh.size(axis));
        const std::vector<int> group = mesh.members(rank, {axis});
        REQUIRE(static_cast<int>(group.size()) == mesh.size(axis));
        CHECK(std::is_sorted(group.begin(), group.end()));
        // A rank's position in its group is its coordinate, and every member sees the same group.
        CHECK(group[static_cast<std::size_t>(mesh.coordinate(rank, axis))] == rank);
        for (const int other : group) CHECK(mesh.members(other, {axis}) == group);
      }
      places.insert(place);
    }
    CHECK(static_cast<int>(places.size()) == mesh.world());
  }
}

TEST_CASE("experts fold over tp x cp x dp: ep 64 on tp 2 x dp 32") {
  const Mesh mesh(2, 1, 32, 2, 1, 64);
  CHECK(mesh.world() == 128);
  CHECK(mesh.size(Axis::ep) == 64);
  CHECK(mesh.size(Axis::edp) == 1);
  // A stage is one expert-parallel group; its tensor-parallel pairs lie inside it.
  const std::vector<int> experts = mesh.members(70, {Axis::ep});
  REQUIRE(experts.size() == 64);
  CHECK(experts.front() == 64);
  CHECK(experts.back() == 127);
  CHECK(mesh.members(70, {Axis::tp}) == std::vector<int>{70, 71});
  CHECK(mesh.members(70, {Axis::pp}) == std::vector<int>{6, 70});
  CHECK_THROWS_AS(Mesh(2, 1, 3, 1, 1, 4).size(Axis::edp), Error);
  CHECK_THROWS_AS(mesh.members(0, {Axis::tp, Axis::ep}), Error);
}

TEST_CASE("both factorisations part the same ranks") {
  const Mesh mesh(2, 2, 4, 3, 2, 4);  // edp 2
  CHECK(mesh.size(Axis::edp) == 2);
  std::set<std::vector<int>> places;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    std::vector<int> place;
    for (const Axis axis : {Axis::etp, Axis::ep, Axis::edp, Axis::pp}) {
      place.push_back(mesh.coordinate(rank, axis));
      const std::vector<int> group = mesh.members(rank, {axis});
      REQUIRE(static_cast<int>(group.size()) == mesh.size(axis));
      CHECK(group[static_cast<std::size_t>(place.back())] == rank);
    }
    places.insert(place);
    CHECK(mesh.members(rank, {Axis::tp, Axis::cp, Axis::dp}) == mesh.members(rank, {Axis::etp, Axis::ep, Axis::edp}));
  }
  CHECK(static_cast<int>(places.size()) == mesh.world());
}

TEST_CASE("sets of axes") {
  const Axes some{Axis::tp, Axis::dp};
  CHECK(some.has(Axis::tp));
  CHECK_FALSE(some.has(Axis::pp));
  CHECK((some | Axes{Axis::pp}) == Axes{Axis::tp, Axis::dp, Axis::pp});
  CHECK((some & Axes{Axis::dp, Axis::ep}) == Axes{Axis::dp});
  CHECK((some - Axes{Axis::dp}) == Axes{Axis::tp});
  CHECK(str(some) == "tp x dp");
  CHECK(str(Axes{}) == "none");
  CHECK(Mesh(2, 1, 1, 4).real({Axis::tp, Axis::dp, Axis::pp}) == Axes{Axis::tp, Axis::pp});
}
