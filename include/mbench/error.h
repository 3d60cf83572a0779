// The only exception type that mbench throws. Its text reads `[where] what, got, need`. `where` is a place: a file and a JSON path, an
// op, or a rank. The rest says what is wrong, what was found and what would be right, with the nearest valid choice where there is one.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "export.h"

namespace mbench {

enum class ErrorKind {
  bad_input,      // a spec, option or file the user can mend (exit 2)
  out_of_memory,  // the device, or its memory_limit, is full (outcome oom)
  infeasible,     // the layout is impossible (outcome infeasible)
  unsupported,    // valid, but not built into this binary (outcome unsupported)
  launch_failed,  // the ranks could not be started
  timed_out,      // an event that was waited for did not come (outcome timeout)
  wrong,          // an impossible result: NaN loss, ranks that disagree
  internal        // our bug
};

class MBENCH_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view where, std::string_view what)
      : std::runtime_error(text_of(where, what)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  static std::string text_of(std::string_view where, std::string_view what) {
    std::string text(1, '[');
    text.append(where).append("] ").append(what);
    return text;
  }
  ErrorKind kind_;
};

}  // namespace mbench
