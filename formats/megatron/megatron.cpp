#include "formats/megatron/megatron.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/megatron/arguments.h"
#include "formats/table/flat.h"
#include "formats/table/reading.h"
#include "formats/table/writing.h"

namespace mbench::megatron_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

constexpr int kDevicesOfNode = 8;
constexpr std::size_t kMostScriptBytes = std::size_t{4} << 20;

// As bash and Python take it: a whole number without a point, since some flags are of type int.
std::string quoted(const json& value) {
  const bool whole = value.is_number_float() && std::fabs(value.get<double>()) < 1e15 &&
                     std::floor(value.get<double>()) == value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>()
                           : whole           ? fmt::format("{}", value.get<std::int64_t>())
                                             : value.dump();
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == '+';
  });
  return plain ? text : "'" + text + "'";
}

std::string flag_text(const std::string& key, const json& value) {
  if (value == json(true)) return key;
  std::string text = key;
  for (const json& each : value.is_array() ? value : json::array({value})) text += " " + quoted(each);
  return text;
}

std::string script_text(const Point& point, const Writing& written) {
  std::int64_t ranks = 1;
  std::string script = "pretrain_gpt.py", flags;
  for (const auto& [key, value] : written.items())
    if (key == "ranks")
      ranks = value.get<std::int64_t>();
    else if (key == "script")
      script = value.get<std::string>();
    else
      flags += fmt::format("    {} \\\n", flag_text(key, value));
  const std::int64_t each = ranks % kDevicesOfNode == 0 ? kDevicesOfNode : ranks < kDevicesOfNode ? ranks : 1;
  const bool by_te = flags.find("--cross-entropy-fusion-impl te ") != std::string::npos;
  const char* refused_since =
      by_te ? "# Megatron-LM of 2026 refuses --cross-entropy-fusion-impl te; there it is native.\n" : "";
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# {}: {} ranks, {} on each node. Written by mbench export; start it in a checkout of Megatron-LM, on every "
      "node.\n{}"
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
      "torchrun --nproc_per_node {} --nnodes {} --node_rank \"${{NODE_RANK:-0}}\" --master_addr "
      "\"${{MASTER_ADDR:-localhost}}\" --master_port 29500 \\\n"
      "    {} \\\n{}    --train-iters {} \\\n    --eval-iters 0 \\\n    --mock-data\n",
      point.model.name, ranks, each, refused_since, each, ranks / each, script, flags, point.iterations + point.warmup);
}

}  // namespace

const Table& megatron_table() {
  static const Table table = [] {
    std::vector<std::pair<std::string_view, std::string_view>> files;
    for (const auto& [name, text] : megatron_files::files()) files.emplace_back(name, text);
    return read_table("flags", files);
  }();
  return table;
}

bool is_megatron(std::string_view text) {
  for (const std::string_view flag : {"--num-layers", "--tensor-model-parallel-size", "--micro-batch-size"})
    if (text.find(flag) != std::string_view::npos) return true;
  return false;
}

Imported read_megatron(std::string_view text, const std::string& file, const ImportOptions& options) {
  if (text.size() > kMostScriptBytes)
    fail(ErrorKind::bad_input, file, "a script of {} bytes, need {} at most", text.size(), kMostScriptBytes);
  return read_megatron_arguments(megatron_arguments(text, file, megatron_table(), options), file, options);
}

namespace {

// Megatron counts a hybrid's layers from its pattern where --num-layers is not given.
void count_layers(std::vector<Item>& items) {
  const auto given = [&](std::string_view key) { return std::ranges::find(items, key, &Item::key); };
  const auto pattern = given("--hybrid-layer-pattern");
  if (given("--num-layers") != items.end() || pattern == items.end() || !pattern->value.is_string()) return;
  const std::string text = pattern->value, body = text.substr(0, text.find('/'));
  const std::int64_t layers = std::ranges::count_if(body, [](char letter) { return letter != '|'; });
  items.push_back({"--num-layers", layers, pattern->where});
}

}  // namespace

Imported read_megatron_arguments(Arguments arguments, const std::string& file, const ImportOptions& options) {
  count_layers(arguments.items);
  Reading reading(megatron_table(), std::move(arguments.items), file, options.without);
  reading.read();
  Imported found{tidy_spec(reading.spec(), file + ", as a spec: $"), std::move(arguments.notes)};
  found.notes.insert(found.notes.end(), reading.notes().begin(), reading.notes().end());
  return found;
}

std::string write_megatron(const Point& point) {
  const ordered_json flat = flat_point(point);
  Writing writing(megatron_table(), flat);
  writing.write();
  std::vector<std::string> faults = writing.faults();
  if (point.offload == Offload::moments)
    faults.push_back(
        "offload \"moments\": its parser takes --optimizer-cpu-offload with --use-precision-aware-optimizer only, "
        "which "
        "is offload optimizer. Megatron-Bridge's YAML says it");
  std::string text;
  if (faults.empty()) {
    text = script_text(point, writing);
    const Point again = point_from_json(json(read_megatron(text, "the script", {}).spec), "the script");
    faults = lost_fields(flat, flat_point(again));
  }
  if (!faults.empty())
    fail(ErrorKind::unsupported, "Megatron-LM", "no flags say {}, got {}", point.model.name, fmt::join(faults, "; "));
  return text;
}

}  // namespace mbench::formats
