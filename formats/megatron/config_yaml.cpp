#include "formats/megatron/config_yaml.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "formats/megatron/arguments.h"
#include "formats/megatron/logged_arguments.h"
#include "formats/megatron/megatron.h"

namespace mbench::megatron_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

struct Attributes {
  std::map<std::string, std::vector<std::string>> sections;  // those of each that are read; "*": all
  std::map<std::string, std::string> names;                  // to flags; empty: read with others, below
  std::vector<std::string> ignored;  // without meaning for cost, and no flags; "tp_comm_*": all that begin so
  std::map<std::string, std::vector<std::string>> enums;  // names of their numbers

  bool ignores(const std::string& name) const {
    return std::any_of(ignored.begin(), ignored.end(), [&](const std::string& each) {
      return each.ends_with('*') ? name.starts_with(each.substr(0, each.size() - 1)) : name == each;
    });
  }
};

const Attributes& attributes() {
  static const Attributes all = [] {
    const json file(parse_json(megatron_files::files().at("attributes"), "attributes.json"));
    return Attributes{file.at("sections"), file.at("names"), file.at("ignored"), file.at("enums")};
  }();
  return all;
}

struct Attribute {
  std::string name;
  json value;
  int line = 0;
};

// A Python object in YAML: {_target_: torch.bfloat16, _call_: false}, {_target_: ...AttnBackend, _args_: [5]}. Null for one that says nothing of a step.
json plain(const json& value) {
  if (value.is_array()) {
    json all = json::array();
    for (const json& each : value) all.push_back(plain(each));
    return all;
  }
  if (!value.is_object() || !value.contains("_target_") || !value.at("_target_").is_string()) return value;
  const std::string target = value.at("_target_");
  const std::string last = target.substr(target.rfind('.') + 1);
  if (target == "torch.float32") return "fp32";
  if (target == "torch.bfloat16") return "bf16";
  if (target == "torch.float16") return "fp16";
  if (const auto known = attributes().enums.find(last); known != attributes().enums.end() && value.contains("_args_") &&
                                                        value.at("_args_").is_array() && !value.at("_args_").empty()) {
    const json& number = value.at("_args_")[0];
    if (number.is_number_integer() && number >= 0 && number.get<std::size_t>() < known->second.size())
      return known->second[number.get<std::size_t>()];
  }
  if (target.starts_with("torch.nn.functional.") || target.find("squared_relu") != std::string::npos ||
      target.find("quick_gelu") != std::string::npos)
    return last;
  return nullptr;
}

// The flag that turns off what is on by default, also where it has no field of a spec: --no-bias-dropout-fusion. Empty where there is none.
std::string off_flag(const std::string& name) {
  if (const std::string known = flag_against(name); !known.empty()) return known;
  const std::string off = "--no-" + flag_of(name).substr(2);
  return megatron_table().leaves_unsaid(off) || megatron_table().ignores(off) ? off : "";
}

class AttributeReader {
 public:
  AttributeReader(const Yaml& yaml, const std::string& file) : yaml_(yaml), file_(file) {}

  Arguments read() {
    for (const auto& [key, value] : yaml_.value.items()) {
      const auto section = attributes().sections.find(key);
      if (!value.is_object()) add(key, json(value), line(key));  // Megatron-LM's --yaml-cfg has most without a section
      if (section == attributes().sections.end() || !value.is_object()) continue;
      const bool all = section->second.front() == "*";
      for (const auto& [name, each] : value.items())
        if (all || std::find(section->second.begin(), section->second.end(), name) != section->second.end())
          add(name, json(each), line(key + "." + name));
    }
    flags_of_attributes();
    return {std::move(items_), std::move(notes_)};
  }

 private:
  int line(const std::string& path) const {
    const auto found = yaml_.lines.find(path);
    return found == yaml_.lines.end() ? 1 : found->second;
  }

  // The same attribute stands in several sections: the first that is not null counts.
  void add(const std::string& name, const json& value, int at) {
    const json made = plain(value);
    if (made.is_null() || made.is_object()) return;
    if (name == "seq_length" && yaml_.value.contains("dataset") && yaml_.value.at("dataset").is_object() &&
        yaml_.value.at("dataset").contains("sequence_length"))
      return add("max_position_embeddings", value,
                 at);  // Megatron-Bridge's model has the most positions there, its dataset the sequence
    for (const Attribute& known : attributes_)
      if (known.name == name) return;
    attributes_.push_back({name, made, at});
  }

  const Attribute* find(std::string_view name) const {
    const auto found =
        std::find_if(attributes_.begin(), attributes_.end(), [&](const Attribute& each) { return each.name == name; });
    return found == attributes_.end() ? nullptr : &*found;
  }
  bool is(std::string_view name, const json& value) const {
    const Attribute* known = find(name);
    return known && known->value == value;
  }
  void flag(const std::string& key, const json& value, int at) {
    items_.push_back({key, value, fmt::format("{}:{}", file_, at)});
  }

  void flags_of_attributes() {
    items_.push_back({"script", "pretrain_gpt.py", file_});
    const bool experts = find("num_moe_experts") || find("num_experts"), latent = is("multi_latent_attention", true),
               offload = is("optimizer_cpu_offload", true),
               chunks = find("virtual_pipeline_model_parallel_size") != nullptr;
    std::vector<std::string> ignored;
    for (const Attribute& each : attributes_) {
      if (each.name.starts_with('_') || (!experts && each.name.starts_with("moe_")) ||
          (!latent && each.name.ends_with("_lora_rank")))
        continue;
      if ((each.name == "optimizer_offload_fraction" && !offload) ||
          (each.name == "microbatch_group_size_per_vp_stage" && !chunks))
        continue;
      const auto known = attributes().names.find(each.name);
      if (known != attributes().names.end() && known->second.empty()) continue;
      std::string key = each.name.starts_with("--")         ? each.name
                        : known != attributes().names.end() ? known->second
                                                            : flag_of(each.name);
      if (each.value == json(false)) {
        if (const std::string off = off_flag(each.name); !off.empty()) flag(off, true, each.line);
        continue;
      }
      if (attributes().ignores(each.name)) {
        ignored.push_back(each.name);
        continue;
      }
      // What a flag can only turn off is on by default; what is nothing says nothing.
      const bool by_default = each.value == json(true) && !off_flag(each.name).empty(),
                 nothing = each.value == json("") || each.value == json::array() ||
                           (each.value == json(0) && !megatron_table().find(key));
      if (!by_default && !nothing) flag(key, each.value, each.line);
    }
    together();
    if (!ignored.empty()) notes_.push_back(fmt::format("without meaning for cost: {}", fmt::join(ignored, ", ")));
  }

  // What flags say together, or the other way round.
  void together() {
    const Attribute *gated = find("gated_linear_unit"), *activation = find("activation_func"),
                    *shared = find("share_embeddings_and_output_weights"), *reduced = find("grad_reduce_in_fp32"),
                    *groups = find("num_query_groups"), *length = find("seq_length"),
                    *unmasked = find("skip_getting_attention_mask_from_dataset");
    if (activation && activation->value == "squared_relu") flag("--squared-relu", true, activation->line);
    if (activation && activation->value == "quick_gelu") flag("--quick-geglu", true, activation->line);
    if (gated && gated->value == json(true) &&
        (!activation || activation->value == "silu" || activation->value == "swiglu"))
      flag("--swiglu", true, gated->line);
    if (gated && gated->value == json(true) && activation && activation->value == "gelu")
      flag("--quick-geglu", true, gated->line);  // refused by its row: a gated GELU
    if (shared && shared->value == json(false)) flag("--untie-embeddings-and-output-weights", true, shared->line);
    if (reduced && reduced->value == json(false)) flag("--grad-reduce-in-bf16", true, reduced->line);
    if (unmasked && unmasked->value == json(true))
      flag("--no-create-attention-mask-in-dataloader", true, unmasked->line);
    if (groups && !find("group_query_attention")) flag("--group-query-attention", true, groups->line);
    if (length && !find("max_position_embeddings")) flag("--max-position-embeddings", length->value, length->line);
  }

  const Yaml& yaml_;
  const std::string& file_;
  std::vector<Attribute> attributes_;
  std::vector<Item> items_;
  std::vector<std::string> notes_;
};

// MODEL_ARGS: {--num-layers: 12, --bf16: true}; what is false or null is not given.
Arguments flags_of(const ordered_json& arguments, const Yaml& yaml, const std::string& file) {
  Arguments all;
  all.items.push_back({"script", "pretrain_gpt.py", file});
  for (const auto& [key, value] : arguments.items()) {
    if (value.is_null() || value == json(false)) continue;
    const auto line = yaml.lines.find("MODEL_ARGS." + key);
    json given(value);
    if (given.is_string() && given.get<std::string>().find(' ') != std::string::npos && key == "--recompute-modules") {
      const std::string text = given;
      given = json::array();
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        if (end > begin) given.push_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    all.items.push_back({key, given, fmt::format("{}:{}", file, line == yaml.lines.end() ? 1 : line->second)});
  }
  return all;
}

}  // namespace

bool is_megatron(const Yaml& yaml) {
  if (!yaml.value.is_object()) return false;
  if (yaml.value.contains("MODEL_ARGS") || yaml.value.contains("language_model") ||
      yaml.value.contains("model_parallel"))
    return true;
  const auto sized = [](const ordered_json& object) {
    return object.is_object() && (object.contains("num_layers") || object.contains("tensor_model_parallel_size"));
  };
  return sized(yaml.value) || (yaml.value.contains("model") && sized(yaml.value.at("model")));
}

Imported read_megatron(const Yaml& yaml, const std::string& file, const ImportOptions& options) {
  const auto flags = yaml.value.find("MODEL_ARGS");
  if (flags != yaml.value.end() && !flags->is_object())
    fail(ErrorKind::bad_input, file, "MODEL_ARGS: wrong type, need a mapping of flags");
  Arguments arguments = flags != yaml.value.end() ? flags_of(*flags, yaml, file) : AttributeReader(yaml, file).read();
  if (!options.also.empty()) {
    Arguments more =
        megatron_arguments(fmt::format("{}", fmt::join(options.also, " ")), "--also", megatron_table(), {});
    arguments.items.insert(arguments.items.end(), more.items.begin(), more.items.end());
  }
  return read_megatron_arguments(std::move(arguments), file, options);
}

}  // namespace mbench::formats
