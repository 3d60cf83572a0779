#include "cli/find_spec.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/launch.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/sim/machine/machine.h"
#include "formats/formats.h"
#include "sweeps/spec/spec_options.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNames = 8;  // in a refusal; all are in the folder that it names

// The folder of specs; empty if there is none.
fs::path configs() {
  std::error_code ignored;
  fs::path prefix = fs::path(this_program()).parent_path();
  const fs::path bin = MBENCH_BINARY_DIR;
  for (auto part = bin.begin(); part != bin.end(); ++part) prefix = prefix.parent_path();
  for (const fs::path& folder : {prefix / MBENCH_SHARE_DIR / "configs", fs::path(MBENCH_SOURCE_DIR) / "configs"})
    if (fs::is_directory(folder, ignored)) return folder;
  return {};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json")
      names.push_back(entry.path().lexically_relative(folder).replace_extension().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string find_spec(const std::string& path) {
  std::error_code ignored;
  const bool bare = !path.empty() && !path.ends_with(".json") && path.find_first_of("./~") != 0;
  if (!bare || fs::exists(path, ignored)) return path;
  const fs::path folder = configs();
  if (folder.empty()) return path;
  const std::vector<std::string> names = names_in(folder);
  if (std::find(names.begin(), names.end(), path) != names.end()) return (folder / (path + ".json")).string();
  std::vector<std::string> near = names;  // those of a folder are many
  std::erase_if(near, [&](const std::string& name) {
    return name.find('/') != std::string::npos && path.find('/') == std::string::npos;
  });
  fail(ErrorKind::bad_input, path, "neither a file here nor a spec of {}, {}", folder.string(),
       nearest_choices(path, near, kMostNames));
}

std::optional<nlohmann::ordered_json> imported_spec(const std::string& path, formats::ImportOptions how,
                                                    const std::string& device, bool* of_trainer) {
  if (device.starts_with("sim:")) how.devices = sim::parse_simulated(device, "--on").count;
  std::optional<formats::Imported> imported = formats::spec_of_file(path, how);
  if (!imported || !imported->of_trainer)
    for (const auto& [option, given] :
         {std::pair{"--without", how.without.empty()}, std::pair{"--var", how.variables.empty()},
          std::pair{"--also", how.also.empty()}})
      if (!given) fail(ErrorKind::bad_input, option, "is of a trainer's file, got a spec, {}; need it without", path);
  if (!imported) return std::nullopt;
  if (of_trainer) *of_trainer = imported->of_trainer;
  for (const std::string& note : imported->notes)
    fmt::print(stderr, "{}\n", printable(fmt::format("{}: {}", path, note)));
  return std::move(imported->spec);
}

void find_and_import(sweeps::SpecOptions& spec, const formats::ImportOptions& how) {
  spec.path = find_spec(spec.path);
  spec.json = imported_spec(spec.path, how, spec.device);
}

void add_import_options(CLI::App& command, formats::ImportOptions& how) {
  const auto repeated = [&](const char* name, std::vector<std::string>& values, const char* type, const char* about) {
    command.add_option(name, values, about)->type_name(type)->take_all()->expected(1)->allow_extra_args(false);
  };
  repeated("--without", how.without, "KEY",
           "Of a trainer's file: take this key as if it were not there. May be repeated");
  repeated("--var", how.variables, "NAME=VALUE",
           "A variable of a trainer's script, whatever the script assigns to it. May be repeated");
  repeated("--also", how.also, "ARGUMENTS",
           "Arguments that a trainer's script has too, such as \"--vocab-size 128256\". May be repeated");
}

std::string device_asked(const std::string& device) {
  std::vector<std::string> others;
  const std::string full = sim::full_device_name(device, "--on", &others);
  if (!others.empty())
    fmt::print(stderr, "mbench: [--on] {} is taken as {}; there are also {}\n", printable(device), full,
               fmt::join(others, ", "));
  return full;
}

}  // namespace mbench::cli
