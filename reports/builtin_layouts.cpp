#include "reports/builtin_layouts.h"

#include <algorithm>

#include "engine/base/embedded.h"
#include "reports/published.h"

namespace mbench {

namespace layout_files {
const EmbeddedFiles& files();  // of reports/layouts
}

namespace {

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
    for (const auto& [name, text] : layout_files::files())
      list.push_back(
          layout_from_json(nlohmann::ordered_json::parse(text), "reports/layouts/" + name + ".json"));
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
