// What attention of packed documents costs in a simulated step.
#include <string>

#include "engine/point/document_lengths.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

TEST_CASE("attention of packed documents takes the time of the pairs that they see, and the rest of a step its own") {
  Point p;
  p.model = find_preset("gpt2-345m", "test");
  p.seq = 1024, p.micro_batch = 2, p.global_batch = 16;
  p.precision = Precision::fp16, p.attention = AttentionKind::flash, p.dropout = 0;
  const auto anatomy_of = [&](const std::string& lengths) {
    p.document_lengths = read_document_lengths(lengths, "test");
    const Simulation s = simulated(p, ideal_machine(), ideal_framework());
    REQUIRE(s.result.time_anatomy_ms);
    return *s.result.time_anatomy_ms;
  };
  const TimeAnatomy whole = anatomy_of("none");
  const auto pairs = [](double length) { return length * (length + 1) / 2; };
  // Without documents half of the square counts.
  const double attention = whole[TimePart::attention] / (1024.0 * 1024 / 2);
  for (const double length : {512.0, 128.0, 16.0}) {
    const TimeAnatomy packed = anatomy_of(std::to_string(static_cast<int>(length)));
    INFO(length);
    CHECK(packed[TimePart::attention] == Approx(attention * 1024 / length * pairs(length)).epsilon(0.01));
    CHECK(packed[TimePart::gemms] == Approx(whole[TimePart::gemms]).epsilon(1e-6));
  }
  const TimeAnatomy two = anatomy_of("768+256");
  CHECK(two[TimePart::attention] == Approx(attention * (pairs(768) + pairs(256))).epsilon(0.01));
  // A document that is as long as the sequence, or longer, is all of it.
  CHECK(anatomy_of("1024")[TimePart::attention] == whole[TimePart::attention]);
  // What keeps probabilities has those of all pairs.
  p.attention = AttentionKind::core;
  CHECK(anatomy_of("128")[TimePart::attention] == Approx(anatomy_of("none")[TimePart::attention]).epsilon(1e-4));
}
