#include "bench/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mbench {
namespace {

constexpr int kSteps = 3;

struct Row {
  Precision precision;
  std::int64_t seq;
  double dropout;
};
constexpr std::array kRows{Row{Precision::bf16, 512, 0}, Row{Precision::f32, 1024, 0},
                           Row{Precision::f32, 1024, 0.1}};

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  check(pipe != nullptr, "peer", "cannot start {}", command);
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), n);
  return text;
}

StepTime peer(const std::string& python, const ModelSpec& m, const Row& row, const std::string& recipe,
              const std::string& compile) {
  const std::string command = fmt::format("{} " MBENCH_SOURCE_DIR
                                          "/scripts/peer_torch.py --device cpu --layers {} --hidden {} "
                                          "--heads {} --vocab {} --seq {} --dropout {} "
                                          "--iterations {} --warmup 2 --recipe {} --compile {}",
                                          python, m.layers, m.hidden, m.heads, m.vocab, row.seq, row.dropout,
                                          kSteps, recipe, compile);
  const std::string text = output_of(command);
  const auto told = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (told.is_discarded() || told.at("points").at(0).at("outcome") != "ok")
    fail(ErrorKind::bad_input, "peer", "a step in PyTorch, got \"{}\" from {}, need a row that is ok", text,
         command);
  const auto& point = told.at("points").at(0);
  return {point.at("iteration_ms").at("median").get<double>(), point.at("cpu_ms").get<double>()};
}

}  // namespace

void print_peers(const std::string& python, const std::function<StepTime(const Point&)>& ours) {
  Point p;
  p.model = find_preset("gpt2-345m", "bench");
  p.attention = AttentionKind::flash;
  p.iterations = kSteps;
  fmt::print(
      "| precision | seq | dropout | mbench ms | its CPU ms | PyTorch ms | its CPU ms | recipe | time ratio "
      "| CPU ratio |\n"
      "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|\n");
  for (const Row& row : kRows) {
    p.precision = row.precision, p.seq = row.seq, p.dropout = row.dropout;
    const StepTime mine = ours(p);
    StepTime best;
    std::string best_recipe;
    const bool f32 = row.precision == Precision::f32;
    for (const std::string& recipe :
         f32 ? std::vector<std::string>{"f32"} : std::vector<std::string>{"master", "autocast"})
      for (const char* compile : {"default", "none"})
        if (const StepTime t = peer(python, p.model, row, recipe, compile);
            best_recipe.empty() || t.wall_ms < best.wall_ms)
          best = t, best_recipe = recipe + (compile == std::string_view("none") ? ", eager" : ", compiled");
    fmt::print("| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {} | {:.2f} | {:.2f} |\n",
               name_of(row.precision), row.seq, row.dropout, mine.wall_ms, mine.cpu_ms, best.wall_ms,
               best.cpu_ms, best_recipe, best.wall_ms / mine.wall_ms, best.cpu_ms / mine.cpu_ms);
    std::fflush(stdout);
  }
}

}  // namespace mbench
