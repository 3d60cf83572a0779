#include "test/fuzz/target.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/error.h"

namespace mbench::fuzz {

std::string file_with(const std::string& text) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("mbench-fuzz-" + std::to_string(getpid()) + ".json")).string();
  static const int at_end = std::atexit([] { std::remove(path.c_str()); });
  require(at_end == 0, "atexit");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return path;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace mbench::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mbench;
  try {
    fuzz::read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::internal && e.kind() != ErrorKind::wrong) return 0;
    std::fprintf(stderr, "%s\n", e.what());
    std::abort();
  }
  return 0;
}
