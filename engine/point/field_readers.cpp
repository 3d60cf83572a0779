#include "engine/point/field_readers.h"

#include <algorithm>
#include <limits>

#include "engine/base/json_reader.h"
#include "engine/point/bundles.h"
#include "engine/point/regions.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string read_data(const json& value, const std::string& where) {
  const std::string data = read_string(value, where);
  const auto names_file = [&](std::string_view scheme) { return data.starts_with(scheme) && data != scheme; };
  if (data != "synthetic" && !names_file("text:") && !names_file("tokens:"))
    fail(ErrorKind::bad_input, where, "no such data, got {}, need synthetic, text:FILE or tokens:FILE",
         short_json(value));
  return data;
}

std::string read_device(const json& value, const std::string& where) {
  const std::string device = read_string(value, where);
  const bool sim = device.starts_with("sim:");
  const std::size_t x = device.find('x', 4);
  const bool sized = sim && x != std::string::npos && x > 4 && x + 1 < device.size() &&
                     std::all_of(device.begin() + 4, device.begin() + static_cast<std::ptrdiff_t>(x),
                                 [](char c) { return c >= '0' && c <= '9'; });
  if (device != "cpu" && device != "cuda" && !sized)
    fail(ErrorKind::bad_input, where, "no such device, got {}, need cpu, cuda or sim:<N>x<MACHINE>", short_json(value));
  return device;
}

std::string read_strategy(const json& value, const std::string& where) {
  if (value.is_string() && value.get_ref<const std::string&>().empty()) return "";  // as a point writes "none named"
  std::vector<std::string> names;
  for (const Bundle& b : bundles()) names.emplace_back(b.name);
  if (!value.is_string() || std::find(names.begin(), names.end(), value.get<std::string>()) == names.end())
    fail(ErrorKind::bad_input, where, "no such strategy, got {}, {}", short_json(value),
         nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
  return value.get<std::string>();
}

std::vector<FieldChoice> strategy_choices() {
  std::vector<FieldChoice> all;
  for (const Bundle& bundle : bundles()) {
    std::string doc;
    for (const auto& [key, value] : bundle.fields.items())
      doc += fmt::format("{}`{}: {}`", doc.empty() ? "" : ", ", key,
                         value.is_string() ? value.get<std::string>() : value.dump());
    all.push_back({bundle.name, doc + "."});
  }
  return all;
}

// As a point writes "none named" too.
ordered_json strategy_schema() {
  std::vector<FieldChoice> choices = strategy_choices();
  choices.insert(choices.begin(), {"", "None named."});
  return choices_schema(choices);
}

RouterMode read_router_field(const json& value, const std::string& where) {
  return read_router(read_string(value, where), where);
}

}  // namespace

Zero read_zero(const json& value, const std::string& where) {
  if (!value.is_string()) return static_cast<Zero>(read_int(value, where, 0, 3));
  std::vector<std::string> names;
  for (const NamedChoice<Zero>& choice : choices_of<Zero>()) {
    if (choice.value <= Zero::stage_3) continue;  // numbers
    if (value.get_ref<const std::string&>() == choice.name) return choice.value;
    names.emplace_back(choice.name);
  }
  fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
       nearest_choice(value.get<std::string>(), names));
}

ordered_json zero_schema() {
  std::vector<FieldChoice> named = documented<Zero>();
  std::erase_if(named, [](const FieldChoice& choice) { return choice.name.size() == 1; });
  return any_of(range_schema("integer", 0, 3), choices_schema(named));
}

std::uint64_t read_memory_limit(const json& value, const std::string& where) {
  if (value.is_string()) return parse_bytes(value.get<std::string>(), where);
  if (!value.is_number())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need bytes or a size such as \"2GiB\"", short_json(value));
  return static_cast<std::uint64_t>(read_number(value, where, 0, 1e18));
}

std::map<std::string, std::string> read_env(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of names and texts", short_json(value));
  std::map<std::string, std::string> env;
  for (const auto& [name, text] : value.items()) {
    const std::string path = where + "." + name;
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos)
      fail(ErrorKind::bad_input, path, "no name for an environment variable, got \"{}\"", name);
    if (text.is_string() && text.get_ref<const std::string&>().find('\0') != std::string::npos)
      fail(ErrorKind::bad_input, path, "no value for an environment variable, got a U+0000 in {}, which ends it",
           short_json(text));
    if (!text.is_string() && !text.is_number())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need a string or a number", short_json(text));
    env[name] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  return env;
}

std::map<std::string, double> read_machine(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of figures by their path", short_json(value));
  std::map<std::string, double> figures;
  for (const auto& [path, figure] : value.items())
    figures[path] = read_number(figure, where + "." + path, std::numeric_limits<double>::lowest());
  return figures;
}

FieldValues<TextReader> data_values() {
  return {read_data,
          {{"type", "string"}, {"pattern", "^(synthetic|(text|tokens):(.|\\n)+)$"}},
          {{"synthetic", "Drawn from the seed."},
           {"text:FILE", "The bytes of a file."},
           {"tokens:FILE", "The uint16 or uint32 files of nanoGPT and llm.c."}}};
}

FieldValues<TextReader> device_values() {
  return {read_device,
          {{"type", "string"}, {"pattern", "^(cpu|cuda|sim:[0-9]+x.+)$"}},
          {{"cpu", "This machine's processor."},
           {"cuda", "NVIDIA GPUs."},
           {"sim:<N>x<MACHINE>", "So many devices of a simulated machine."}}};
}

FieldValues<TextReader> strategy_values() {
  return {read_strategy, strategy_schema(), strategy_choices()};
}

FieldValues<AdapterSpec (*)(const json&, const std::string&)> adapter_values() {
  return {[](const json& value, const std::string& where) { return read_adapter(read_string(value, where), where); },
          {{"type", "string"}, {"pattern", "^(none|lora:[0-9]+(,(alpha|targets|base)=.+)*)$"}},
          {{"none", "Everything is trained."},
           {"lora:R",
            "LoRA of rank R, with what differs from its defaults: `lora:16,alpha=32,targets=qkv+proj`. With "
            "`base=nf4` (`base=nf4-double`) frozen linear layers are kept in 4 bits."}}};
}

FieldValues<RouterMode (*)(const json&, const std::string&)> router_values() {
  return {
      read_router_field,
      {{"type", "string"}, {"pattern", "^(balanced|balanced_local|learned|capacity:.+)$"}},
      {{"balanced",
        "By position: every expert has the same share, and a token's experts are spread over all ranks, or over as "
        "many "
        "groups as the model's node-limited routing allows."},
       {"balanced_local", "The same with a token's experts side by side: it visits as few ranks as can be."},
       {"capacity:F",
        "As learned, but an expert has room for F times its share; what is beyond is dropped, what is left padded."},
       {"learned", "As the router says: the sizes follow the data."}}};
}

FieldValues<DocumentLengths (*)(const json&, const std::string&)> document_lengths_values() {
  return {[](const json& value, const std::string& where) {
            return read_document_lengths(value.is_number_integer() ? value.dump() : read_string(value, where), where);
          },
          any_of(range_schema("integer", 1, 16777216),
                 {{"type", "string"}, {"pattern", "^(none|geometric:[0-9]+|[0-9]+([+][0-9]+)*)$"}}),
          {{"none", "A sequence is one document."},
           {"L", "Each has L tokens; the last one is cut where the sequence ends."},
           {"L+M", "Their lengths in order, repeated until the sequence is full."},
           {"geometric:M",
            "Drawn once from the seed, of mean M: every sequence of the run is packed alike, so that ranks and layouts "
            "compare."}}};
}

std::vector<FieldChoice> recompute_choices() {
  return {{"none", "Everything is kept."},
          {"selective", "`core_attention`."},
          {"full", "Whole layers: only the input of a layer is kept."},
          {"core_attention", "Of the attention core, queries, keys and values are kept."},
          {"mla_up_proj", "Of latent attention's queries, keys and values, the latents are kept."},
          {"mlp", "Of a feed-forward block, its input is kept."},
          {"moe", "Of an MoE layer, its input is kept."},
          {"moe_act", "Of experts, the input of the activation is kept, not its output."},
          {"norm", "Of a norm, its input is kept, not its output."},
          {"alternate_products",
           "Of a LLaMA layer, its input, the output of attention and every second GEMM are kept (torchtitan's "
           "selective activation checkpointing by op)."}};
}

std::vector<FieldChoice> capture_choices() {
  return {{"false", "Nothing: the host enqueues every op."},
          {"true", "The whole step, optimizer included."},
          {"layer", "Every layer whole."},
          {"attention", "Of a layer, the norm, attention and the residual sum."},
          {"mlp", "Of a layer, the norm, the dense feed-forward block and the residual sum."},
          {"moe", "Of a layer, the norm, the experts and the residual sum."},
          {"moe_router", "Of a layer with experts, the norm and the router."},
          {"moe_preprocess",
           "Of a layer with experts, the plan of where rows go and the rows themselves, where they go all-to-all; with "
           "`moe_router`."}};
}

std::vector<FieldChoice> offloaded_activations_choices() {
  return {{"none", "Nothing."},
          {"layers:N", "All that the first N layers of each chunk of a stage keep (`--cpu-offloading-num-layers`)."},
          {"attn_norm", "Of the norm before attention, its input and statistics."},
          {"qkv_linear", "Of the linear layers that make queries, keys and values, their input."},
          {"core_attn", "Of the attention core, queries, keys and values, and what else it keeps but its output."},
          {"attn_proj", "Of attention's last linear layer, its input."},
          {"mlp_norm", "Of the norm before a feed-forward block or experts, its input and statistics."},
          {"expert_fc1", "Of experts' first linear layer, its input."},
          {"moe_act", "Of experts' activation, its input."}};
}

std::vector<FieldChoice> node_placement_choices() {
  return {{"block", "A leaf is filled before the next one."},
          {"cyclic", "As few leaves as have room for all nodes, dealt to them in turn."}};
}

}  // namespace mbench
