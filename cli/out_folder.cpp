#include "cli/out_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "engine/base/error.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

std::string numbered(const std::string& folder, int number) {
  return number == 1 ? folder : fmt::format("{}-{}", folder, number);
}

std::string dated(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  return fmt::format("out/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(now));
}

}  // namespace

std::string free_folder(const std::string& name) {
  const std::string folder = dated(name);
  std::error_code ignored;
  int number = 1;
  while (fs::exists(numbered(folder, number), ignored)) ++number;
  return numbered(folder, number);
}

std::string take_free_folder(const std::string& name) {
  const std::string folder = dated(name);
  std::error_code failed;
  fs::create_directories("out", failed);
  for (int number = 1; !failed; ++number)  // making a folder that is there makes none, and is no failure
    if (fs::create_directory(numbered(folder, number), failed)) return numbered(folder, number);
  fail(ErrorKind::bad_input, folder, "the folder cannot be made: {}, need --out DIR with one that can be written",
       failed.message());
}

}  // namespace mbench::cli
