#include "engine/spec/model_spec.h"

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {

const std::vector<ModelSpec>& model_presets() {
  // name, family, layers, hidden, heads, ffn, vocab, positions, kv_heads, experts, active, shared, expert_ffn
  static const std::vector<ModelSpec> presets = {
      // GPT-2: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2.
      {"gpt2-124m", Family::gpt, 12, 768, 12, 3072, 50257, 1024},
      {"gpt2-345m", Family::gpt, 24, 1024, 16, 4096, 50257, 1024},
      {"gpt2-774m", Family::gpt, 36, 1280, 20, 5120, 50257, 1024},
      {"gpt2-1.5b", Family::gpt, 48, 1600, 25, 6400, 50257, 1024},
      // 1,313,722,368 parameters with the vocabulary padded to 50304.
      {"gpt-1.3b", Family::gpt, 24, 2048, 32, 8192, 50257, 1024},
      // Sizes of public large runs: Brown et al. 2020 (6.7B), and Korthikanti et al. 2022, "Reducing
      // Activation
      // Recomputation in Large Transformer Models", table 3 (22B to 1T).
      {"gpt-6.7b", Family::gpt, 32, 4096, 32, 16384, 51200, 2048},
      {"gpt-22b", Family::gpt, 48, 6144, 64, 24576, 51200, 2048},
      {"gpt3-175b", Family::gpt, 96, 12288, 96, 49152, 51200, 2048},
      {"gpt-530b", Family::gpt, 105, 20480, 128, 81920, 51200, 2048},
      {"gpt-1t", Family::gpt, 128, 25600, 160, 102400, 51200, 2048},
      // Known, but not built in. Llama: Touvron et al. 2023; Grattafiori et al. 2024, table 3. Mixtral: Jiang
      // et
      // al. 2024 and the published configuration of 8x22B. DeepSeek-V3: its technical report, section 4.2.
      {"llama-2-7b", Family::llama, 32, 4096, 32, 11008, 32000, 4096},
      {"llama-2-13b", Family::llama, 40, 5120, 40, 13824, 32000, 4096},
      {"llama-2-70b", Family::llama, 80, 8192, 64, 28672, 32000, 4096, 8},
      {"llama-3-8b", Family::llama, 32, 4096, 32, 14336, 128256, 8192, 8},
      {"llama-3-70b", Family::llama, 80, 8192, 64, 28672, 128256, 8192, 8},
      {"llama-3.1-405b", Family::llama, 126, 16384, 128, 53248, 128256, 131072, 8},
      {"mixtral-8x7b", Family::mixtral, 32, 4096, 32, 14336, 32000, 32768, 8, 8, 2},
      {"mixtral-8x22b", Family::mixtral, 56, 6144, 48, 16384, 32000, 65536, 8, 8, 2},
      {"deepseek-v3", Family::deepseek, 61, 7168, 128, 18432, 129280, 4096, 128, 256, 8, 1, 2048},
      // BERT: Devlin et al. 2019 (base); Megatron-LM's 345M configuration.
      {"bert-base", Family::bert, 12, 768, 12, 3072, 30522, 512},
      {"bert-345m", Family::bert, 24, 1024, 16, 4096, 30522, 512},
      // Byte-level GPTs for a first look and for tests: 256 bytes, trained in seconds on a laptop.
      {"gpt-bytes-3m", Family::gpt, 4, 256, 8, 1024, 256, 1024},
      {"gpt-bytes-tiny", Family::gpt, 4, 64, 4, 256, 256, 256},
      {"bert-bytes-tiny", Family::bert, 4, 64, 4, 256, 256, 256},
  };
  return presets;
}

const ModelSpec& find_preset(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const ModelSpec& m : model_presets()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  fail(ErrorKind::bad_input, where, "no such model, got \"{}\", {}", name, nearest_choice(name, names));
}

namespace {

// GPT and BERT: biases everywhere, learned positions, one table for embedding and logits.
std::int64_t gpt_parameters(const ModelSpec& m, std::int64_t v) {
  const std::int64_t h = m.hidden, f = m.ffn;
  const std::int64_t layer = (3 * h * h + 3 * h) + (h * h + h) + (f * h + f) + (h * f + h) + 4 * h;
  std::int64_t n = m.layers * layer + v * h + m.positions * h + 2 * h;
  // BERT: token types, pooler, binary head, and the language-model head's dense, norm and vocabulary bias.
  if (m.family == Family::bert) n += 2 * h + (h * h + h) + (2 * h + 2) + (h * h + h) + 2 * h + v;
  return n;
}

// Llama and Mixtral: no biases, rotary positions, gated feed-forward blocks, an output table of its own.
std::int64_t llama_parameters(const ModelSpec& m, std::int64_t v) {
  const std::int64_t h = m.hidden, kv = (m.kv_heads ? m.kv_heads : m.heads) * m.head_dim();
  const std::int64_t width = m.expert_ffn ? m.expert_ffn : m.ffn;
  const std::int64_t feed_forward =
      m.experts == 0 ? 3 * h * m.ffn
                     : h * m.experts + 3 * h * width * (m.experts + m.shared_experts);  // router first
  return m.layers * (2 * h * h + 2 * h * kv + feed_forward + 2 * h) + 2 * v * h + h;
}

}  // namespace

bool is_built_in(const ModelSpec& m) {
  return (m.family == Family::gpt || m.family == Family::bert) && m.kv_heads == 0 && m.experts == 0;
}

std::optional<std::int64_t> known_parameter_count(const ModelSpec& m, std::int64_t tp) {
  const std::int64_t v = m.padded_vocab(tp);
  switch (m.family) {
    case Family::gpt:
    case Family::bert:
      if (!is_built_in(m)) return std::nullopt;
      return gpt_parameters(m, v);
    case Family::llama:
    case Family::mixtral:
      return llama_parameters(m, v);
    case Family::deepseek:
      break;  // its low-rank attention has sizes that a ModelSpec does not hold
  }
  return std::nullopt;
}

std::int64_t parameter_count(const ModelSpec& m, std::int64_t tp) {
  if (const auto n = known_parameter_count(m, tp)) return *n;
  fail(ErrorKind::unsupported, "parameters", "the weights of {} do not follow from its sizes", m.name);
}

}  // namespace mbench
