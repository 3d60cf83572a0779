#include "engine/framework/framework.h"

#include <algorithm>

#include "engine/base/embedded.h"
#include "engine/base/figures.h"
#include "engine/framework/memory_margin.h"

namespace mbench {
// Written by the build from *.json (cmake/embed.cmake).
namespace framework_files {
const EmbeddedFiles& files();
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double kMicrosecond = 1e-6, kMebibyte = 1048576;

constexpr Choices<LogitsGradient, 6> kLogitsGradients = {
    {{"in_place", LogitsGradient::in_place},
     {"exponentials_in_copy", LogitsGradient::exponentials_in_copy},
     {"exponentials_apart", LogitsGradient::exponentials_apart},
     {"gradients_apart", LogitsGradient::gradients_apart},
     {"gradients_in_16_bits", LogitsGradient::gradients_in_16_bits},
     {"gradient_apart", LogitsGradient::gradient_apart}}};
constexpr Choices<WeightGradients, 3> kWeightGradients = {{{"in_buffer", WeightGradients::in_buffer},
                                                           {"placeholder", WeightGradients::placeholder},
                                                           {"apart", WeightGradients::apart}}};
constexpr Choices<SharedExperts, 4> kSharedExperts = {{{"while_dispatched", SharedExperts::while_dispatched},
                                                       {"while_combined", SharedExperts::while_combined},
                                                       {"in_turn", SharedExperts::in_turn},
                                                       {"in_parts", SharedExperts::in_parts}}};
constexpr Choices<HeldWeights, 3> kHeldWeights = {
    {{"none", HeldWeights::none}, {"head", HeldWeights::head}, {"ends", HeldWeights::ends}}};
constexpr Choices<AttentionKernels, 4> kAttentionKernels = {{{"FlashAttention-1", AttentionKernels::flash_attention_1},
                                                             {"FlashAttention-2", AttentionKernels::flash_attention_2},
                                                             {"FlashAttention-3", AttentionKernels::flash_attention_3},
                                                             {"cuDNN", AttentionKernels::cudnn}}};

Keeps read_keeps(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  Keeps keeps;
  for (const auto& [name, member] : kKeepsFlags)
    if (const json* flag = reader.find(std::string(name)))
      keeps.*member = read_bool(*flag, reader.path(std::string(name)));
  if (const json* rows = reader.find("vocab_multiple"))
    keeps.vocab_multiple = static_cast<int>(read_int(*rows, reader.path("vocab_multiple"), 1, 65536));
  if (const json* logits = reader.find("logits_gradient"))
    keeps.logits_gradient = read_choice(*logits, reader.path("logits_gradient"), kLogitsGradients);
  if (const json* weights = reader.find("weight_gradients"))
    keeps.weight_gradients = read_choice(*weights, reader.path("weight_gradients"), kWeightGradients);
  if (const json* shared = reader.find("shared_experts"))
    keeps.shared_experts = read_choice(*shared, reader.path("shared_experts"), kSharedExperts);
  if (const json* held = reader.find("held_weights"))
    keeps.held_weights = read_choice(*held, reader.path("held_weights"), kHeldWeights);
  reader.refuse_unknown();
  return keeps;
}

HostCosts read_host(const json& value, const std::string& where) {
  Figures f(value, where);
  HostCosts host;
  host.kernel = f.get("kernel", kMicrosecond);
  host.collective = f.get("collective", kMicrosecond);
  host.message = f.get("message", kMicrosecond);
  for (const HostCost& cost : kHostCosts)
    host.work[cost.work] =
        cost.required ? f.get(std::string(cost.key), kMicrosecond) : f.get_or(std::string(cost.key), 0, kMicrosecond);
  host.work[HostWork::call] = f.get_or("call", host.kernel, kMicrosecond);
  host.fill = f.get_or("fill", 0, kMicrosecond);
  host.call_fill = f.get_or("call_fill", host.fill, kMicrosecond);
  host.masked_token = f.get("masked_token", kMicrosecond);
  f.end();
  return host;
}

AttentionKernels read_attention(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  const AttentionKernels kernels = read_choice(reader.require("value", "whose kernels fused attention runs on"),
                                               reader.path("value"), kAttentionKernels);
  read_string(reader.require("source", "where that stands"), reader.path("source"));
  reader.refuse_unknown();
  return kernels;
}

// {"calls": 8, "traffic": 9, "traffic_f32": 3.5, "source": "..."} of each op.
UnfusedOps read_unfused(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of the engine's ops", short_json(value));
  UnfusedOps ops;
  for (const auto& [name, about] : value.items()) {
    ObjectReader reader(about, where + "." + name);
    const auto traffic = [&](const char* key, double otherwise) {
      const json* number = reader.find(key);
      return number ? read_number(*number, reader.path(key), 0, 1000) : otherwise;
    };
    UnfusedOp op;
    op.calls = static_cast<int>(
        read_int(reader.require("calls", "how many kernels stand for the op"), reader.path("calls"), 0, 1000));
    if (const json* extra = reader.find("extra_calls"))
      op.extra_calls = static_cast<int>(read_int(*extra, reader.path("extra_calls"), 0, 1000));
    op.traffic = traffic("traffic", 1);
    op.traffic_f32 = traffic("traffic_f32", op.traffic);
    read_string(reader.require("source", "where that stands"), reader.path("source"));
    reader.refuse_unknown();
    ops.emplace(name, op);
  }
  return ops;
}

OwnStreams read_stream_names(const json& names, const std::string& path) {
  OwnStreams own{};
  if (!names.is_array()) fail(ErrorKind::bad_input, path, "got {}, need a list of names", names.dump());
  for (const json& name : names) {
    const std::string text = read_string(name, path);
    const auto found = std::find(kMemoryStreamNames.begin() + 1, kMemoryStreamNames.end(), text);
    if (found == kMemoryStreamNames.end())
      fail(ErrorKind::bad_input, path, "got {}, need one of {}", text,
           fmt::join(kMemoryStreamNames.begin() + 1, kMemoryStreamNames.end(), ", "));
    own[static_cast<std::size_t>(found - kMemoryStreamNames.begin())] = true;
  }
  return own;
}

// {"own": ["gathers", "reductions"], "recorded": ["gathers"], "source": "..."}
void read_streams(const json& value, const std::string& where, FrameworkMemory& memory) {
  ObjectReader reader(value, where);
  memory.own_streams =
      read_stream_names(reader.require("own", "the streams that allocate for themselves"), reader.path("own"));
  if (const json* recorded = reader.find("recorded")) {
    memory.recorded = read_stream_names(*recorded, reader.path("recorded"));
    for (std::size_t i = 0; i < kMemoryStreams; ++i)
      if (memory.recorded[i] && !memory.own_streams[i])
        fail(ErrorKind::bad_input, reader.path("recorded"), "got {}, need streams of \"own\"", kMemoryStreamNames[i]);
  }
  read_string(reader.require("source", "where that stands"), reader.path("source"));
  reader.refuse_unknown();
}

void read_allocator(const json& value, const std::string& where, FrameworkMemory& memory) {
  ObjectReader reader(value, where);
  const std::string name = read_string(reader.require("value", "whose allocator it is"), reader.path("value"));
  if (name != "pytorch" && name != "mbench")
    fail(ErrorKind::bad_input, reader.path("value"), "got {}, need \"pytorch\" or \"mbench\"", name);
  memory.caching = name == "pytorch";
  if (const json* settings = reader.find("settings")) {
    if (!memory.caching)
      fail(ErrorKind::bad_input, reader.path("settings"),
           "are of PyTorch's allocator, got the value \"mbench\", need \"pytorch\" or no settings");
    memory.caching_settings = read_string(*settings, reader.path("settings"));
  }
  if (const json* streams = reader.find("streams")) read_streams(*streams, reader.path("streams"), memory);
  read_string(reader.require("source", "where that stands"), reader.path("source"));
  reader.refuse_unknown();
}

FrameworkMemory read_memory(const json& value, const std::string& where) {
  Figures m(value, where);
  const auto bytes = [&](const char* key) { return static_cast<std::uint64_t>(m.get_or(key, 0, kMebibyte)); };
  FrameworkMemory memory;
  memory.always = bytes("libraries_mib") + bytes("transformer_engine_mib");
  memory.experts = bytes("router_mib") + bytes("grouped_products_mib");
  memory.tp_comm_overlap = bytes("tp_comm_overlap_mib");
  if (const json* allocator = m.object().find("allocator")) read_allocator(*allocator, m.path("allocator"), memory);
  m.get_or("margin", 0, 1, 1);  // memory_margin_of() reads it again: no step depends on it
  m.end();
  return memory;
}

GradientBuckets read_buckets(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  GradientBuckets buckets;
  if (const json* elements = reader.find("elements")) {
    buckets.hidden_squared = *elements == "hidden_squared";
    if (!buckets.hidden_squared)
      buckets.elements = read_int(*elements, reader.path("elements"), 1, std::int64_t{1} << 40);
  }
  const auto flag = [&](const char* key, bool& member) {
    if (const json* given = reader.find(key)) member = read_bool(*given, reader.path(key));
  };
  flag("whole", buckets.whole);
  flag("one", buckets.one);
  flag("separate", buckets.separate);
  flag("early", buckets.early);
  flag("flat", buckets.flat);
  flag("norm_in_f64", buckets.norm_in_f64);
  read_string(reader.require("source", "where that stands"), reader.path("source"));
  reader.refuse_unknown();
  if (buckets.whole && buckets.elements == 0 && !buckets.hidden_squared)
    fail(ErrorKind::bad_input, reader.path("whole"), "got true, need elements too");
  return buckets;
}

Autocast read_autocast(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  Autocast autocast;
  autocast.on = read_bool(reader.require("on", "whether 16-bit points run under it"), reader.path("on"));
  if (const json* inputs = reader.find("qkv_inputs"))
    autocast.qkv_inputs = static_cast<int>(read_int(*inputs, reader.path("qkv_inputs"), 1, 3));
  if (const json* softmax = reader.find("softmax_in_f32"))
    autocast.softmax_in_f32 = read_bool(*softmax, reader.path("softmax_in_f32"));
  read_string(reader.require("source", "where that stands"), reader.path("source"));
  reader.refuse_unknown();
  return autocast;
}

Abilities read_abilities(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of fields and lists of their values",
         short_json(value));
  Abilities can;
  if (!value.contains("source")) fail(ErrorKind::bad_input, where + ".source", "missing, need where that stands");
  for (const auto& [field, values] : value.items()) {
    const std::string path = where + "." + field;
    if (field == "source") {
      read_string(values, path);
      continue;
    }
    if (!values.is_array() || values.empty())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need a list of values of this field", short_json(values));
    for (const json& each : values) can.values[field].push_back(word_of(each));
  }
  return can;
}

MessagesBlock read_messages_block(const json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>() ? MessagesBlock::always : MessagesBlock::never;
  if (value != "unless_interleaved")
    fail(ErrorKind::bad_input, where, "got {}, need true, false or \"unless_interleaved\"", short_json(value));
  return MessagesBlock::unless_interleaved;
}

// All but name, description, options and former words.
Framework read_body(const json& body, const std::string& file) {
  ObjectReader top(body, file + ": $");
  Framework f;
  if (const json* keeps = top.find("keeps")) f.keeps = read_keeps(*keeps, top.path("keeps"));
  f.host = read_host(top.require("host_us", "what calls cost the host, in microseconds"), top.path("host_us"));
  Figures kernels(top.require("kernels", "how good its kernels are"), top.path("kernels"));
  f.traffic_efficiency = kernels.get("traffic_efficiency", 1, 2);
  if (const json* attention = kernels.object().find("attention"))
    f.attention = read_attention(*attention, kernels.path("attention"));
  f.attention_forward = kernels.get_or("attention_forward", 1, 1, 2);
  f.attention_backward = kernels.get_or("attention_backward", 1, 1, 2);
  kernels.end();
  if (const json* unfused = top.find("unfused")) f.unfused = read_unfused(*unfused, top.path("unfused"));
  if (const json* memory = top.find("memory")) f.memory = read_memory(*memory, top.path("memory"));
  const auto flag = [&](const char* key, bool& member) {
    if (const json* value = top.find(key)) member = read_bool(*value, top.path(key));
  };
  flag("tensor_collectives_block", f.tensor_collectives_block);
  flag("loss_blocks", f.loss_blocks);
  flag("interpreter_lock", f.interpreter_lock);
  flag("attention_workspace", f.attention_workspace);
  flag("holds_logits", f.holds_logits);
  if (const json* buckets = top.find("buckets")) f.buckets = read_buckets(*buckets, top.path("buckets"));
  if (const json* autocast = top.find("autocast")) f.autocast = read_autocast(*autocast, top.path("autocast"));
  if (const json* broadcasts = top.find("batch_broadcasts"))
    f.host.broadcasts = static_cast<int>(read_int(*broadcasts, top.path("batch_broadcasts"), 0, 100));
  if (const json* can = top.find("can")) f.can = read_abilities(*can, top.path("can"));
  f.messages_block = read_messages_block(top.require("messages_block", "true, false or \"unless_interleaved\""),
                                         top.path("messages_block"));
  top.refuse_unknown();
  return f;
}

FormerWords read_formerly(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  FormerWords words;
  words.graph = read_string(reader.require("graph", "the former word for what it keeps"), reader.path("graph"));
  words.framework =
      read_string(reader.require("framework", "the former word for its host costs"), reader.path("framework"));
  if (const json* options = reader.find("options"))
    for (const auto& [name, choice] : options->items()) words.options[name] = word_of(choice);
  reader.refuse_unknown();
  return words;
}

FrameworkOption read_option(const std::string& name, const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  FrameworkOption option;
  option.name = name;
  option.doc = read_string(reader.require("doc", "what the option is"), reader.path("doc"));
  if (const json* flag = reader.find("flag")) option.flag = read_string(*flag, reader.path("flag"));
  option.otherwise = word_of(reader.require("default", "the choice of a spec that does not say it"));
  const json& choices = reader.require("choices", "an object of choices");
  if (!choices.is_object())
    fail(ErrorKind::bad_input, reader.path("choices"), "got {}, need an object of choices", short_json(choices));
  for (const auto& [choice, about] : choices.items()) {
    ObjectReader each(about, reader.path("choices") + "." + choice);
    FrameworkChoice read{choice, read_string(each.require("doc", "what the choice means"), each.path("doc")), false};
    if (const json* simulated = each.find("simulated")) read.simulated = read_bool(*simulated, each.path("simulated"));
    each.find("changes");
    each.refuse_unknown();
    option.choices.push_back(std::move(read));
  }
  if (!option.find(option.otherwise))
    fail(ErrorKind::bad_input, reader.path("default"), "got {}, need one of the choices", option.otherwise);
  reader.refuse_unknown();
  return option;
}

json changed(json body, const json& options, const FrameworkOption& option, const std::string& value) {
  const json& choice = options.at(option.name).at("choices").at(value);
  if (choice.contains("changes")) body.merge_patch(choice.at("changes"));
  return body;
}

// One of that name of any file, whose text lives as long as the program.
const FrameworkOption* any_option(std::string_view name) {
  for (const FrameworkOption& option : all_framework_options())
    if (option.name == name) return &option;
  return nullptr;
}

ChosenOption lasting(const std::string& name, const std::string& value, const FrameworkOption* own) {
  const FrameworkOption* known = any_option(name);
  if (!known) fail(ErrorKind::bad_input, "framework", "no such option, got \"{}\"", name);
  const FrameworkChoice* choice = known->find(value);
  const FrameworkChoice* otherwise = own ? known->find(own->otherwise) : nullptr;
  return {known->name, choice ? std::string_view(choice->name) : std::string_view(),
          otherwise ? std::string_view(otherwise->name) : std::string_view(known->otherwise)};
}

}  // namespace

bool Abilities::has(const std::string& field, std::string_view value) const {
  const auto known = values.find(field);
  if (known == values.end()) return true;
  if (value.starts_with("layers:")) value = "layers:1";  // which stands for any number of them
  const auto lists = [&](std::string_view name) {
    return std::find(known->second.begin(), known->second.end(), name) != known->second.end();
  };
  if (lists(value)) return true;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('+', begin), value.size());
    if (!lists(value.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

const FrameworkChoice* FrameworkOption::find(std::string_view value) const {
  for (const FrameworkChoice& choice : choices)
    if (choice.name == value) return &choice;
  return nullptr;
}

const FrameworkOption* FrameworkFile::option(std::string_view name) const {
  for (const FrameworkOption& option : options_)
    if (option.name == name) return &option;
  return nullptr;
}

FrameworkFile FrameworkFile::from_json(const ordered_json& root, const std::string& file) {
  json body = root;
  const std::string top = file + ": $";
  if (!body.is_object()) fail(ErrorKind::bad_input, top, "wrong type, got {}, need an object", short_json(body));
  const auto taken = [&](const char* key, const char* need) {
    const auto found = body.find(key);
    if (found == body.end()) fail(ErrorKind::bad_input, top + "." + key, "missing, need {}", need);
    std::string text = read_string(*found, top + "." + key);
    body.erase(found);
    return text;
  };
  FrameworkFile f;
  f.file_ = file;
  f.name_ = taken("name", "the framework's name");
  f.description_ = taken("description", "one line on the framework");
  f.formerly_.framework = is_path(file) ? file : f.name_;
  if (body.contains("formerly")) {
    f.formerly_ = read_formerly(body.at("formerly"), top + ".formerly");
    body.erase("formerly");
  }
  json options = json::object();
  if (body.contains("options")) {
    options = body.at("options");
    body.erase("options");
    if (!options.is_object())
      fail(ErrorKind::bad_input, top + ".options", "got {}, need an object of options", short_json(options));
    // In the order of the file.
    for (const auto& [name, about] : root.at("options").items())
      f.options_.push_back(read_option(name, options.at(name), top + ".options." + name));
  }
  read_body(body, file);
  for (const FrameworkOption& option : f.options_)
    for (const FrameworkChoice& choice : option.choices)
      read_body(changed(body, options, option, choice.name), fmt::format("{}, {} {}", file, option.name, choice.name));
  f.body_ = std::make_shared<const json>(json{{"body", std::move(body)}, {"options", std::move(options)}});
  return f;
}

Framework combined(const FrameworkFile& preset, const FrameworkFile& host,
                   const std::map<std::string, std::string>& options) {
  const auto with_options = [&](const FrameworkFile& file) {
    json body = file.body_->at("body");
    for (const auto& [name, value] : options)
      if (const FrameworkOption* option = file.option(name); option && option->find(value))
        body = changed(std::move(body), file.body_->at("options"), *option, value);
    return read_body(body, file.file_);
  };
  const bool own = &preset == &host || (preset.file_ == host.file_ && preset.name_ == host.name_);
  Framework f = with_options(host);
  f.name = preset.name_, f.description = preset.description_;
  if (!own) {
    const Framework kept = with_options(preset);
    f.keeps = kept.keeps, f.buckets = kept.buckets, f.autocast = kept.autocast, f.holds_logits = kept.holds_logits;
    f.name += fmt::format(", host {}", host.name_);
    f.description += fmt::format("; host: {}", host.description_);
  }
  for (const auto& [name, value] : options) {
    const FrameworkOption* option = preset.option(name);
    const FrameworkChoice* choice = option ? option->find(value) : nullptr;
    if (!choice)
      f.unknown.push_back(lasting(name, value, option));
    else if (choice->simulated)
      f.simulated.push_back(lasting(name, value, option));
  }
  return f;
}

const std::vector<FrameworkFile>& builtin_frameworks() {
  static const std::vector<FrameworkFile> all = [] {
    std::vector<FrameworkFile> files;
    for (const auto& [name, text] : framework_files::files()) {
      const std::string file = fmt::format("built-in framework {}", name);
      files.push_back(FrameworkFile::from_json(parse_json(text, file), file));
    }
    return files;
  }();
  return all;
}

const FrameworkFile* find_builtin(std::string_view name) {
  for (const FrameworkFile& file : builtin_frameworks())
    if (file.name() == name) return &file;
  return nullptr;
}

std::vector<std::string> framework_names() {
  return names_of(framework_files::files());
}

const std::vector<FrameworkOption>& all_framework_options() {
  static const std::vector<FrameworkOption> all = [] {
    std::vector<FrameworkOption> options;
    for (const FrameworkFile& file : builtin_frameworks())
      for (const FrameworkOption& option : file.options()) {
        const auto known = std::find_if(options.begin(), options.end(),
                                        [&](const FrameworkOption& o) { return o.name == option.name; });
        if (known == options.end())
          options.push_back(option);
        else
          for (const FrameworkChoice& choice : option.choices)
            if (!known->find(choice.name)) known->choices.push_back(choice);
      }
    return options;
  }();
  return all;
}

FrameworkFile load_framework(const std::string& name, const std::string& where) {
  if (const FrameworkFile* file = find_builtin(name)) return *file;
  const auto [json, file] = load_file(framework_files::files(), "framework", name, where);
  return FrameworkFile::from_json(json, file);
}

double memory_margin_of(const std::string& name, const std::string& where) {
  const auto [json, file] = load_file(framework_files::files(), "framework", name, where);
  const auto memory = json.find("memory");
  if (memory == json.end() || !memory->contains("margin")) return 0;
  const nlohmann::json figures(*memory);
  return Figures(figures, file + ": $.memory").get("margin", 1, 1);
}

Framework framework_from_json(const ordered_json& json, const std::string& file) {
  const FrameworkFile read = FrameworkFile::from_json(json, file);
  return combined(read, read, {});
}

Framework find_framework(const std::string& name, const std::string& where) {
  const FrameworkFile file = load_framework(name, where);
  return combined(file, file, {});
}

}  // namespace mbench
