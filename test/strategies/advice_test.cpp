// Refusals of points that are drawn over the whole spec: whoever follows one of the alternatives that a message names, and changes
// nothing else, has a point that is accepted.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "engine/base/error.h"
#include "engine/framework/framework.h"
#include "engine/point/fields.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

// What numbers and lists are drawn from; flags and choices are all that the spec takes.
const json& drawn_values() {
  static const json table = json::parse(R"({
    "seq": [8, 16, 24, 48, 60, 63, 64, 128, 256, 300], "micro_batch": [1, 2, 3], "global_batch": [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 48],
    "dropout": [0, 0.1], "tp": [1, 2, 3, 4, 6, 8], "pp": [1, 2, 3, 4, 6], "dp": [1, 2, 3, 4, 6, 8], "cp": [1, 2, 3, 4],
    "ep": [1, 2, 3, 4, 6, 8], "etp": [0, 1, 2, 3, 4], "router": ["balanced", "learned", "capacity:1", "capacity:1.5"],
    "recompute": ["none", "selective", "full", "norm", "mlp", "core_attention+norm", "moe", "moe+norm", "moe_act", "mla_up_proj",
                  "mla_up_proj+norm+mlp", "alternate_products"],
    "recompute_layers": [0, 1, 2, 5], "strategy": ["baseline", "sequence_parallel", "selective", "sequence_parallel+selective", "full"],
    "virtual_stages": [1, 2, 3], "micro_batch_group": [0, 1, 3, 5, 8], "first_stage_layers": [0, 1, 2, 5], "last_stage_layers": [0, 1, 3],
    "pipeline_layout": ["", "", "Et*4|L", "Ett|t|tL", "Ett|t|tmL", "Et|tt|tm|L", "E|t*12L", "Et|t|t|tL"],
    "wgrad_deferral_limit": [0, 1, 4], "zero": [0, 1, 2, 3, "oss", "oss+sdp", "fsdp"], "optimizer_instances": [1, 2, 3, 4, 8],
    "document_lengths": ["none", "none", 12, "5+20", "geometric:9"],
    "expert_rank_capacity": [0, 1, 1.5, 1.5], "paged_stash": [0, 0.5, 1.1, 16], "paged_stash_host": [0, 1, 16],
    "adapter": ["lora:4", "lora:2,targets=qkv+proj", "lora:2,base=nf4", "lora:2,base=nf4-double", "none"], "loader_workers": [0, 2], "device": ["cpu", "cpu", "sim:8xH100-SXM5-80GB"]
  })");
  return table;
}

const json& models() {
  static const json table = json::parse(R"([
    {"preset": "gpt-bytes-tiny"}, {"preset": "gpt-bytes-tiny", "mtp_layers": 1}, {"preset": "gpt-bytes-tiny", "layers": 7, "ffn": 96},
    {"preset": "gpt-bytes-tiny", "causal": false}, {"preset": "gpt-bytes-tiny", "experts": 4, "active_experts": 2},
    {"preset": "bert-bytes-tiny"}, {"preset": "bert-bytes-tiny", "labels": 3}, {"preset": "llama-bytes-tiny", "labels": 2, "mtp_layers": 1},
    {"preset": "bert-bytes-tiny", "norm_place": "post"}, {"preset": "bert-bytes-tiny", "mtp_layers": 1},
    {"preset": "bert-bytes-tiny", "causal": true, "tied_embedding": false},
    {"preset": "llama-bytes-tiny"}, {"preset": "llama-bytes-tiny", "qk_norm": true, "layers": 6},
    {"preset": "llama-bytes-tiny", "qk_norm": "without_weights", "attention_chunk": 32,
     "layers_of": [{"every": 2, "position": "none", "attention_chunk": 0, "attention_temperature": {"scale": 0.1}}]},
    {"preset": "llama-bytes-tiny", "activation": "xielu"},
    {"preset": "mamba-130m", "layers": 4, "hybrid_pattern": "SSSS", "scan_norm": "rms_norm"},
    {"preset": "llama-bytes-tiny", "mixer": "short_conv", "layers_of": [{"every": 2, "mixer": "attention"}]},
    {"preset": "llama-bytes-tiny", "mixer": "lightning", "norm_place": "post"},
    {"preset": "llama-bytes-tiny", "mixer": "mamba2", "branches": "parallel_mixers", "state_heads": 8, "state_head_dim": 8, "state_groups": 4,
     "state_dim": 8, "state_norm": "none", "multipliers": {"gates": 0.5}},
    {"preset": "llama-bytes-tiny", "hidden": 96, "heads": 6, "kv_heads": 3, "ffn": 160},
    {"preset": "llama-bytes-tiny", "activation": "squared_relu", "bias": true, "tied_embedding": true},
    {"preset": "mixtral-bytes-tiny"}, {"preset": "mixtral-bytes-tiny", "experts": 6, "active_experts": 4, "ffn": 48, "layers": 12},
    {"preset": "mixtral-bytes-tiny", "shared_experts": 1, "expert_ffn": 36, "dense_layers": 1},
    {"family": "deepseek", "layers": 5, "hidden": 64, "heads": 4, "ffn": 96, "vocab": 256, "positions": 256, "kv_lora_rank": 16,
     "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8},
    {"family": "deepseek", "layers": 4, "hidden": 64, "heads": 6, "ffn": 96, "vocab": 256, "positions": 256, "kv_lora_rank": 16,
     "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "q_lora_rank": 24, "expert_ffn": 24, "experts": 16,
     "active_experts": 4, "shared_experts": 1, "dense_layers": 1, "mtp_layers": 1, "qk_norm": true},
    "gpt2-345m", "llama-3-8b", "mixtral-8x7b", "deepseek-v3"
  ])");
  return table;
}

// A spec of one point, as somebody would write it: some fields of a strategy's, others not.
json drawn_spec(std::mt19937_64& draw) {
  const auto one_of = [&](const json& list) -> const json& { return list[draw() % list.size()]; };
  static const json schema = point_schema();
  json spec = {{"model", one_of(models())}, {"seq", one_of(drawn_values().at("seq"))}};
  const std::uint64_t one_in = 3 + draw() % 40;
  std::vector<std::string> fields;
  for (const strategies::Strategy& s : strategies::all_strategies())
    fields.insert(fields.end(), s.fields.begin(), s.fields.end());
  for (const PointField& former : former_point_fields()) fields.push_back(former.key);
  for (const std::string& field : fields) {
    if (draw() % one_in != 0 || field == "model") continue;
    const json& about = schema.at(field);
    if (drawn_values().contains(field))
      spec[field] = one_of(drawn_values().at(field));
    else if (about.value("type", "") == "boolean")
      spec[field] = draw() % 2 == 0;
    else if (const auto& choices = find_field(field)->choices; !choices.empty())
      spec[field] = choices[draw() % choices.size()].name;
  }
  if (draw() % 4 == 0) spec["device"] = one_of(drawn_values().at("device"));
  return spec;
}

std::optional<Point> read(const json& spec) {
  try {
    return point_from_json(spec, "drawn: $");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Values of fields that a message wants together.
using Advice = std::vector<std::pair<std::string, json>>;

std::vector<std::string> split(const std::string& text, const std::vector<std::string>& separators) {
  std::vector<std::string> parts(1);
  for (std::size_t at = 0; at < text.size();) {
    const auto here = [&](const std::string& s) { return text.compare(at, s.size(), s) == 0; };
    const auto found = std::find_if(separators.begin(), separators.end(), here);
    if (found == separators.end())
      parts.back() += text[at++];
    else
      parts.emplace_back(), at += found->size();
  }
  return parts;
}

// "need tp 2 or 4, or sequence_parallel false and seq 8": three.
std::vector<Advice> advice_of(const std::string& reason) {
  const std::string need = ", need ";
  REQUIRE(reason.find(need) != std::string::npos);
  std::vector<Advice> all;
  for (const std::string& alternative :
       split(reason.substr(reason.find(need) + need.size()), {", or ", " or ", ", "})) {
    Advice together;
    for (const std::string& change : split(alternative, {" and "})) {
      std::istringstream words(change);
      std::string field, value, more;
      if (!(words >> field >> value)) {
        REQUIRE(!all.empty());  // another value of the field before
        REQUIRE(all.back().size() == 1);
        value = field, field = all.back().front().first;
      }
      REQUIRE(!(words >> more));
      const json read = json::parse(value, nullptr, false);
      together.emplace_back(field, read.is_discarded() ? json(value) : read);
    }
    all.push_back(together);
  }
  return all;
}

// A former word that says what the preset has by itself goes with the preset, which former words may choose.
void drop_words_of_preset(json& spec) {
  const std::optional<Point> point = read(spec);
  if (!point) return;
  const std::string& preset = point->framework.preset;
  for (const FrameworkFile& file : builtin_frameworks())
    if (preset == file.name())
      for (const FrameworkOption& option : file.options()) {
        const auto said = spec.find(option.name);
        if (said != spec.end() && (said->is_string() ? said->get<std::string>() : said->dump()) == option.otherwise)
          spec.erase(said);
      }
}

json followed(json spec, const Advice& advice) {
  for (const auto& [field, value] : advice) {
    if (field == "framework.preset") drop_words_of_preset(spec);
    // What a spec says in a former word it says in the new one now.
    if (field.starts_with(kFrameworkField))
      spec.erase(field == "framework.preset" ? "graph" : field.substr(kFrameworkField.size()));
    const bool of_point = is_field(field);
    if (of_point)
      spec[field] = field == "device" && value == "sim:" ? json("sim:8xH100-SXM5-80GB") : value;
    else if (spec["model"].is_string())
      spec["model"] = {{"preset", spec["model"]}, {field, value}};
    else
      spec["model"][field] = value;
  }
  return spec;
}

// What is wrong with a piece of advice; empty: it leads to a point that is accepted.
std::string wrong_with(const json& spec, const Advice& advice) {
  const json other = followed(spec, advice);
  try {
    const auto refusal = strategies::why_not(point_from_json(other, "advised: $"));
    return refusal ? refusal->reason : "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Whether a number is the nearest on its side, and each of several changes needed.
bool is_nearest(const json& spec, const Point& point, const Advice& advice) {
  if (advice.size() > 1) {
    if (std::any_of(advice.begin(), advice.end(), [](const auto& change) { return change.first == "strategy"; }))
      return true;
    for (std::size_t i = 0; i < advice.size(); ++i) {
      Advice fewer = advice;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (wrong_with(spec, fewer).empty()) return false;
    }
    return true;
  }
  const auto& [field, value] = advice.front();
  const json now = point_to_json(point).value(field, nlohmann::ordered_json());
  if (field == "zero" || !value.is_number_integer() || !now.is_number_integer()) return true;
  const std::int64_t from = now, to = value, step = to > from ? 1 : -1;
  for (std::int64_t n = from + step, tried = 0; n != to && tried < 64; n += step, ++tried)
    if (wrong_with(spec, {{field, n}}).empty()) return false;
  return true;
}

// MBENCH_ADVICE: another seed and count, to look further by hand ("7:20000").
std::pair<std::uint64_t, int> seed_and_count() {
  std::pair<std::uint64_t, int> drawn{1, 500};
  if (const char* text = std::getenv("MBENCH_ADVICE")) std::sscanf(text, "%lu:%d", &drawn.first, &drawn.second);
  return drawn;
}

}  // namespace

TEST_CASE("what a refusal advises is accepted, and nothing nearer is") {
  const auto [seed, count] = seed_and_count();
  std::mt19937_64 draw(seed);
  std::set<std::string> kinds;
  int refused = 0, pieces = 0, singles = 0, wrong = 0, far = 0, unmended = 0;
  std::size_t most = 0;
  while (refused < count) {
    const json spec = drawn_spec(draw);
    const auto point = read(spec);
    const auto refusal = point ? strategies::why_not(*point) : std::nullopt;
    if (!refusal) continue;
    ++refused;
    INFO(spec.dump() << "\n" << refusal->reason);
    std::string kind = refusal->reason.substr(0, refusal->reason.find(", need "));
    std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
    kinds.insert(kind);
    if (std::getenv("MBENCH_ADVICE_SHOW")) std::printf("%s\n%s\n", spec.dump().c_str(), refusal->reason.c_str());
    if (refusal->reason.find("which ones was not found") != std::string::npos) {
      ++unmended;
      continue;
    }
    const std::vector<Advice> all = advice_of(refusal->reason);
    CHECK(std::set<Advice>(all.begin(), all.end()).size() == all.size());
    for (const Advice& advice : all) {
      ++pieces, singles += advice.size() == 1, most = std::max(most, advice.size());
      const std::string why = wrong_with(spec, advice);
      const bool nearest = why.empty() && is_nearest(spec, *point, advice);
      wrong += !why.empty(), far += why.empty() && !nearest;
      INFO(advice.front().first << " " << advice.front().second.dump() << (advice.size() > 1 ? " and more" : "") << ": "
                                << why);
      CHECK(why == "");
      CHECK(nearest);
    }
  }
  if (std::getenv("MBENCH_ADVICE"))
    WARN(refused << " refusals of " << kinds.size() << " kinds, " << pieces << " alternatives, " << singles
                 << " of one change, at most " << most << "; without " << unmended << ", wrong " << wrong
                 << ", not the nearest " << far);
  CHECK(unmended * 250 <=
        count);  // where faults of half a dozen kinds meet, the search for all changes at once may end without one
  CHECK(kinds.size() > 60);
  CHECK(singles > count / 2);
}

TEST_CASE("advice of one rule that another would refuse is left out, or names what it needs too") {
  const auto why = [](const char* text) {
    const json spec = json::parse(text);
    const auto refusal = strategies::why_not(point_from_json(spec, "p: $"));
    REQUIRE(refusal);
    for (const Advice& advice : advice_of(refusal->reason)) CHECK(wrong_with(spec, advice) == "");
    return refusal->reason;
  };
  CHECK(
      why(R"({"model": {"preset": "mixtral-bytes-tiny", "experts": 4}, "seq": 48, "tp": 2, "sequence_parallel": true, "dp": 3,
                "global_batch": 3, "etp": 1, "ep": 6})") == "ep 6 does not divide the 4 experts, need ep 2");
  CHECK(why(R"({"model": {"preset": "llama-bytes-tiny", "hidden": 96, "heads": 3, "kv_heads": 3}, "seq": 48, "cp": 2,
                "cp_communication": "all_to_all"})") ==
        "cp 2 by all_to_all does not divide the 3 key and value heads of a tensor-parallel rank, need cp 1 or 3, or "
        "cp_communication ring "
        "and attention flash");
  CHECK(
      why(R"({"model": "gpt-bytes-tiny", "seq": 64, "pp": 2, "dp": 2, "global_batch": 8, "zero": 3, "defer_embedding_wgrad": true,
                "wgrad_deferral_limit": 1})") ==
      "defer_embedding_wgrad with zero 3 is not built into this binary, need zero 0, 1 or oss, or "
      "defer_embedding_wgrad false and "
      "wgrad_deferral_limit 0");
  CHECK(why(R"({"model": "gpt-bytes-tiny", "seq": 64, "strategy": "sequence_parallel", "recompute_layers": 1})") ==
        "recompute_layers 1 with recompute none, need recompute_layers 0, recompute selective and strategy "
        "sequence_parallel+selective, or "
        "recompute full and sequence_parallel true and strategy \"\"");
  // Of many faults one way out.
  CHECK(why(R"({"model": "bert-bytes-tiny", "seq": 300, "dp": 3, "ep": 2, "zero": 3, "optimizer": "adafactor"})") ==
        "seq 300 is longer than the 256 positions of bert-bytes-tiny, need seq 256 and global_batch 3 and ep 1 and "
        "zero 0");
}
