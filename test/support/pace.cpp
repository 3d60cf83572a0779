#include "test/support/pace.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

namespace mbench::test {
namespace {

// A document is built, written and read: many small allocations, strings, numbers, and some megabytes of memory, as the work that
// tests hold to a time.
void fixed_work() {
  nlohmann::json rows = nlohmann::json::array();
  for (int i = 0; i < 8000; ++i) {
    nlohmann::json samples = nlohmann::json::array();
    for (int k = 0; k < 30; ++k) samples.push_back(1.0 + 0.0123456789 * ((i * 37 + k * 11) % 100));
    rows.push_back(
        {{"id", "row " + std::to_string(i)}, {"samples", std::move(samples)}, {"outcome", "ok"}, {"world", i}});
  }
  if (nlohmann::json::parse(rows.dump()) != rows) std::abort();
}

// Of fixed_work() on an idle core of the machine of the bounds, an AMD EPYC virtual machine, as this file is compiled for a release.
constexpr double kIdleSeconds = 0.18;

}  // namespace

double cpu_seconds(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double allowed_seconds(double seconds) {
  return std::getenv("MALLOC_PERTURB_") == nullptr ? seconds : 2 * seconds;
}

double idle_seconds(const std::function<double()>& measure) {
  const double before = cpu_seconds(fixed_work);
  const double measured = measure();
  const double after = cpu_seconds(fixed_work);
  return measured / std::max(1.0, (before + after) / 2 / kIdleSeconds);
}

}  // namespace mbench::test
