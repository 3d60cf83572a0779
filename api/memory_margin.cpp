#include "api/memory_margin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "api/units.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/framework/memory_margin.h"

namespace mbench::api {
namespace {

constexpr const char* kOption = "--memory-margin";

double share_of(const std::string& given) {
  const std::string number = given.substr(0, given.size() - 1);
  char* end = nullptr;
  const double percent = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(percent >= 0 && percent < 100))
    fail(ErrorKind::bad_input, kOption, "no share of the memory, got \"{}\", need 0% to 99%, or bytes such as 4GiB",
         given);
  return percent / 100;
}

}  // namespace

MemoryMargin memory_margin(const std::string& given, const Point& point, const sim::Machine& machine) {
  const std::uint64_t all = machine.usable_memory(),
                      usable = point.memory_limit == 0 ? all : std::min(all, point.memory_limit);
  const auto of_share = [&](double share, const std::string& why) {
    return share > 0
               ? MemoryMargin{share * static_cast<double>(usable) / kMiB, fmt::format("{:g} %{}", share * 100, why)}
               : MemoryMargin{};
  };
  if (given.empty()) {
    if (point.memory_limit != 0) return {};  // who gives a limit has the margin in it
    return of_share(memory_margin_of(point.framework.preset, "framework"),
                    fmt::format(" for fragments of {}'s allocator", point.framework.preset));
  }
  if (given.ends_with('%')) return of_share(share_of(given), "");
  const std::uint64_t bytes = parse_bytes(given, kOption);
  if (bytes >= usable)
    fail(ErrorKind::bad_input, kOption, "no memory is left, got {} of {}, need less", format_bytes(bytes),
         format_bytes(usable));
  return bytes == 0 ? MemoryMargin{} : MemoryMargin{static_cast<double>(bytes) / kMiB, format_bytes(bytes)};
}

}  // namespace mbench::api
