// Which tensors came, went and grew, of made-up peaks.
#include "explain/tensor_changes.h"

#include <numeric>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::explain;
using sim::PeakByTensor;
using sim::TensorsAtPeak;
using Kind = TensorChange::Kind;

namespace {

TensorsAtPeak tensors(const char* what, const char* shape, std::size_t bytes, const char* made_by = "forward 0",
                      const char* where = "layers 0-3", Category category = Category::activations) {
  TensorsAtPeak t;
  t.what = what, t.shape = shape, t.dtype = "bf16", t.category = category;
  t.bytes = bytes, t.count = 4, t.where = where, t.made_by = made_by;
  return t;
}

PeakByTensor peak(std::vector<TensorsAtPeak> all) {
  PeakByTensor p;
  for (const TensorsAtPeak& t : all) p.total += t.bytes;
  p.tensors = std::move(all);
  return p;
}

std::int64_t sum(const std::vector<TensorChange>& changes) {
  return std::accumulate(changes.begin(), changes.end(), std::int64_t{0},
                         [](std::int64_t s, const TensorChange& c) { return s + c.bytes; });
}

}  // namespace

TEST_CASE("tensors that came, went, grew and shrank, the largest change first, add up to the total's change") {
  const PeakByTensor from = peak({tensors("linear output", "[8, 1, 4]", 100), tensors("norm output", "[8, 1, 2]", 60),
                                  tensors("residual sum", "[8, 1, 2]", 50), tensors("mask", "[8]", 7)});
  const PeakByTensor to =
      peak({tensors("linear output", "[8, 1, 4]", 25, "forward 0", "layer 3"), tensors("norm output", "[8, 2, 2]", 120),
            tensors("residual sum", "[8, 1, 2]", 50), tensors("layer input", "[8, 1, 2]", 12)});
  const auto changes = changed_tensors(from, to);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].kind == Kind::shrank);
  CHECK(changes[0].bytes == -75);
  CHECK(changes[0].to->where == "layer 3");
  CHECK(changes[1].kind == Kind::grew);  // of another shape
  CHECK(changes[1].bytes == 60);
  CHECK(changes[1].from->shape == "[8, 1, 2]");
  CHECK(changes[1].to->shape == "[8, 2, 2]");
  CHECK(changes[2].kind == Kind::came);
  CHECK_FALSE(changes[2].from);
  CHECK(changes[3].kind == Kind::went);
  CHECK_FALSE(changes[3].to);
  CHECK(sum(changes) == static_cast<std::int64_t>(to.total) - static_cast<std::int64_t>(from.total));
  CHECK(changed_tensors(from, from).empty());
}

TEST_CASE("tensors of one name are held against those of their pass, place and category") {
  const PeakByTensor from = peak({tensors("linear output", "[4]", 40, "forward 0", "head"),
                                  tensors("linear output", "[8]", 80, "backward 0", "layer 1"),
                                  tensors("linear output", "[2]", 20, "forward of 2 micro batches", "layers 0-1")});
  const PeakByTensor to = peak({tensors("linear output", "[3]", 30, "forward 1", "layers 0-1"),
                                tensors("linear output", "[9]", 90, "backward 7", "layer 1"),
                                tensors("linear output", "[5]", 50, "forward 1", "head"),
                                tensors("linear output", "[8]", 80, "", "", Category::workspace)});
  const auto changes = changed_tensors(from, to);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].kind == Kind::came);
  CHECK(changes[0].to->category == Category::workspace);
  for (std::size_t i = 1; i < changes.size(); ++i) {
    CHECK(changes[i].kind == Kind::grew);
    CHECK(changes[i].bytes == 10);
    CHECK(changes[i].from->where == changes[i].to->where);
  }
}
