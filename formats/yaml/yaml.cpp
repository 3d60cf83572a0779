#include "formats/yaml/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench::formats {
namespace {

using nlohmann::ordered_json;

struct YamlMember;
struct YamlNode {
  enum class Kind { scalar, sequence, mapping } kind = Kind::scalar;
  ordered_json scalar;
  std::vector<YamlMember> members;  // of a sequence without their names
  int line = 0;
  std::size_t size = 1;  // nodes within, and itself
};
struct YamlMember {
  YamlMember(std::string name, YamlNode value) : first(std::move(name)), second(std::move(value)) {}
  std::string first;
  YamlNode second;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// What a plain word is.
ordered_json typed_word(const std::string& text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) return false;
  std::string digits = text;
  std::erase(digits, '_');
  const char *begin = digits.data() + (digits[0] == '+' ? 1 : 0), *end = digits.data() + digits.size();
  std::int64_t whole = 0;
  if (const auto [last, error] = std::from_chars(begin, end, whole); error == std::errc{} && last == end) return whole;
  const bool plain = digits.find_first_not_of("0123456789.eE+-") == std::string::npos &&
                     digits.find_first_of("0123456789") != std::string::npos;
  char* stop = nullptr;
  const double number = std::strtod(digits.c_str(), &stop);
  if (plain && *stop == '\0' && std::isfinite(number)) return number;
  return text;
}

class YamlParser {
 public:
  YamlParser(std::string_view text, const std::string& file) : file_(file) {
    if (!yaml_parser_initialize(&parser_)) fail(ErrorKind::internal, file, "no memory for a parser");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlParser() { yaml_parser_delete(&parser_); }
  YamlParser(const YamlParser&) = delete;
  YamlParser& operator=(const YamlParser&) = delete;

  YamlNode read() {
    expect(YAML_STREAM_START_EVENT);
    Event event = next();
    if (event->type == YAML_STREAM_END_EVENT) return {};
    if (event->type != YAML_DOCUMENT_START_EVENT) wrong(*event, "a document");
    Event first = next();
    YamlNode root = node(std::move(first), 0);
    expect(YAML_DOCUMENT_END_EVENT);
    if (event = next(); event->type != YAML_STREAM_END_EVENT)
      fail(ErrorKind::bad_input, at(line_of(*event)), "a second document begins, need a file of one");
    return root;
  }

 private:
  struct Delete {
    void operator()(yaml_event_t* event) const {
      yaml_event_delete(event);
      delete event;
    }
  };
  using Event = std::unique_ptr<yaml_event_t, Delete>;

  static int line_of(const yaml_event_t& event) { return static_cast<int>(event.start_mark.line) + 1; }
  std::string at(int line) const { return fmt::format("{}:{}", file_, line); }
  [[noreturn]] void wrong(const yaml_event_t& event, const char* need) const {
    fail(ErrorKind::bad_input, at(line_of(event)), "not YAML here, need {}", need);
  }

  Event next() {
    auto raw = std::make_unique<yaml_event_t>();
    *raw = yaml_event_t{};
    if (!yaml_parser_parse(&parser_, raw.get()))
      fail(ErrorKind::bad_input, at(static_cast<int>(parser_.problem_mark.line) + 1), "not YAML: {}",
           parser_.problem ? parser_.problem : "it cannot be read");
    return Event(raw.release());
  }
  void expect(yaml_event_type_t type) {
    const Event event = next();
    if (event->type != type) wrong(*event, "one document");
  }

  void count(std::size_t nodes, int line) {
    nodes_ += nodes;
    if (nodes_ > kMostYamlNodes)
      fail(ErrorKind::bad_input, at(line), "more than {} values, with those that aliases repeat, need a config",
           kMostYamlNodes);
  }

  static std::string text_of(const unsigned char* text) { return text ? reinterpret_cast<const char*>(text) : ""; }

  void remember(const std::string& anchor, const YamlNode& value) {
    if (anchor.empty()) return;
    count(value.size, value.line);  // it is kept once more
    anchors_[anchor] = value;
  }

  // The node that begins with the event.
  YamlNode node(Event event, std::size_t depth) {
    const int line = line_of(*event);
    if (depth > kMostDepth)
      fail(ErrorKind::bad_input, at(line), "more than {} lists and mappings inside each other", kMostDepth);
    count(1, line);
    switch (event->type) {
      case YAML_ALIAS_EVENT:
        return alias(*event);
      case YAML_SCALAR_EVENT:
        return scalar(*event);
      case YAML_SEQUENCE_START_EVENT:
        return sequence(*event, depth);
      case YAML_MAPPING_START_EVENT:
        return mapping(*event, depth);
      default:
        wrong(*event, "a value");
    }
  }

  YamlNode alias(const yaml_event_t& event) {
    const std::string name = text_of(event.data.alias.anchor);
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      fail(ErrorKind::bad_input, at(line_of(event)), "no anchor &{} before it, got *{}", name, name);
    count(found->second.size, line_of(event));
    return found->second;
  }

  YamlNode scalar(const yaml_event_t& event) {
    const auto& raw = event.data.scalar;
    const std::string text(reinterpret_cast<const char*>(raw.value), raw.length);
    if (text.find('\0') != std::string::npos)
      fail(ErrorKind::bad_input, at(line_of(event)), "a character U+0000 in a text");
    const bool plain = raw.style == YAML_PLAIN_SCALAR_STYLE && text_of(raw.tag) != YAML_STR_TAG;
    YamlNode made{YamlNode::Kind::scalar, plain ? typed_word(text) : ordered_json(text), {}, line_of(event), 1};
    remember(text_of(raw.anchor), made);
    return made;
  }

  YamlNode sequence(const yaml_event_t& event, std::size_t depth) {
    YamlNode list{YamlNode::Kind::sequence, nullptr, {}, line_of(event), 1};
    const std::string anchor = text_of(event.data.sequence_start.anchor);
    for (Event each = next(); each->type != YAML_SEQUENCE_END_EVENT; each = next()) {
      list.members.emplace_back("", node(std::move(each), depth + 1));
      list.size += list.members.back().second.size;
    }
    remember(anchor, list);
    return list;
  }

  YamlNode mapping(const yaml_event_t& event, std::size_t depth) {
    YamlNode map{YamlNode::Kind::mapping, nullptr, {}, line_of(event), 1};
    const std::string anchor = text_of(event.data.mapping_start.anchor);
    std::vector<YamlNode> merged;
    for (Event key = next(); key->type != YAML_MAPPING_END_EVENT; key = next()) {
      if (key->type != YAML_SCALAR_EVENT)
        fail(ErrorKind::bad_input, at(line_of(*key)), "a key that is no text, need a name");
      const int line = line_of(*key);
      const std::string name(reinterpret_cast<const char*>(key->data.scalar.value), key->data.scalar.length);
      YamlNode value = node(next(), depth + 1);
      value.line = line;
      map.size += value.size;
      if (name == "<<")
        merged.push_back(std::move(value));
      else
        add(map, name, std::move(value), true);
    }
    for (const YamlNode& each : merged) merge(map, each);
    remember(anchor, map);
    return map;
  }

  void add(YamlNode& map, const std::string& name, YamlNode value, bool own) const {
    const bool known =
        std::any_of(map.members.begin(), map.members.end(), [&](const auto& member) { return member.first == name; });
    if (known && own)
      fail(ErrorKind::bad_input, at(value.line), "the key \"{}\" stands twice, need it once", name.substr(0, 60));
    if (map.members.size() >= kMostKeys)
      fail(ErrorKind::bad_input, at(value.line), "more than {} keys in a mapping", kMostKeys);
    if (!known) map.members.emplace_back(name, std::move(value));
  }
  // Keys of the mapping itself count before merged ones.
  void merge(YamlNode& map, const YamlNode& from) const {
    if (from.kind == YamlNode::Kind::scalar)
      fail(ErrorKind::bad_input, at(from.line), "<< of a value, need an alias of a mapping");
    for (const auto& [name, value] : from.members)
      if (from.kind == YamlNode::Kind::sequence)
        merge(map, value);
      else
        add(map, name, value, false);
  }

  yaml_parser_t parser_{};
  const std::string& file_;
  std::map<std::string, YamlNode> anchors_;
  std::size_t nodes_ = 0;
};

ordered_json json_of(const YamlNode& node, const std::string& path, std::map<std::string, int>& lines) {
  if (node.kind == YamlNode::Kind::scalar) return node.scalar;
  ordered_json all = node.kind == YamlNode::Kind::sequence ? ordered_json::array() : ordered_json::object();
  for (const auto& [name, value] : node.members) {
    if (node.kind == YamlNode::Kind::sequence) {
      all.push_back(json_of(value, path, lines));
      continue;
    }
    const std::string within = path.empty() ? name : path + "." + name;
    lines.emplace(within, value.line);
    all[name] = json_of(value, within, lines);
  }
  return all;
}

}  // namespace

Yaml parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMostYamlBytes)
    fail(ErrorKind::bad_input, file, "a YAML of {} bytes, need {} at most", text.size(), kMostYamlBytes);
  YamlParser parser(text, file);
  Yaml yaml;
  yaml.value = json_of(parser.read(), "", yaml.lines);
  return yaml;
}

}  // namespace mbench::formats
