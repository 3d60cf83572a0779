// Why a point cannot be run, and which of its fields could mend that. A strategy names, as data, the fields and the values that its own
// rule accepts. strategies/advice.h finds out, for a reader, which of them the whole point accepts.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/point/outcome.h"

namespace mbench::strategies {

inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

// Values of one field that mend a refusal, as far as the refusing rule knows. All text is literal, because a refusal is made far more
// often than it is read.
struct Way {
  std::string_view field;  // of a point; "model.bias": of its model
  // Joined by "|", the most fitting first; empty: numbers. For recompute "-moe+mlp" too, which takes one region out and puts one in.
  std::string_view values;
  // Whole numbers from low to high, multiples of `multiple_of`, divisors of `divides` unless that is 0. The nearest are reported.
  std::int64_t low = 0, high = kAnyNumber, multiple_of = 1, divides = 0;
};

constexpr Way one_of(std::string_view field, std::string_view values) {
  return {field, values};
}
constexpr Way within(std::string_view field, std::int64_t low, std::int64_t high) {
  return {field, "", low, high};
}
constexpr Way exactly(std::string_view field, std::int64_t value) {
  return within(field, value, value);
}
constexpr Way divisor(std::string_view field, std::int64_t of) {
  return {field, "", 1, of, 1, of};
}
constexpr Way multiple(std::string_view field, std::int64_t of) {
  return {field, "", of, kAnyNumber, of};
}

// `infeasible`: on any machine. `unsupported`: by this binary.
struct Fault {
  Outcome outcome = Outcome::infeasible;
  std::string what;
  std::vector<Way> ways;  // any of them may do
};
using MaybeFault = std::optional<Fault>;

template <class... T>
Fault infeasible(std::initializer_list<Way> ways, fmt::format_string<T...> what, T&&... values) {
  return {Outcome::infeasible, fmt::format(what, std::forward<T>(values)...), ways};
}
// "WHAT is not built into this binary".
template <class... T>
Fault not_built_in(std::initializer_list<Way> ways, fmt::format_string<T...> what, T&&... values) {
  return {Outcome::unsupported, fmt::format(what, std::forward<T>(values)...) + " is not built into this binary", ways};
}

}  // namespace mbench::strategies
