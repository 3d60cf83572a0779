// The best layouts of LLaMA 3 8B on eight H100 that torchtitan can run, and why the others are not among them.
#include <mbench/mbench.h>

#include <cstdio>

int main() try {
  mbench::Simulator machine("8xH100-SXM5-80GB", {.framework = "torchtitan"});
  mbench::SearchOptions options;
  options.best = 3;
  options.threads = 2;
  options.progress = [](const mbench::SearchOptions::Progress& p) {
    std::fprintf(stderr, "\r%zu layouts, %zu decided", p.layouts, p.decided);
  };
  const mbench::SearchResult found = machine.search(
      R"({"model": "llama-3-8b", "seq": 8192, "global_batch": 64, "precision": "bf16", "attention": "flash",
          "search": ["tp", "pp", "dp", "zero", "micro_batch", "recompute"]})",
      options);
  std::fprintf(stderr, "\n");
  for (const mbench::Result& row : found.best)
    std::printf("%8.1f ms  %6.0f MiB  %s\n", *row.metric("iteration_ms"), *row.metric("reserved_memory_mib"),
                row.label().c_str());
  std::printf("%zu layouts, %zu simulated, %zu ruled out by a lower bound\n", found.layouts, found.simulated,
              found.by_lower_bound);
  for (const auto& [reason, layouts] : found.too_large) std::printf("%5zu do not fit: %s\n", layouts, reason.c_str());
  for (const auto& [reason, layouts] : found.refused) std::printf("%5zu cannot be: %s\n", layouts, reason.c_str());
  return found.best.empty();
} catch (const mbench::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
