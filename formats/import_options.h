// Options of an import, given with the file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mbench::formats {

struct ImportOptions {
  std::vector<std::string> without;    // keys that are taken as if they were not there
  std::vector<std::string> variables;  // of a script: "NAME=VALUE"
  std::vector<std::string> also;       // arguments that a script has too: "--vocab-size 128256"
  std::int64_t devices = 0;            // that run it, for files that leave a degree to them; 0: not known
};

}  // namespace mbench::formats
