// A table of your own: how MFU and memory of a model change with recomputation and length; also as a result file for `mbench report`.
#include <mbench/mbench.h>

#include <cstdio>

int main() try {
  const mbench::Spec spec = mbench::parse_spec(R"({
    "name": "lengths", "model": "llama-3-8b", "micro_batch": 1, "global_batch": 64, "precision": "bf16", "attention": "flash",
    "tp": 4, "dp": 2, "sequence_parallel": true, "zero": 1,
    "sweep": {"seq": [2048, 4096, 8192], "recompute": ["none", "full"]}})");
  mbench::Simulator machine("8xH100-SXM5-80GB", {.framework = "megatron-core"});
  const std::vector<mbench::Result> rows = machine.simulate_all(spec);

  std::printf("%-28s %10s %8s %12s\n", "", "step, ms", "MFU, %", "memory, MiB");
  for (const mbench::Result& row : rows) {
    if (row.ok())
      std::printf("%-28s %10.0f %8.1f %12.0f\n", row.label().c_str(), *row.metric("iteration_ms"),
                  100 * *row.metric("mfu"), *row.metric("reserved_memory_mib"));
    else
      std::printf("%-28s %10s\n", row.label().c_str(), row.outcome().c_str());
  }
  std::printf("\n%s", mbench::tables(spec, rows, {.columns = {"seq", "recompute", "mfu", "outcome"}}).c_str());
  mbench::write_results("lengths.json", spec, rows);
  return 0;
} catch (const mbench::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
