#include "engine/api/model_spec.h"

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {

const std::vector<ModelSpec>& model_presets() {
  // name, family, layers, hidden, heads, ffn, vocab, positions
  static const std::vector<ModelSpec> presets = {
      // GPT-2: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", table 2.
      {"gpt2-124m", Family::gpt, 12, 768, 12, 3072, 50257, 1024},
      {"gpt2-345m", Family::gpt, 24, 1024, 16, 4096, 50257, 1024},
      {"gpt2-774m", Family::gpt, 36, 1280, 20, 5120, 50257, 1024},
      {"gpt2-1.5b", Family::gpt, 48, 1600, 25, 6400, 50257, 1024},
      // 1,313,722,368 parameters with the vocabulary padded to 50304.
      {"gpt-1.3b", Family::gpt, 24, 2048, 32, 8192, 50257, 1024},
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

std::int64_t parameter_count(const ModelSpec& m, std::int64_t tp) {
  const std::int64_t h = m.hidden, f = m.ffn, v = m.padded_vocab(tp);
  const std::int64_t layer = (3 * h * h + 3 * h) + (h * h + h) + (f * h + f) + (h * f + h) + 4 * h;
  std::int64_t n = m.layers * layer + v * h + m.positions * h + 2 * h;
  // BERT: token types, pooler, binary head, and the language-model head's dense, norm and vocabulary bias.
  if (m.family == Family::bert) n += 2 * h + (h * h + h) + (2 * h + 2) + (h * h + h) + 2 * h + v;
  return n;
}

}  // namespace mbench
