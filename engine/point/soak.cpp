#include "engine/point/soak.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct Figure {
  const char* key;
  double SoakWindow::*value;
  double digits;  // of the fraction that are kept
  bool always;    // known of every window
};
constexpr Figure kFigures[] = {
    {"end_s", &SoakWindow::end_s, 1e2, true},          {"median_ms", &SoakWindow::median_ms, 1e4, true},
    {"worst_ms", &SoakWindow::worst_ms, 1e4, true},    {"samples_per_s", &SoakWindow::samples_per_s, 1e4, true},
    {"clock_mhz", &SoakWindow::clock_mhz, 1e0, false}, {"least_clock_mhz", &SoakWindow::least_clock_mhz, 1e0, false},
    {"power_w", &SoakWindow::power_w, 1e0, false},     {"hottest_c", &SoakWindow::hottest_c, 1e0, false}};

}  // namespace

ordered_json soak_to_json(const Soak& soak) {
  ordered_json out = {{"seconds", soak.seconds}, {"steps", soak.steps}};
  ordered_json& steps = out["window_steps"] = ordered_json::array();
  for (const SoakWindow& w : soak.windows) steps.push_back(w.steps);
  for (const Figure& figure : kFigures) {
    ordered_json values = ordered_json::array();
    bool known = figure.always;
    for (const SoakWindow& w : soak.windows) {
      const double x = w.*figure.value;
      known = known || std::isfinite(x);
      values.push_back(std::isfinite(x) ? ordered_json(std::round(x * figure.digits) / figure.digits)
                                        : ordered_json(nullptr));
    }
    if (known) out[figure.key] = std::move(values);
  }
  if (std::any_of(soak.windows.begin(), soak.windows.end(), [](const SoakWindow& w) { return !w.throttle.empty(); })) {
    ordered_json& throttle = out["throttle"] = ordered_json::array();
    for (const SoakWindow& w : soak.windows)
      throttle.push_back(w.throttle.empty() ? ordered_json(nullptr) : ordered_json(w.throttle));
  }
  return out;
}

Soak soak_from_json(const json& value, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object", short_json(value));
  const auto array = [&](const char* key, std::size_t size) -> const json& {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array() || (size > 0 && found->size() != size))
      fail(ErrorKind::bad_input, where + "." + key, "need an array with a number for each window");
    return *found;
  };
  const auto number = [&](const char* key) -> const json& {
    const auto found = value.find(key);
    if (found == value.end()) fail(ErrorKind::bad_input, where, "\"{}\" is missing, need a number", key);
    return *found;
  };
  Soak soak;
  soak.seconds = read_number(number("seconds"), where + ".seconds");
  soak.steps = read_int(number("steps"), where + ".steps", 0, INT64_MAX);
  const json& steps = array("window_steps", 0);
  soak.windows.resize(steps.size());
  const auto at = [&](const char* key, std::size_t i) { return fmt::format("{}.{}[{}]", where, key, i); };
  for (std::size_t i = 0; i < steps.size(); ++i)
    soak.windows[i].steps = read_int(steps[i], at("window_steps", i), 0, INT64_MAX);
  for (const Figure& figure : kFigures) {
    if (!figure.always && !value.contains(figure.key)) continue;
    const json& values = array(figure.key, steps.size());
    for (std::size_t i = 0; i < values.size() && i < soak.windows.size(); ++i)
      if (figure.always || !values[i].is_null())
        soak.windows[i].*figure.value = read_number(values[i], at(figure.key, i));
  }
  if (value.contains("throttle")) {
    const json& names = array("throttle", steps.size());
    for (std::size_t i = 0; i < names.size() && i < soak.windows.size(); ++i)
      if (!names[i].is_null()) soak.windows[i].throttle = read_string(names[i], at("throttle", i));
  }
  return soak;
}

}  // namespace mbench
