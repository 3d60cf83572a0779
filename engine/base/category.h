// What memory is for: the categories by which the allocator counts and a result's memory anatomy is split. A new one is an enumerator and
// its name, in this file only.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mbench {

enum class Category : std::uint8_t { weights, gradients, optimizer, activations, workspace, other };
inline constexpr std::array<std::string_view, 6> kCategoryNames = {"weights",     "gradients", "optimizer",
                                                                   "activations", "workspace", "other"};
inline constexpr int kCategories = static_cast<int>(kCategoryNames.size());
static_assert(static_cast<int>(Category::other) == kCategories - 1, "a name for each, in their order");

constexpr std::string_view name_of(Category c) {
  return kCategoryNames[static_cast<std::size_t>(c)];
}

}  // namespace mbench
