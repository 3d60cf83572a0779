#include "formats/megatron/bridge.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/megatron/config_yaml.h"
#include "formats/megatron/layer_pattern.h"
#include "formats/megatron/megatron.h"
#include "formats/table/flat.h"
#include "formats/table/writing.h"
#include "formats/yaml/yaml.h"

namespace mbench::megatron_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

// A callable, or a value of an enum, as OmegaConf and Bridge's instantiate() write it.
json object(const char* target) {
  return {{"_target_", target}, {"_call_", false}};
}

class Container {
 public:
  explicit Container(const Point& point)
      : point_(point), file_(parse_json(megatron_files::files().at("attributes"), "attributes.json")) {}

  void add(const std::string& flag, const json& value) {
    if (flag == "ranks" || flag == "script") return;
    if (flag == "--bf16" || flag == "--fp16") return precision(flag.substr(2));
    if (flag == "--tokenizer-type") return put("tokenizer", "tokenizer_type", value);
    if (flag == "--vocab-size") put("tokenizer", "vocab_size", value);
    if (flag == "--use-distributed-optimizer") put("optimizer", "use_distributed_optimizer", true);
    if (flag == "--make-vocab-size-divisible-by") put("model", "should_pad_vocab", true);
    if (flag == "--swiglu") put("model", "activation_func", object("torch.nn.functional.silu"));
    if (flag == "--attention-backend") return put("model", "attention_backend", backend(value));
    if (flag == "--moe-layer-freq" || flag == "--window-attn-skip-freq")
      return put("model", name_of(flag), layer_pattern(value, point_.model.layers, flag != "--moe-layer-freq"));
    if (flag == "--window-size") return put("model", "window_size", two_sides(value));
    if (flag == "--transformer-impl" || flag == "--multi-latent-attention" || flag == "--use-rope-scaling") {
      faults_.push_back(fmt::format("{} {}: a provider of its own", flag, value.dump()));
      return;
    }
    const ordered_json& written = file_.at("written");
    if (const auto known = written.find(flag); known != written.end()) {
      if (!known->empty()) put(known->at(0), known->at(1), known->size() > 2 ? json(known->at(2)) : value);
      return;
    }
    const bool off = flag.starts_with("--no-");
    const std::string name = name_of(off ? "--" + flag.substr(5) : flag);
    put(section_of(name), name, off ? json(false) : value);
  }

  void fill() {
    for (const auto& [section, attributes] : file_.at("unless_said").items())
      for (const auto& [name, value] : attributes.items())
        if (!sections_[section].contains(name)) put(section, name, value);
    put("train", "train_iters", point_.iterations + point_.warmup);
  }

  std::string text() const {
    std::string all = fmt::format(
        "# {}: {} ranks. Written by mbench export; a ConfigContainer of Megatron-Bridge, on data that it makes up:\n"
        "# ConfigContainer.from_yaml(FILE), then pretrain(config, forward_step).\n"
        "_target_: megatron.bridge.training.config.ConfigContainer\n",
        point_.model.name, point_.world());
    const ordered_json& targets = file_.at("container");
    for (const auto& [section, attributes] : sections_) {
      all += fmt::format("{}:\n", section);
      if (targets.contains(section)) all += fmt::format("  _target_: {}\n", targets.at(section).get<std::string>());
      for (const auto& [name, value] : attributes) all += fmt::format("  {}: {}\n", name, value.dump());
    }
    return all;
  }

  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void put(const std::string& section, const std::string& name, const json& value) { sections_[section][name] = value; }

  // "--tensor-model-parallel-size" is tensor_model_parallel_size.
  static std::string name_of(const std::string& flag) {
    std::string name = flag.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }

  // The one that lists it, or the model's.
  std::string section_of(const std::string& name) const {
    for (const auto& [section, names] : file_.at("sections").items())
      if (std::find(names.begin(), names.end(), name) != names.end()) return section;
    return "model";
  }

  void precision(const std::string& name) {
    put("mixed_precision", name, true);
    const json type = object(name == "bf16" ? "torch.bfloat16" : "torch.float16");
    for (const char* each : {"params_dtype", "pipeline_dtype", "autocast_dtype"}) put("mixed_precision", each, type);
    put("model", name, true);
    put("model", "params_dtype", type);
  }

  json backend(const json& value) const {
    const ordered_json& names = file_.at("enums").at("AttnBackend");
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == value)
        return {{"_target_", "megatron.core.transformer.enums.AttnBackend"}, {"_call_", true}, {"_args_", {i}}};
    return value;
  }

  const Point& point_;
  ordered_json file_;  // in which the first section that lists an attribute has it
  std::map<std::string, std::map<std::string, json>> sections_;
  std::vector<std::string> faults_;
};

// How many ranks start is not in the file.
Point read_again(const std::string& text, const Point& point) {
  const std::string where = "the YAML";
  json spec(read_megatron(parse_yaml(text, where), where, {}).spec);
  spec["dp"] = point.dp;
  return point_from_json(spec, where);
}

}  // namespace

std::string write_megatron_bridge(const Point& point) {
  const ordered_json flat = flat_point(point);
  Writing writing(megatron_table(), flat);
  writing.write();
  Container container(point);
  for (const auto& [flag, value] : writing.items()) container.add(flag, value);
  container.fill();
  std::vector<std::string> faults = writing.faults();
  faults.insert(faults.end(), container.faults().begin(), container.faults().end());
  const std::string text = container.text();
  if (faults.empty()) faults = lost_fields(flat, flat_point(read_again(text, point)));
  if (!faults.empty())
    fail(ErrorKind::unsupported, "Megatron-Bridge", "no ConfigContainer says {}, got {}", point.model.name,
         fmt::join(faults, "; "));
  return text;
}

}  // namespace mbench::formats
