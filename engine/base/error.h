// Throwing the one exception type of mbench (include/mbench/error.h). Libraries throw it; only main turns it into an exit code.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "include/mbench/error.h"

namespace mbench {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, where, fmt::format(format, std::forward<Args>(args)...));
}

// Throws an internal error unless `ok`: for conditions that only a bug of ours can break and that are cheap to check.
template <class... Args>
void check(bool ok, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) fail(ErrorKind::internal, where, format, std::forward<Args>(args)...);
}

}  // namespace mbench
