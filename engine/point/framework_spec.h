// The framework that a point runs as: by name, or a preset with changed options and another framework's host.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mbench {

struct Framework;
struct FormerWords;

struct FrameworkSpec {
  std::string preset = "mbench";  // name of a built-in framework, or a file's path: what a step keeps
  std::string host;               // whose host costs and kernels a simulation charges; empty: the preset's
  std::map<std::string, std::string>
      options;  // options that are not at the preset's default; flags are "true" or "false"

  bool operator==(const FrameworkSpec&) const = default;
};

// Reads "megatron-core", or {"preset": "megatron-core", "host": "mbench", "rope_fusion": false}, or the line that name_of() makes of it.
// Former specs had words for host costs only ("megatron_core"): such a word changes the host of `before`.
FrameworkSpec read_framework(const nlohmann::json& value, const std::string& where, const FrameworkSpec& before = {});
nlohmann::ordered_json write_framework(const FrameworkSpec& spec);
nlohmann::ordered_json framework_schema();
// One line: "megatron-core, host mbench, rope_fusion false".
std::string name_of(const FrameworkSpec& spec);

// Sets one part: "preset", "host", or an option. bad_input at `where` for any other part, and for a value that the part does not have.
void set_framework_part(FrameworkSpec& spec, const std::string& part, const nlohmann::json& value,
                        const std::string& where);
// The value of that part, or the preset's where the spec does not change it; null if there is no such part.
nlohmann::ordered_json framework_part(const FrameworkSpec& spec, const std::string& part);

// The spec in the words of former specs, from which ids are made. Nothing for a user's file with options.
std::optional<FormerWords> former_words(const FrameworkSpec& spec);
FrameworkSpec from_former(const FormerWords& words, const std::string& where);
// The value of such an option where a former spec did not give it; null if there was no such option.
const char* former_default(std::string_view option);

// The framework that a spec stands for. Each is built once. bad_input at `where` for a file that cannot be read.
std::shared_ptr<const Framework> framework_of(const FrameworkSpec& spec, const std::string& where = "framework");

}  // namespace mbench
