// A set of the enumerators of a small enumeration.
#pragma once
#include <initializer_list>

namespace mbench {

template <class Enum>
class Flags {
 public:
  constexpr Flags() = default;
  constexpr Flags(std::initializer_list<Enum> values) {
    for (const Enum value : values) add(value);
  }
  constexpr void add(Enum value) { bits_ |= 1u << static_cast<unsigned>(value); }
  constexpr bool has(Enum value) const { return (bits_ >> static_cast<unsigned>(value) & 1u) != 0; }
  constexpr bool any() const { return bits_ != 0; }
  constexpr unsigned bits() const { return bits_; }
  constexpr bool operator==(const Flags&) const = default;

 private:
  unsigned bits_ = 0;
};

}  // namespace mbench
