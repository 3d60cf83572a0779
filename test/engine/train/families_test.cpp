// Small models of published families, with optimizers and adapters of today, learn real text in bf16: their loss comes below the text's
// entropy by single bytes, which no model reaches that knows no context. scripts/learn-text trains all of families.json for longer.
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/json_reader.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"

using namespace mbench;
using namespace mbench::test;
using nlohmann::json;

namespace {

constexpr int kSteps = 60, kLast = 10;

double entropy_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<double, 256> counts{};
  double total = 0, entropy = 0;
  for (char c; in.get(c); ++total) ++counts[static_cast<unsigned char>(c)];
  REQUIRE(total > 0);
  for (const double n : counts)
    if (n > 0) entropy -= n / total * std::log(n / total);
  return entropy;
}

}  // namespace

TEST_CASE("models of published families learn real text in bf16 below the entropy of its bytes") {
  const std::string text = MBENCH_SOURCE_DIR "/configs/data/licenses.txt",
                    file = MBENCH_SOURCE_DIR "/test/engine/train/families.json";
  const double entropy = entropy_of(text);
  const json all = parse_json(read_text_file(file), file);
  int trained = 0;
  for (const json& family : all.at("families")) {
    json point = all.at("point");
    if (family.contains("point")) point.update(family.at("point"));
    point["model"] = family.at("model"), point["data"] = "text:" + text, point["iterations"] = kSteps;
    const Point p = point_from_json(point, file);
    const std::string name = family.at("name");
    INFO(name);
    CHECK_FALSE(strategies::why_not(p));
    if (!family.value("quick", false)) continue;
    const PointResult r = run_serially(p);
    CHECK(r.outcome == Outcome::ok);
    REQUIRE(r.losses.size() == kSteps);
    CHECK(r.losses.front() > entropy);
    CHECK(std::accumulate(r.losses.end() - kLast, r.losses.end(), 0.0) / kLast < entropy);
    ++trained;
  }
  CHECK(trained >= 10);
}
