// Tables of a machine file: what lies between their points and beyond them, and what is refused.
#include "engine/sim/machine/measured.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using Catch::Contains;

namespace {

nlohmann::json tables() {
  return nlohmann::json::parse(R"({"source": "a test", "progress_in_calls": true,
    "by_ranks": [{"ranks": 1, "threads": 2, "ops": [{"op": "add", "precision": "f32", "work": [100, 400], "us": [1, 4]}],
                  "products": [{"form": "nt", "dtype": "f32", "m": [16, 64], "n": [16, 64], "k": [16],
                                "gflops": [1, 3, 5, 7]}]},
                 {"ranks": 4, "threads": 1, "ops": [], "products": []}],
    "calls": [{"call": "all_reduce", "dtype": "f32", "ranks": 2, "work": [1024], "us": [8]}]})");
}

}  // namespace

TEST_CASE("measured tables are read between their points and beyond them") {
  const Measured m = measured_from_json(tables(), "m: $");
  const RankTables& one = *m.tables(1).first;
  const Curve& add = one.ops.at({"add", Precision::f32});
  CHECK(add.at(200) == Approx(2e-6));
  CHECK(add.at(800) == Approx(8e-6));
  CHECK(add.at(1) == Approx(0.5e-6));
  const GemmGrid& grid = one.gemms.at({GemmForm::nt, DType::f32});
  CHECK(grid.at(16, 64, 100) == Approx(3e9));
  CHECK(grid.at(32, 32, 16) == Approx(4e9));  // half way in both logarithms
  CHECK(m.tables(2).first->ranks == 4);
  CHECK(m.tables(8).second == Approx(2));
  CHECK(m.seconds(Call::all_reduce, 2048, DType::f32, 2).value() == Approx(16e-6));
  CHECK_FALSE(m.seconds(Call::all_gather, 2048, DType::f32, 2));
  CHECK(measured_to_json(m, "a test") ==
        measured_to_json(measured_from_json(measured_to_json(m, "a test"), "again: $"), "a test"));
}

TEST_CASE("measured tables that cannot be are refused where they are wrong") {
  auto broken = tables();
  broken["by_ranks"][0]["products"][0]["gflops"] = {1, 2};
  CHECK_THROWS_WITH(measured_from_json(broken, "m: $"),
                    Contains("by_ranks[0].products[0].gflops") && Contains("need 4"));
  broken = tables();
  broken["calls"][0]["us"] = {0};
  CHECK_THROWS_WITH(measured_from_json(broken, "m: $"), Contains("calls[0].us[0]"));
}
