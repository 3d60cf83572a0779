// What tensor and sequence parallelism refuse of the ways in which their ranks meet.
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;

namespace {

// Why a model of 4 layers, hidden 64 and 4 heads cannot be with that change; empty if it can.
template <typename Change>
std::string why(Change change) {
  Point p = point_from_json(nlohmann::json::parse(R"({"model": "gpt-bytes-tiny", "seq": 64})"), "p: $");
  change(p);
  const auto refusal = strategies::why_not(p);
  return refusal ? refusal->reason : "";
}

}  // namespace

TEST_CASE("exchanges travel beside GEMMs, and each GEMM gathers for itself, where activations are split over tp") {
  CHECK(why([](Point& p) { p.tp_comm_overlap = p.sequence_parallel = true, p.tp = 2; }) == "");
  CHECK(why([](Point& p) { p.tp_comm_overlap = p.sequence_parallel = true; }) ==
        "tp_comm_overlap true with tp 1 and sequence_parallel true, need tp 2 or tp_comm_overlap false");
  CHECK(why([](Point& p) { p.tp_comm_overlap = true, p.tp = 2; }) ==
        "tp_comm_overlap true with tp 2 and sequence_parallel false, need sequence_parallel true or tp_comm_overlap "
        "false");
  const auto each = [](auto change) {
    return why([&](Point& p) {
      p.tp_gathers = TpGathers::gemm, p.sequence_parallel = true, p.tp = 2;
      change(p);
    });
  };
  CHECK(each([](Point&) {}) == "");
  CHECK(each([](Point& p) { p.sequence_parallel = false; }) ==
        "tp_gathers product with tp 2 and sequence_parallel false, need sequence_parallel true or tp_gathers block");
  CHECK(each([](Point& p) { p.tp_comm_overlap = true; }).find("need tp_comm_overlap false or tp_gathers block") !=
        std::string::npos);
  CHECK(each([](Point& p) { p.precision = Precision::fp8; }).find("need precision bf16 or tp_gathers block") !=
        std::string::npos);
  CHECK(each([](Point& p) { p.recompute.regions = {Region::norm}; }).find("recompute norm") != std::string::npos);
}

TEST_CASE("a table of words is whole on every rank where logits have one of their own") {
  CHECK(why([](Point& p) { p.vocab_parallel = false; }) ==
        "vocab_parallel false with tp 1, need vocab_parallel true, or tp 2 and tied_embedding false");
  CHECK(why([](Point& p) { p.vocab_parallel = false, p.tp = 2; }) ==
        "vocab_parallel false with a tied table, which logits have split, need tied_embedding false or vocab_parallel "
        "true");
  CHECK(why([](Point& p) {
          p.vocab_parallel = false, p.tp = 2;
          p.model.own_parts = p.model.parts();
          p.model.own_parts->tied_embedding = false;
        }) == "");
}
