// Presets: their sizes against the public numbers of parameters.
#include "engine/spec/model_spec.h"

#include "engine/base/error.h"
#include "engine/spec/point.h"
#include "test/catch.h"

using namespace mbench;

TEST_CASE("models that are not built in have the published number of parameters, or none") {
  const auto count = [](const char* name) { return known_parameter_count(find_preset(name, "test"), 1); };
  CHECK(count("llama-2-7b") == 6738415616);
  CHECK(count("llama-2-13b") == 13015864320);
  CHECK(count("llama-2-70b") == 68976648192);
  CHECK(count("llama-3-8b") == 8030261248);
  CHECK(count("llama-3-70b") == 70553706496);
  CHECK(count("llama-3.1-405b") == 405853388800);
  CHECK(count("mixtral-8x7b") == 46702792704);
  CHECK(count("mixtral-8x22b") == 140620634112);
  CHECK_FALSE(count("deepseek-v3"));
  CHECK_THROWS_AS(parameter_count(find_preset("deepseek-v3", "test"), 1), Error);
  ModelSpec grouped = find_preset("gpt2-345m", "test");
  grouped.kv_heads = 4;
  CHECK_FALSE(known_parameter_count(grouped, 1));
}

TEST_CASE("large GPT presets are as large as their names say") {
  const auto billions = [](const char* name) {
    return static_cast<double>(parameter_count(find_preset(name, "test"), 1)) * 1e-9;
  };
  CHECK(billions("gpt-6.7b") == Approx(6.7).epsilon(0.015));
  CHECK(billions("gpt-22b") == Approx(22).epsilon(0.01));
  CHECK(billions("gpt3-175b") == Approx(175).epsilon(0.01));
  CHECK(billions("gpt-530b") == Approx(530).epsilon(0.01));
  CHECK(billions("gpt-1t") == Approx(1000).epsilon(0.01));
}
