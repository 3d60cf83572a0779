// The one exception type of mbench. Libraries throw it; only main turns it into an exit code.
// Messages read `[where] what, got, need`: the place (a file and JSON path, an op, a rank), what is wrong,
// what was found and what would be right, with the nearest valid choice where there is one.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mbench {

enum class ErrorKind {
  bad_input,      // a spec, option or file the user can mend (exit 2)
  out_of_memory,  // the device, or its memory_limit, is full (outcome oom)
  infeasible,     // the layout cannot be (outcome infeasible)
  unsupported,    // valid, but not built into this binary (outcome unsupported)
  launch_failed,  // the ranks could not be started
  timed_out,      // something that was waited for did not come (outcome timeout)
  wrong,          // a result that must not be: NaN loss, ranks that disagree
  internal        // our bug
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view where, std::string_view what)
      : std::runtime_error(fmt::format("[{}] {}", where, what)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, where, fmt::format(format, std::forward<Args>(args)...));
}

// Throws an internal error unless `ok`: for conditions that only a bug of ours can break but that cost
// nothing.
template <class... Args>
void check(bool ok, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) fail(ErrorKind::internal, where, format, std::forward<Args>(args)...);
}

}  // namespace mbench
