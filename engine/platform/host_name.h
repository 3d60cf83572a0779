// This host's name, which ranks on it have in common.
#pragma once
#include <unistd.h>

#include <string>

namespace mbench::platform {

inline std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace mbench::platform
