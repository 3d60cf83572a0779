// Which points can be: the rules of point.h's why_infeasible and why_unsupported.
#include <fmt/format.h>

#include "engine/spec/point.h"

namespace mbench {
namespace {

// "2 or 4": the divisors of n on either side of `got`.
std::string nearest_divisors(std::int64_t got, std::int64_t n) {
  std::int64_t below = 1, above = 0;
  for (std::int64_t d = 1; d <= n && above == 0; ++d) {
    if (n % d != 0) continue;
    if (d < got) below = d;
    if (d > got) above = d;
  }
  return above == 0 || below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

// The multiples of `unit` on either side of `got`.
std::string nearest_multiples(std::int64_t got, std::int64_t unit) {
  const std::int64_t below = got / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

std::optional<std::string> bad_schedule(const Point& p) {
  if (p.schedule != ScheduleKind::interleaved) {
    if (p.virtual_stages == 1) return std::nullopt;
    return fmt::format("virtual_stages {} with schedule {}, need schedule interleaved or virtual_stages 1",
                       p.virtual_stages, name_of(p.schedule));
  }
  if (p.pp == 1) return "schedule interleaved with pp 1, need pp of 2 or more, or schedule 1f1b";
  if (p.virtual_stages == 1)
    return "schedule interleaved with virtual_stages 1, need 2 or more, or schedule 1f1b";
  if (p.micro_batches() % p.pp != 0)
    return fmt::format("schedule interleaved needs the {} micro batches to be a multiple of pp {}, need {}",
                       p.micro_batches(), p.pp, nearest_multiples(p.micro_batches(), p.pp));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_infeasible(const Point& p) {
  const ModelSpec& m = p.model;
  if (m.hidden % m.heads != 0)
    return fmt::format("heads {} does not divide hidden {}, need {}", m.heads, m.hidden,
                       nearest_divisors(m.heads, m.hidden));
  if (m.heads % p.tp != 0)
    return fmt::format("tp {} does not divide the {} heads, need tp {}", p.tp, m.heads,
                       nearest_divisors(p.tp, m.heads));
  if (m.ffn % p.tp != 0)
    return fmt::format("tp {} does not divide ffn {}, need tp {}", p.tp, m.ffn,
                       nearest_divisors(p.tp, m.ffn));
  if (m.kv_heads > 0 && m.heads % m.kv_heads != 0)
    return fmt::format("kv_heads {} does not divide heads {}, need {}", m.kv_heads, m.heads,
                       nearest_divisors(m.kv_heads, m.heads));
  if (p.ep > 1 && m.experts % p.ep != 0)
    return fmt::format("ep {} does not divide the {} experts, need ep {}", p.ep, m.experts,
                       nearest_divisors(p.ep, m.experts));
  const std::int64_t chunks = p.pp * p.virtual_stages;
  // Equal stages are a rule of this engine: public runs of the models that it does not have cut otherwise. Or
  // two more layers divide: the first and the last chunk hold one less, for the embedding and the head. In
  // chunks of less than four layers that would be no balance.
  const bool balanced = chunks > 1 && (m.layers + 2) % chunks == 0 && m.layers + 2 >= 4 * chunks;
  if (is_built_in(m) && m.layers % chunks != 0 && !balanced)
    return fmt::format("pp {}{} does not divide the {} layers, need {} {}", p.pp,
                       p.virtual_stages > 1 ? fmt::format(" x virtual_stages {}", p.virtual_stages) : "",
                       m.layers, p.virtual_stages > 1 ? "their product" : "pp",
                       nearest_divisors(chunks, m.layers));
  if (p.seq > m.positions)
    return fmt::format(
        "seq {} is longer than the {} positions of {}, need at most {} or a model with more positions", p.seq,
        m.positions, m.name, m.positions);
  const std::int64_t samples = p.micro_batch * p.dp;
  if (p.global_batch % samples != 0)
    return fmt::format("global_batch {} is no multiple of micro_batch {} x dp {}, need {}", p.global_batch,
                       p.micro_batch, p.dp, nearest_multiples(p.global_batch, samples));
  if (p.sequence_parallel && p.seq % p.tp != 0)
    return fmt::format("sequence_parallel needs seq {} to be a multiple of tp {}, need seq {}", p.seq, p.tp,
                       nearest_multiples(p.seq, p.tp));
  return bad_schedule(p);
}

std::optional<std::string> why_unsupported(const Point& p) {
  const auto missing = [](std::string_view what, std::string_view need) {
    return fmt::format("{} is not built into this binary, need {}", what, need);
  };
  if (!is_built_in(p.model)) {
    const bool gpt = p.model.family == Family::gpt || p.model.family == Family::bert;
    return missing(gpt ? fmt::format("{} with kv_heads or experts", name_of(p.model.family))
                       : fmt::format("the model family {}", name_of(p.model.family)),
                   "gpt or bert");
  }
  if (p.replicas == Replicas::single_process)
    return missing("data parallelism in a single process", "replicas ranks");
  if (p.precision == Precision::fp8) return missing("precision fp8", "f32, bf16 or fp16");
  if (p.precision == Precision::tf32 && p.device == "cpu")
    return "precision tf32 is the arithmetic of a GPU's tensor cores, and the device is cpu, need f32";
  if (p.zero > 0) return missing(fmt::format("zero {}", p.zero), "zero 0");
  if (p.offload != Offload::none) return missing(fmt::format("offload {}", name_of(p.offload)), "none");
  if (p.cp > 1) return missing(fmt::format("cp {}", p.cp), "cp 1");
  if (p.ep > 1) return missing(fmt::format("ep {}", p.ep), "ep 1");
  if (p.graph == Graph::captured) return missing("graph captured", "eager or fused");
  if (p.device == "cuda" && p.attention == AttentionKind::flash) {
    // cuDNN's fused attention, and what it does not share with the CPU's.
    if (p.precision == Precision::f32)
      return missing("attention flash in f32 on a GPU", "precision bf16 or fp16, or attention core");
    if (p.dropout > 0)
      return fmt::format(
          "attention flash on a GPU with dropout {}, need dropout 0 or attention core: cuDNN draws masks of "
          "its "
          "own, and a mask here is the same on every device and layout",
          p.dropout);
  }
  if (p.framework != "mbench" && !p.simulated())
    return fmt::format("framework {} is for simulation only, and the device is {}, need mbench", p.framework,
                       p.device);
  return std::nullopt;
}

}  // namespace mbench
