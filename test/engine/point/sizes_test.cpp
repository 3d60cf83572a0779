#include "engine/point/sizes.h"

#include "engine/base/error.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

std::string refusal(const Point& point) {
  try {
    check_sizes(point);
    return "";
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::infeasible);
    return e.what();
  }
}

}  // namespace

TEST_CASE("sizes whose products leave 64 bits are infeasible, the largest models there are not") {
  for (const ModelSpec& model : model_presets()) {
    Point p;
    p.model = model;
    p.seq = 1 << 20, p.global_batch = 4096, p.dp = 64, p.pp = 8;
    INFO(model.name);
    CHECK(refusal(p).empty());
  }
  // Each of these within its bounds; the products of the embedding wrapped.
  Point p;
  p.model = find_preset("gpt2-345m", "test");
  p.model.hidden = 1 << 20, p.model.heads = 1 << 16, p.model.ffn = 1 << 22;
  p.seq = 1 << 24, p.micro_batch = 1 << 20, p.global_batch = 1 << 20;
  CHECK_THAT(refusal(p), Contains("[sizes] bytes of a step's activations, got 2^") &&
                             Contains("need less than 2^62: smaller sizes"));
  p.micro_batch = p.global_batch = 1;
  p.seq = 1024;
  p.model.layers = 16384, p.model.experts = 65536;
  CHECK_THAT(refusal(p), Contains("bytes of weights and of what the optimizer keeps of them, got 2^"));
  p.model = find_preset("gpt-bytes-tiny", "test");
  p.seq = 1 << 24, p.global_batch = 1 << 14;
  CHECK_THAT(refusal(p), Contains("attention scores of a step, got 2^"));
}

TEST_CASE("a step of more micro batches than a program gets through is infeasible") {
  Point p;
  p.model = find_preset("gpt-bytes-tiny", "test");
  p.global_batch = 1 << 21;
  CHECK(refusal(p).empty());
  p.pp = 2;
  CHECK_THAT(refusal(p), Contains("[sizes] micro batches times stages, got 2097152 x 2, need at most 2097152: a larger "
                                  "micro_batch or more dp"));
  p.dp = 2;
  CHECK(refusal(p).empty());
}
