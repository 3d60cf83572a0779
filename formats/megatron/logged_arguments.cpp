#include "formats/megatron/logged_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "formats/megatron/megatron.h"

namespace mbench::formats {
namespace {

// Where Python's name of an argument is not its flag's, and what the flag says is that it is false.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"fp8", "--fp8-format"}, {"virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"}};
constexpr std::pair<std::string_view, std::string_view> kOff[] = {
    {"add_bias_linear", "--disable-bias-linear"},
    {"apply_rope_fusion", "--no-rope-fusion"},
    {"bias_activation_fusion", "--no-bias-swiglu-fusion"}};

// "torch.bfloat16" is bf16 on the command line, "AttnBackend.flash" flash, "['core_attn', 'mlp']" two words.
std::string value_of(std::string_view value) {
  if (value == "torch.float32") return "fp32";
  if (value == "torch.bfloat16") return "bf16";
  if (value == "torch.float16") return "fp16";
  if (value.starts_with("AttnBackend.")) return std::string(value.substr(value.find('.') + 1));
  const bool list = value.starts_with("['");
  std::string text;
  for (const char c : value) {
    if (list && (c == '[' || c == ']' || c == ',' || c == '\'')) continue;
    if (!list && (c == '\'' || c == '\0')) continue;  // nothing of a log is to end a quotation
    if (list && !std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_-./ ").find(c) == std::string_view::npos)
      continue;
    text += c;
  }
  return list ? text : "'" + text + "'";
}

}  // namespace

std::string flag_of(std::string_view name) {
  for (const auto& [python, flag] : kOthers)
    if (python == name) return std::string(flag);
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin() + 2, flag.end(), '_', '-');
  return flag;
}

std::string flag_against(std::string_view name) {
  for (const auto& [python, flag] : kOff)
    if (python == name) return std::string(flag);
  const std::string flag = "--no-" + flag_of(name).substr(2);
  return megatron_table().find(flag) ? flag : "";
}

std::string script_of(const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string flags, ranks = "1", padded;
  bool vocabulary = false;
  for (const auto& [name, value] : arguments) {
    if (name == "world_size") ranks = value;
    if (name == "padded_vocab_size") padded = value;
    // Set from others before they are printed: a script that has both would say one thing twice.
    if (name == "world_size" || name == "padded_vocab_size" || name == "num_layers_per_virtual_pipeline_stage" ||
        value == "None" || value.empty())
      continue;
    vocabulary = vocabulary || name == "vocab_size";
    if (value == "False") {
      if (const std::string off = flag_against(name); !off.empty()) flags += " " + off;
    } else {
      flags += value == "True" ? " " + flag_of(name) : fmt::format(" {} {}", flag_of(name), value_of(value));
    }
  }
  if (!vocabulary && !padded.empty()) flags += " --vocab-size " + padded;
  return fmt::format("torchrun --nproc_per_node 1 --nnodes {} pretrain_gpt.py{}\n", ranks, flags);
}

}  // namespace mbench::formats
