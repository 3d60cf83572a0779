#include "engine/plan/mesh.h"

#include <algorithm>
#include <set>

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
  const Mesh mesh{{2, 1, 2, 2}};
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

TEST_CASE("coordinates name a rank, and the groups of an axis part the ranks") {
  for (const Mesh& mesh : {Mesh{{3, 2, 4, 2}}, Mesh{{1, 1, 5, 3}}, Mesh{{4, 1, 1, 1}}}) {
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

TEST_CASE("axes have names") {
  std::set<std::string_view> names;
  for (const Axis axis : kAll) names.insert(name_of(axis));
  CHECK(names == std::set<std::string_view>{"tp", "cp", "dp", "pp"});
}
