// What a step of LLaMA 3 8B costs on eight H100 with Megatron-Core, where its time goes, and what a faster network would give.
#include <mbench/mbench.h>

#include <cstdio>

int main() try {
  const mbench::Spec spec = mbench::parse_spec(R"({
    "model": "llama-3-8b", "seq": 8192, "micro_batch": 1, "global_batch": 128, "precision": "bf16", "attention": "flash",
    "tp": 2, "dp": 8, "sequence_parallel": true, "zero": 1})");
  mbench::Simulator machine("16xH100-SXM5-80GB", {.framework = "megatron-core"});

  const mbench::Result row = machine.simulate(spec);
  if (!row.ok()) {
    std::printf("%s: %s\n", row.outcome().c_str(), row.reason().c_str());
    return 1;
  }
  std::printf("step    %8.1f ms", *row.metric("iteration_ms"));
  if (const auto expected = row.expected())
    std::printf(", expected %.0f to %.0f ms: %d published rows of %s", expected->low_ms, expected->high_ms,
                expected->rows, expected->about.c_str());
  std::printf("\nMFU     %8.1f %%\n", 100 * *row.metric("mfu"));
  for (const auto& [part, ms] : row.time_ms())
    if (ms >= 1) std::printf("        %8.1f ms %s\n", ms, part.c_str());
  std::printf("memory  %8.0f MiB held by the allocator\n", *row.metric("reserved_memory_mib"));
  for (const auto& [category, mib] : row.memory_mib()) std::printf("        %8.0f MiB %s\n", mib, category.c_str());

  const mbench::Result faster = machine.what_if({{"network.gbps_per_device", 100}}, spec);
  std::printf("with 100 GB/s of network for each device: %.1f ms\n", *faster.metric("iteration_ms"));
  return 0;
} catch (const mbench::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
