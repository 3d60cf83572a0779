#include "bench/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/base/error.h"

namespace mbench {
namespace {

constexpr int kSteps = 3;

struct Row {
  const char* model;
  Precision precision;
  std::int64_t seq;
  double dropout;
  bool peer = true;  // PyTorch has it
};
// What mbench's own f32 is held against comes first.
constexpr std::array kRows{Row{"gpt2-345m", Precision::f32, 512, 0},         Row{"gpt2-345m", Precision::bf16, 512, 0},
                           Row{"gpt2-345m", Precision::fp16, 512, 0, false}, Row{"llama-345m", Precision::f32, 512, 0},
                           Row{"llama-345m", Precision::bf16, 512, 0},       Row{"gpt2-345m", Precision::f32, 1024, 0},
                           Row{"gpt2-345m", Precision::f32, 1024, 0.1}};

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  check(pipe != nullptr, "peer", "cannot start {}", command);
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) text.append(buffer.data(), n);
  return text;
}

// A step of mbench in a process of its own, as PyTorch's is: what ran before in this one changes where memory lies, which took
// 13 % of a step in fp16 after steps in f32 and bf16, and 6 by itself.
StepTime ours_apart(const Point& p) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string text = output_of(fmt::format("'{}' --step='{}'", own, point_to_json(p).dump()));
  const auto reported = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!reported.is_array())
    fail(ErrorKind::bad_input, "peer", "a step of {}, got \"{}\", need its times", p.model.name, text);
  return {reported.at(0), reported.at(1)};
}

StepTime peer(const std::string& python, const Point& p, const std::string& recipe, const std::string& compile) {
  const ModelSpec& m = p.model;
  const std::string command = fmt::format(
      "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME {} " MBENCH_SOURCE_DIR  // it waits as it does by itself
      "/scripts/peer_torch.py --device cpu --family {} --layers {} --hidden {} --heads {} --ffn {}{} --vocab "
      "{} --seq {} "
      "--micro-batch {} --processes {} --dropout {} --iterations {} --warmup 2 --recipe {} --compile {}",
      python, m.family, m.layers, m.hidden, m.heads, m.ffn,
      m.family == "llama" ? fmt::format(" --kv-heads {}", m.kv_heads == 0 ? m.heads : m.kv_heads) : "", m.vocab, p.seq,
      p.micro_batch, p.dp, p.dropout, p.iterations, recipe, compile);
  const std::string text = output_of(command);
  const auto reported = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (reported.is_discarded() || reported.at("points").at(0).at("outcome") != "ok")
    fail(ErrorKind::bad_input, "peer", "a step in PyTorch, got \"{}\" from {}, need a row that is ok", text, command);
  const auto& point = reported.at("points").at(0);
  return {point.at("iteration_ms").at("median").get<double>(), point.at("cpu_ms").get<double>()};
}

struct Best {
  StepTime time;
  std::string recipe;
};
Best best_peer(const std::string& python, const Point& p) {
  Best best;
  const auto recipes =
      p.precision == Precision::f32 ? std::vector<std::string>{"f32"} : std::vector<std::string>{"master", "autocast"};
  for (const std::string& recipe : recipes)
    for (const char* compile : {"default", "none"})
      if (const StepTime t = peer(python, p, recipe, compile); best.recipe.empty() || t.wall_ms < best.time.wall_ms)
        best = {t, recipe + (compile == std::string_view("none") ? ", eager" : ", compiled")};
  return best;
}

void print_row(const Point& p, const StepTime& mine, const std::optional<Best>& best) {
  fmt::print("| {} | {} | {} | {} | {:.4g} | {:.4g} |", p.model.name, name_of(p.precision), p.seq, p.dropout,
             mine.wall_ms, mine.cpu_ms);
  if (best)
    fmt::print(" {:.4g} | {:.4g} | {} | {:.2f} | {:.2f} |\n", best->time.wall_ms, best->time.cpu_ms, best->recipe,
               best->time.wall_ms / mine.wall_ms, best->time.cpu_ms / mine.cpu_ms);
  else
    fmt::print(" - | - | - | - | - |\n");
  std::fflush(stdout);
}

void print_heading() {
  fmt::print(
      "| model | precision | seq | dropout | mbench ms | its CPU ms | PyTorch ms | its CPU ms | recipe | "
      "time ratio | CPU ratio "
      "|\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|\n");
}

}  // namespace

void print_peers(const std::string& python, const std::string& only) {
  print_heading();
  std::map<std::tuple<std::string, std::int64_t, double>, double> in_f32;
  std::string against;
  for (const Row& row : kRows) {
    if (std::string_view(row.model).find(only) == std::string_view::npos) continue;
    Point p;
    p.model = find_preset(row.model, "bench");
    p.attention = AttentionKind::flash;
    p.iterations = kSteps;
    p.precision = row.precision, p.seq = row.seq, p.dropout = row.dropout;
    const StepTime mine = ours_apart(p);
    print_row(p, mine, row.peer ? std::optional(best_peer(python, p)) : std::nullopt);
    const std::tuple key(p.model.name, p.seq, p.dropout);
    if (row.precision == Precision::f32)
      in_f32[key] = mine.wall_ms;
    else
      against += fmt::format("{} {} of {} tokens: {:.2f} times the speed of f32\n", p.model.name, name_of(p.precision),
                             p.seq, in_f32.at(key) / mine.wall_ms);
  }
  fmt::print("\n{}", against);
}

void print_data_parallel_peer(const std::string& python, int ranks, bool first,
                              const std::function<StepTime(const Point&)>& ours, const std::function<void()>& wait) {
  if (first) print_heading();
  for (const std::int64_t seq : {128, 256}) {
    Point p;
    p.model = find_preset("gpt-bytes-3m", "bench");
    p.attention = AttentionKind::flash;
    p.seq = seq;
    p.dp = ranks;
    p.global_batch = ranks;
    p.iterations = 50;
    const StepTime mine = ours(p);
    if (first) print_row(p, mine, best_peer(python, p));
    wait();
  }
}

}  // namespace mbench
