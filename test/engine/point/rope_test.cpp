// Rotary frequencies and their scalings, as transformers computes them.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/point/architecture.h"
#include "engine/point/model_spec.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("rotary frequencies, and LLaMA 3.1's slower ones") {
  RopeSpec rope;
  CHECK(rope.turned(64) == 64);
  rope.fraction = 0.5;
  CHECK(rope.turned(64) == 32);
  CHECK(rope.turned(10) == 4);
  rope.fraction = 1;
  const std::vector<float> plain = rope.frequencies(8);
  REQUIRE(plain.size() == 4);
  CHECK(plain[0] == 1);
  CHECK(plain[1] == Approx(0.1));
  CHECK(plain[3] == Approx(0.001));
  // As Hugging Face's transformers computes them for Llama 3.1 (rope_theta 500000, factor 8, 1, 4, 8192, heads of 128).
  const RopeSpec& long_context = find_preset("llama-3.1-405b", "test").parts().rope;
  const std::vector<float> slowed = long_context.frequencies(128);
  REQUIRE(slowed.size() == 64);
  RopeSpec quick = long_context;
  quick.factor = 1;
  const std::vector<float> unscaled = quick.frequencies(128);
  CHECK(slowed[0] == 1);
  CHECK(slowed[28] == Approx(unscaled[28]));      // wavelength 1,956, below 8192 / 4
  CHECK(slowed[40] == Approx(unscaled[40] / 8));  // 22,908, above 8192
  CHECK(slowed[63] == Approx(unscaled[63] / 8));
  CHECK(slowed[31] < unscaled[31]);  // 3,620, between them
  CHECK(slowed[31] > unscaled[31] / 8);
  const auto read = [](const std::string& rope_text) {
    return read_model(nlohmann::json::parse(R"({"preset": "llama-2-7b", "rope": )" + rope_text + "}"), "m: $");
  };
  CHECK(read(R"({"base": 10000})") == find_preset("llama-2-7b", "test"));
  const ModelSpec other = read(R"({"base": 1000, "scaling": {"factor": 4}})");
  CHECK(other.parts().rope.factor == 4);
  CHECK(read_model(nlohmann::json::parse(write_model(other).dump()), "m: $") == other);
  // As transformers computes them for the same numbers: all pairs slower; a larger base for a sequence of 64; by YaRN the first pairs as
  // they are, the last ones slower.
  const auto of = [&](const char* text) { return read(text).parts().rope; };
  const RopeSpec linear = of(R"({"scaling": {"type": "linear", "factor": 4}})");
  CHECK(linear.frequencies(8)[1] == Approx(0.1 / 4));
  const RopeSpec dynamic = of(R"({"scaling": {"type": "dynamic", "factor": 2, "original_positions": 32}})");
  CHECK(dynamic.frequencies(8, 32)[1] == Approx(0.1));
  CHECK(dynamic.frequencies(8, 64)[1] == Approx(std::pow(10000 * std::pow(3, 8.0 / 6), -0.25)));
  const RopeSpec yarn = of(R"({"scaling": {"type": "yarn", "factor": 32, "original_positions": 4096}})");
  CHECK(yarn.frequencies(128)[0] == 1);
  CHECK(yarn.frequencies(128)[63] == Approx(RopeSpec().frequencies(128)[63] / 32));
  CHECK(yarn.magnitude() == Approx(0.1 * std::log(32) + 1));
  CHECK(read(write_model(read(R"({"scaling": {"type": "yarn", "factor": 32}})")).at("rope").dump()) ==
        read(R"({"scaling": {"type": "yarn", "factor": 32}})"));
  const std::string lists = R"("short_factors": [1, 2], "long_factors": [4, 8])";
  const auto longrope = [&](const std::string& more) {
    return read_model(
        nlohmann::json::parse(R"({"preset": "llama-2-7b", "head_dim": 8, "rope": {"fraction": 0.5, "scaling": {
        "type": "longrope", "factor": 4, "original_positions": 16, )" +
                              more + "}}}"),
        "m: $");
  };
  const RopeSpec by_lists = longrope(lists).parts().rope;
  CHECK(by_lists.frequencies(8, 16)[1] == Approx(0.01 / 2));
  CHECK(by_lists.frequencies(8, 17)[1] == Approx(0.01 / 8));
  CHECK(by_lists.magnitude() == Approx(std::sqrt(1.5)));
  CHECK(longrope(lists + R"(, "attention_factor": 1.19)").parts().rope.magnitude() == 1.19);
  CHECK(read_model(nlohmann::json::parse(write_model(longrope(lists)).dump()), "m: $") == longrope(lists));
  CHECK_THROWS_WITH(
      longrope(R"("short_factors": [1, 2], "long_factors": [4])"),
      "[m: $.rope.scaling.long_factors] a factor for each pair of a head's rotated columns, got 1, need 2");
  CHECK_THROWS_WITH(longrope(R"("short_factors": [1, 2])"), Catch::Contains("long_factors"));
  CHECK_THROWS_WITH(longrope(R"("short_factors": [1, 0], "long_factors": [4, 8])"),
                    Catch::Contains("short_factors[1]"));
  CHECK_THROWS_WITH(longrope(lists + R"(, "truncate": false)"), Catch::Contains("truncate"));
  CHECK_THROWS_WITH(read(R"({"base": 10000, "fractoin": 0.5})"),
                    Catch::Contains("m: $.rope") && Catch::Contains("fraction"));
  CHECK_THROWS_WITH(read(R"({"scaling": {"factor": 4, "low_frequency_factor": 5}})"),
                    Catch::Contains("high_frequency_factor") && Catch::Contains("need at least the low one"));
}
