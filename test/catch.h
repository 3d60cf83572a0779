// Catch2 version 2 or 3, whichever the machine has, under the names of version 2.
#pragma once
#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
// Version 3 calls by this name a matcher of ranges, whose header is not included here.
namespace Catch::Matchers {
inline StringContainsMatcher Contains(const std::string& text) {
  return ContainsSubstring(text);
}
}  // namespace Catch::Matchers
namespace Catch {
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::StartsWith;
}  // namespace Catch
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
