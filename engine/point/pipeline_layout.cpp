#include "engine/point/pipeline_layout.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace mbench {
namespace {

using nlohmann::json;

// Megatron-Core's LayerType, but for its encoder, which no layout of its own may have.
constexpr std::array<std::pair<std::string_view, char>, 4> kWords = {
    {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}}};

constexpr const char* kGrammar = "E, t, m, L, | between stages, and t*3 or (tt|)*29 to repeat";

// Texts with their repetitions written out; of one kind after the other, so that what is in parentheses may have the other in it.
class Unrolled {
 public:
  Unrolled(std::string_view text, const std::string& where) : given_(text), where_(where), text_(text) {
    std::erase(text_, ',');
    text_ = groups(text_);
    text_ = letters(text_);
  }
  const std::string& text() const { return text_; }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::bad_input, where_, "{}, got {}, need {}", what, short_json(json(std::string(given_))), kGrammar);
  }

  void add(std::string& out, std::string_view part, std::size_t times) const {
    if (!part.empty() && times > (kMostOfLayout - out.size()) / part.size())
      fail(ErrorKind::bad_input, where_, "too long, got {}, need at most {} letters when repetitions are written out",
           short_json(json(std::string(given_))), kMostOfLayout);
    for (std::size_t i = 0; i < times; ++i) out += part;
  }

  // The number behind a "*" at `at`, which it goes behind.
  std::size_t times(const std::string& text, std::size_t& at) const {
    const std::size_t begin = ++at;
    std::size_t n = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      n = std::min(kMostOfLayout + 1, n * 10 + static_cast<std::size_t>(text[at] - '0'));
    if (at == begin) refuse("no number behind a *");
    return n;
  }

  std::string groups(const std::string& text) const {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == ')') refuse("a ) that opens nowhere");
      if (text[at] != '(') {
        add(out, std::string_view(text).substr(at++, 1), 1);
        continue;
      }
      const std::size_t end = text.find_first_of("()", at + 1);
      if (end == std::string::npos) refuse("a ( that does not close");
      if (text[end] == '(') refuse("a ( within another");
      const std::string inside = text.substr(at + 1, end - at - 1);
      at = end + 1;
      if (inside.empty() || at >= text.size() || text[at] != '*') refuse("parentheses that repeat nothing");
      const std::size_t n = times(text, at);
      add(out, letters(inside), n);
    }
    return out;
  }

  std::string letters(const std::string& text) const {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char letter = text[at++];
      if (std::string_view("EtmL|").find(letter) == std::string_view::npos)
        refuse(fmt::format("no such letter as {}", short_json(json(std::string(1, letter)))));
      const bool repeats = at < text.size() && text[at] == '*';
      const std::size_t n = repeats ? times(text, at) : 1;
      add(out, std::string_view(&letter, 1), n);
    }
    return out;
  }

  std::string_view given_;
  const std::string& where_;
  std::string text_;
};

// A stage's letters, in order.
StageParts stage_of(std::string_view letters, const std::string& where) {
  StageParts stage;
  const auto refuse = [&](const char* what, const char* need) {
    fail(ErrorKind::bad_input, where, "{}, got {}, need {}", what, short_json(json(std::string(letters))), need);
  };
  for (const char letter : letters) {
    if (stage.loss) refuse("a part behind L", "L last");
    if (letter == 'E') {
      if (stage.embedding || stage.layers > 0 || stage.depths > 0) refuse("E behind another part", "E first and once");
      stage.embedding = true;
    } else if (letter == 't') {
      if (stage.depths > 0) refuse("t behind m", "layers before multi-token prediction");
      ++stage.layers;
    } else if (letter == 'm') {
      ++stage.depths;
    } else {
      stage.loss = true;
    }
  }
  return stage;
}

// What Megatron-Core asserts of a layout, whatever the model (PipelineParallelLayerLayout.validate_layer_layout).
void check(const PipelineLayout& layout, const std::string& where) {
  bool depths = false;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const StageParts& s = layout[i];
    const auto refuse = [&](const char* what, const char* need) {
      fail(ErrorKind::bad_input, where, "{}, got stage {} of {}, need {}", what, i, layout.size(), need);
    };
    if (s.embedding != (i == 0))
      refuse(i == 0 ? "a first stage without embedding" : "an embedding behind the first stage", "E first and once");
    if (s.loss != (i + 1 == layout.size()))
      refuse(s.loss ? "a loss before the last stage" : "a last stage without loss", "L last and once");
    if (depths && s.layers > 0) refuse("a layer behind multi-token prediction", "m behind every t");
    if (depths && s.depths > 0) refuse("multi-token prediction on two stages", "every m on one stage");
    depths = depths || s.depths > 0;
  }
}

PipelineLayout read_list(const json& value, const std::string& where) {
  if (value.size() > kMostOfLayout)
    fail(ErrorKind::bad_input, where, "too long, got {} stages, need at most {}", value.size(), kMostOfLayout);
  if (value.empty()) fail(ErrorKind::bad_input, where, "no stages, got [], need a list of lists");
  PipelineLayout layout;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    if (!value[i].is_array())
      fail(ErrorKind::bad_input, at, "wrong type, got {}, need a list of embedding, decoder, mtp and loss",
           short_json(value[i]));
    if (parts += value[i].size(); parts > kMostOfLayout)
      fail(ErrorKind::bad_input, where, "too long, got {} parts, need at most {}", parts, kMostOfLayout);
    std::string letters;
    for (std::size_t j = 0; j < value[i].size(); ++j) {
      std::string word = value[i][j].is_string() ? value[i][j].get<std::string>() : "";
      word.erase(0, word.find_first_not_of(" \t\n"));
      word.erase(word.find_last_not_of(" \t\n") + 1);
      std::string lower = word;
      std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const auto found = std::ranges::find_if(
          kWords, [&](const auto& w) { return w.first == lower || word == std::string_view(&w.second, 1); });
      if (found == kWords.end())
        fail(ErrorKind::bad_input, fmt::format("{}[{}]", at, j),
             "no such part, got {}, need embedding, decoder, mtp or loss", short_json(value[i][j]));
      letters += found->second;
    }
    layout.push_back(stage_of(letters, at));
  }
  check(layout, where);
  return layout;
}

std::string read_layout(const json& value, const std::string& where) {
  if (value.is_array()) return str(read_list(value, where));
  if (!value.is_string())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need a text or a list of lists", short_json(value));
  const std::string& text = value.get_ref<const std::string&>();
  return text.empty() ? text : str(parse_pipeline_layout(text, where));  // empty: as a point writes that there is none
}

// A run of one letter.
std::string run_of(char letter, std::int64_t n) {
  return n > 2 ? fmt::format("{}*{}", letter, n) : std::string(static_cast<std::size_t>(n), letter);
}

std::string str(const StageParts& s) {
  return (s.embedding ? "E" : "") + run_of('t', s.layers) + run_of('m', s.depths) + (s.loss ? "L" : "");
}

}  // namespace

PipelineLayout parse_pipeline_layout(std::string_view text, const std::string& where) {
  const Unrolled unrolled(text, where);
  PipelineLayout layout;
  std::string_view left = unrolled.text();
  while (true) {
    const std::size_t end = std::min(left.find('|'), left.size());
    layout.push_back(stage_of(left.substr(0, end), where));
    if (end == left.size()) break;
    left.remove_prefix(end + 1);
  }
  check(layout, where);
  return layout;
}

std::string str(const PipelineLayout& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.size();) {
    std::size_t same = i;
    while (same + 1 < layout.size() && layout[same] == layout[i]) ++same;  // the last one has no | behind it
    const std::string one = str(layout[i]);
    if (same - i > 2) {
      text += fmt::format("({}|)*{}", one, same - i);
      i = same;
      continue;
    }
    text += one;
    if (++i < layout.size()) text += '|';
  }
  return text;
}

std::int64_t layers_of(const PipelineLayout& layout) {
  std::int64_t n = 0;
  for (const StageParts& s : layout) n += s.layers;
  return n;
}

std::int64_t depths_of(const PipelineLayout& layout) {
  std::int64_t n = 0;
  for (const StageParts& s : layout) n += s.depths;
  return n;
}

PipelineLayout even_layout(std::int64_t layers, std::int64_t depths, std::int64_t stages, EndsCount ends) {
  PipelineLayout layout(static_cast<std::size_t>(stages));
  // The first layer of a stage, or of all that follow the last one.
  const auto first_layer = [&](std::int64_t stage) {
    return std::clamp<std::int64_t>(stage * (layers + depths + ends.embedding + ends.loss) / stages - ends.embedding, 0,
                                    layers);
  };
  for (std::int64_t i = 0; i < stages; ++i)
    layout[static_cast<std::size_t>(i)].layers =
        (i + 1 == stages ? layers : first_layer(i + 1)) - (i == 0 ? 0 : first_layer(i));
  layout.front().embedding = layout.back().loss = true;
  layout.back().depths = depths;
  return layout;
}

bool is_layout_list(const nlohmann::ordered_json& value) {
  const auto holds = [](const nlohmann::ordered_json& list, auto&& kind) {
    return std::all_of(list.begin(), list.end(), kind);
  };
  return value.is_array() && !value.empty() && holds(value, [&](const nlohmann::ordered_json& stage) {
           return stage.is_array() && holds(stage, [](const nlohmann::ordered_json& part) { return part.is_string(); });
         });
}

FieldValues<std::string (*)(const json&, const std::string&)> pipeline_layout_values() {
  nlohmann::ordered_json part = {{"type", "string"}}, stage = {{"type", "array"}, {"items", part}};
  return {read_layout, any_of({{"type", "string"}, {"pattern", "^[EtmL|()*0-9,]*$"}},
                              {{"type", "array"}, {"minItems", 1}, {"items", stage}})};
}

}  // namespace mbench
