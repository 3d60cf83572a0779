#include "reports/builtin_layouts.h"

#include <algorithm>

#include "reports/published.h"

namespace mbench {
namespace {

constexpr const char* kLayouts = R"json([
  {
    "name": "strategies",
    "sections": [
      "{model} ({tp}-way Tensor Parallelism, {pp}-way Pipeline Parallelism[, {dp}-way Data Parallelism])",
      "{seq} Sequence Length"
    ],
    "rows": [{"header": "Strategy", "text": "{strategy}"}],
    "columns": [
      {"header": "Time (ms)", "text": "{iteration_ms.mean}[ +/- {iteration_ms.stddev}]"},
      {"header": "Overhead", "value": "iteration_ms.mean", "against": {"strategy": "baseline"}, "as": "overhead"},
      {"header": "Peak Memory (MiB)", "text": "{peak_memory_mib}"},
      {"header": "Memory Saved", "value": "peak_memory_mib", "against": {"strategy": "baseline"}, "as": "saved"},
      {"header": "Throughput (samples/s)", "text": "{samples_per_s}"},
      {"header": "Tokens/s", "text": "{tokens_per_s}"}
    ],
    "labels": {
      "strategy": {
        "baseline": "Baseline",
        "sequence_parallel": "Sequence Parallel",
        "selective": "Selective Recompute",
        "sequence_parallel+selective": "Sequence Parallel + Selective Recompute",
        "full": "Full Recompute"
      },
      "model": {"gpt2-345m": "GPT-2 345M", "bert-345m": "BERT 345M"},
      "dp": {"1": ""}
    },
    "note": "Overhead and memory saved are against Baseline."
  },
  {
    "name": "long",
    "rows": ["*"],
    "columns": ["outcome", "iteration_ms", "peak_memory_mib", "samples_per_s", "tflops_per_device", "mfu", "losses"]
  },
  {
    "name": "memory",
    "title": "Anatomy of the peak memory (MiB)",
    "rows": ["*"],
    "columns": [
      "outcome",
      {"header": "Weights", "text": "{memory_anatomy_mib.weights:1}"},
      {"header": "Gradients", "text": "{memory_anatomy_mib.gradients:1}"},
      {"header": "Optimizer", "text": "{memory_anatomy_mib.optimizer:1}"},
      {"header": "Activations", "text": "{memory_anatomy_mib.activations:1}"},
      {"header": "Workspace", "text": "{memory_anatomy_mib.workspace:1}"},
      {"header": "Other", "text": "{memory_anatomy_mib.other:1}"},
      {"header": "Peak", "text": "{peak_memory_mib:1}"},
      {"header": "Reserved", "text": "{reserved_memory_mib:1}"},
      {"header": "Device", "text": "{device_memory_mib:1}"}
    ],
    "note": "At the moment of the peak, on the rank with the highest peak. Peak: bytes the engine's allocator had handed out; reserved: what it held; device: what the device reports. MiB = 2^20 bytes."
  }
])json";

// Fractions are printed as percentages. Without an entry a name is its own header.
const std::vector<MetricFormat>& metric_formats() {
  static const std::vector<MetricFormat> formats = {
      {"outcome", "Outcome", "{outcome}"},
      {"iteration_ms", "Time (ms)", "{iteration_ms.mean:4s}[ +/- {iteration_ms.stddev:4s}]"},
      {"iteration_ms.mean", "Mean time (ms)", "{iteration_ms.mean:4s}"},
      {"iteration_ms.stddev", "Stddev of time (ms)", "{iteration_ms.stddev:4s}"},
      {"iteration_ms.median", "Median time (ms)", "{iteration_ms.median:4s}"},
      {"iteration_ms.p95", "p95 of time (ms)", "{iteration_ms.p95:4s}"},
      {"iteration_ms.min", "Least time (ms)", "{iteration_ms.min:4s}"},
      {"iteration_ms.max", "Most time (ms)", "{iteration_ms.max:4s}"},
      {"samples_per_s", "Samples/s", "{samples_per_s}"},
      {"tokens_per_s", "Tokens/s", "{tokens_per_s}"},
      {"tflops_per_device", "TFLOP/s per device", "{tflops_per_device}"},
      {"mfu", "MFU", "{mfu*100:1} %"},
      {"mfu_causal", "MFU (causal)", "{mfu_causal*100:1} %"},
      {"hfu", "HFU", "{hfu*100:1} %"},
      {"peak_tflops", "Peak (TFLOP/s)", "{peak_tflops}"},
      {"peak_memory_mib", "Peak memory (MiB)", "{peak_memory_mib}"},
      {"reserved_memory_mib", "Reserved memory (MiB)", "{reserved_memory_mib}"},
      {"device_memory_mib", "Device memory (MiB)", "{device_memory_mib}"},
      {"communication_fraction", "Communication", "{communication_fraction*100:1} %"},
      {"bubble_fraction", "Bubble", "{bubble_fraction*100:1} %"},
      {"losses", "Loss, first to last", "{losses.first:4} to {losses.last:4}"},
      {"losses.first", "First loss", "{losses.first:4}"},
      {"losses.last", "Last loss", "{losses.last:4}"},
      {"skipped_steps", "Skipped steps", "{skipped_steps}"},
      {"parameters", "Parameters", "{parameters:,0}"},
      {"power_w", "Power (W)", "{power_w:0}"},
      {"utilization", "Utilization", "{utilization*100:0} %"},
  };
  return formats;
}

}  // namespace

const std::vector<Layout>& builtin_layouts() {
  static const std::vector<Layout> layouts = [] {
    std::vector<Layout> list;
    for (const auto& json : nlohmann::ordered_json::parse(kLayouts))
      list.push_back(layout_from_json(json, "built-in table " + json.at("name").get<std::string>()));
    return list;
  }();
  return layouts;
}

const MetricFormat* find_metric_format(const std::string& name) {
  const auto& formats = metric_formats();
  const auto it = std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.name == name; });
  return it == formats.end() ? find_published_format(name) : &*it;
}

}  // namespace mbench
