// As whose program a point runs: a framework by name, or a preset with changed options and another's host.
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
  std::string preset = "mbench";  // the name of one that is built in, or the path of a file: what a step keeps
  std::string host;               // whose host costs and kernels a simulation charges; empty: the preset's
  std::map<std::string, std::string> options;  // that are not at the preset's default; flags are "true" or "false"

  bool operator==(const FrameworkSpec&) const = default;
};

// "megatron-core", or {"preset": "megatron-core", "host": "mbench", "rope_fusion": false}, or the line that name_of() makes of that. A word that names host costs alone, as
// specs once did ("megatron_core"), changes those of `before`.
FrameworkSpec read_framework(const nlohmann::json& value, const std::string& where, const FrameworkSpec& before = {});
nlohmann::ordered_json write_framework(const FrameworkSpec& spec);
nlohmann::ordered_json framework_schema();
// In one line: "megatron-core, host mbench, rope_fusion false".
std::string name_of(const FrameworkSpec& spec);

// One part of it: "preset", "host", or an option. bad_input at `where` for any other, and for a value that it has not.
void set_framework_part(FrameworkSpec& spec, const std::string& part, const nlohmann::json& value,
                        const std::string& where);
// The same part, of the preset where the spec does not change it; null for none.
nlohmann::ordered_json framework_part(const FrameworkSpec& spec, const std::string& part);

// The same in the words of former specs, by which ids go; nothing for a file of the user's with options.
std::optional<FormerWords> former_words(const FrameworkSpec& spec);
FrameworkSpec from_former(const FormerWords& words, const std::string& where);
// What such an option was where a spec did not say it; null for one that was none.
const char* former_default(std::string_view option);

// What that stands for. Each is put together once. bad_input at `where` for a file that cannot be read.
std::shared_ptr<const Framework> framework_of(const FrameworkSpec& spec, const std::string& where = "framework");

}  // namespace mbench
