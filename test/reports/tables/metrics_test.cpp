// reports/tables/metrics.json says how a measure prints; engine/point/metrics.cpp says which there are.
#include "engine/point/metrics.h"

#include <algorithm>
#include <cctype>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "test/catch.h"

namespace mbench::metric_files {
const EmbeddedFiles& files();  // reports/tables/metrics.json
}

using namespace mbench;

namespace {

const nlohmann::ordered_json& formats() {
  static const nlohmann::ordered_json file = parse_json(metric_files::files().at("metrics"), "metrics.json");
  return file;
}

}  // namespace

TEST_CASE("metrics.json names nothing but measures and their parts") {
  for (const auto& [name, format] : formats().items()) {
    INFO(name);
    if (name == "outcome" || name == "runtime_s") continue;  // no measures: told of a point, or computed from them
    const std::size_t dot = name.find('.');
    const Metric& metric = metric_named(name.substr(0, dot));
    if (dot != std::string::npos)
      CHECK(std::count(metric.parts.begin(), metric.parts.end(), name.substr(dot + 1)) == 1);
  }
}

TEST_CASE("every measure and every part of one has a line in metrics.json, which tells its unit") {
  const auto check_unit = [](const std::string& name, std::string_view unit) {
    INFO(name);
    REQUIRE(formats().contains(name));
    const auto header = formats().at(name).at("header").get<std::string>();
    const auto text = formats().at(name).at("text").get<std::string>();
    if (unit == "fraction") {
      CHECK_THAT(text, Catch::EndsWith("%"));
      return;
    }
    const auto lower = [](std::string_view words) {  // a header begins with "Samples/s"
      std::string out;
      for (const char c : words) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return out;
    };
    CHECK_THAT(lower(header), Catch::Contains(lower(unit)));
  };
  for (const Metric& metric : metrics()) {
    // A measure of several values prints by its parts, and as a whole where one line says it.
    if (metric.parts.empty() || formats().contains(metric.name)) check_unit(metric.name, metric.unit);
    for (const std::string& part : metric.parts) check_unit(metric.name + "." + part, metric.unit);
  }
}
