#include "engine/base/json_reader.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>

#include "engine/base/controls.h"

namespace mbench {
namespace {

using nlohmann::ordered_json;

// Follows the parser through the text and refuses what the parser would take. Of a key that stands twice nlohmann keeps the
// last without a word, and which of two tp's counts must never be a guess.
class Refusals {
 public:
  explicit Refusals(const std::string& file) : file_(file) {}
  bool operator()(int depth, ordered_json::parse_event_t event, ordered_json& value) {
    using Event = ordered_json::parse_event_t;
    switch (event) {
      case Event::object_start:
        check_depth(depth);
        levels_.push_back({});
        break;
      case Event::array_start:
        check_depth(depth);
        break;
      case Event::object_end:
        levels_.pop_back();
        break;
      case Event::key: {
        const auto key = value.get<std::string>();
        check_text(key);
        if (!levels_.back().seen.insert(key).second) refuse("the key \"{}\" stands twice, need it once", key);
        if (levels_.back().seen.size() > kMostKeys) refuse("an object of more than {} keys, need fewer", kMostKeys);
        levels_.back().key = key;
        break;
      }
      case Event::value:
        if (value.is_string()) check_text(value.get_ref<const std::string&>());
        break;
      default:
        break;
    }
    return true;
  }

 private:
  struct Level {
    std::set<std::string> seen;
    std::string key;
  };
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_input, file_ + ": " + path(), format, std::forward<Args>(args)...);
  }
  void check_depth(int depth) const {
    if (depth >= static_cast<int>(kMostDepth)) refuse("nested more than {} deep, need less", kMostDepth);
  }
  void check_text(const std::string& text) const {
    if (text.find('\0') != std::string::npos)
      refuse("a text with a U+0000, got {}, need one without", short_json(text));
  }
  std::string path() const {
    std::string path = "$";
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) path += "." + levels_[i].key;
    return path;
  }
  const std::string& file_;
  std::vector<Level> levels_;
};

}  // namespace

// simdjson reads beyond the end of a text, and copies one that has no room there.
constexpr std::size_t kRoomBehind = 64;  // simdjson::SIMDJSON_PADDING

std::string read_text_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  // In one go where the size is known beforehand, as it is of a file.
  std::error_code unknown;
  const auto expected = std::filesystem::file_size(path, unknown);
  const auto too_large = [&] {
    fail(ErrorKind::bad_input, path, "more than {}, need a smaller file", format_bytes(kMostFileBytes));
  };
  if (!unknown && expected > kMostFileBytes) too_large();
  std::size_t block = unknown ? 1 << 16 : static_cast<std::size_t>(expected) + 1;
  text.reserve(block + kRoomBehind);
  while (in) {
    const std::size_t size = text.size();
    text.resize(size + std::exchange(block, 1 << 16));
    in.read(text.data() + size, static_cast<std::streamsize>(text.size() - size));
    text.resize(size + static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostFileBytes) too_large();  // a device has no size beforehand
  }
  if (!in.is_open() || in.bad())
    fail(ErrorKind::bad_input, path, "cannot be read: {}", errno ? std::strerror(errno) : "not a file");
  return text;
}

// What JSON would have there: `text` from the place on that was not understood, behind `before`.
static std::string_view wanted(std::string_view text, std::string_view before) {
  const auto begins = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.starts_with(word); });
  };
  before = before.substr(0, before.find_last_not_of(" \t\r\n") + 1);
  if (begins({"//", "/*", "#"})) return "JSON, which has no comments";
  if (begins({"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"}))
    return "a number or null: JSON has no NaN and no infinity";
  if (begins({"True", "False", "None"})) return "true, false or null";
  if (begins({"'"})) return "a string between double quotes";
  if (begins({"}", "]"}) && before.ends_with(',')) return "another value, or no comma before it";
  if (before.ends_with('}') && before.find_first_of("{") == 0) return "one JSON value and nothing behind it";
  return "JSON";
}

ordered_json parse_json(std::string_view text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    fail(ErrorKind::bad_input, file, "the file is empty, need JSON");
  try {
    return ordered_json::parse(text.begin(), text.end(), Refusals(file));
  } catch (const ordered_json::parse_error& e) {
    // byte counts from 1 and is one past the text when that ends too early.
    const std::size_t byte = std::min<std::size_t>(e.byte == 0 ? 0 : e.byte - 1, text.size());
    if (byte >= text.size())
      fail(ErrorKind::bad_input, file, "cut short: the file ends at byte {} in the middle of its JSON", text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
    fail(ErrorKind::bad_input, file, "not JSON at byte {} (line {}), got {}, need {}", byte, line,
         short_json(std::string(text.substr(byte, 20))), wanted(text.substr(byte), text.substr(0, byte)));
  } catch (const nlohmann::json::out_of_range& e) {  // "number overflow parsing '1e999'"
    const std::string_view what = e.what();
    const std::size_t quote = what.find('\'');
    fail(ErrorKind::bad_input, file, "a number that is too large, got {}, need at most {}",
         quote == std::string_view::npos ? what : what.substr(quote + 1, what.size() - quote - 2),
         std::numeric_limits<double>::max());
  }
}

// Of JSON's text: DEL and C1, which JSON lets stand in its strings and terminals obey, as JSON escapes. What is read is the same.
static std::string escape_controls(std::string text) {
  if (text.find_first_of("\x7F\xC2") == std::string::npos) return text;
  std::string out;
  out.reserve(text.size() + 64);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t length = text[i] == '\n' ? 0 : control_length(text, i);
    if (length == 0) {
      out += text[i];
      continue;
    }
    i += length - 1;
    out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[i]));
  }
  return out;
}

std::string dump_json(const ordered_json& json) {
  return escape_controls(json.dump(2, ' ', false, ordered_json::error_handler_t::replace)) + "\n";
}

std::string short_json(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string word_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::int64_t read_int(const nlohmann::json& value, const std::string& where, std::int64_t low, std::int64_t high) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    fail(ErrorKind::bad_input, where, "{}, got {}, need a whole number from {} to {}",
         value.is_number_integer() ? "out of range" : "wrong type", short_json(value), low, high);
  return value.get<std::int64_t>();
}

std::uint64_t read_uint(const nlohmann::json& value, const std::string& where) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0))
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need a whole number from 0 to {}", short_json(value),
         std::numeric_limits<std::uint64_t>::max());
  return value.get<std::uint64_t>();
}

double read_number(const nlohmann::json& value, const std::string& where, double low, double high) {
  const bool number = value.is_number();
  const double x = number ? value.get<double>() : 0;
  if (!number || !std::isfinite(x) || x < low || x > high) {
    const bool open = high == std::numeric_limits<double>::max();
    fail(ErrorKind::bad_input, where, "{}, got {}, need a number {}", number ? "out of range" : "wrong type",
         short_json(value), open ? fmt::format("of {} or more", low) : fmt::format("from {} to {}", low, high));
  }
  return x;
}

bool read_bool(const nlohmann::json& value, const std::string& where) {
  if (!value.is_boolean())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need true or false", short_json(value));
  return value.get<bool>();
}

std::string read_string(const nlohmann::json& value, const std::string& where) {
  if (!value.is_string()) fail(ErrorKind::bad_input, where, "wrong type, got {}, need a string", short_json(value));
  return value.get<std::string>();
}

ObjectReader::ObjectReader(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail(ErrorKind::bad_input, where_, "wrong type, got {}, need an object", short_json(object));
}

const nlohmann::json* ObjectReader::find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

const nlohmann::json& ObjectReader::require(const std::string& key, std::string_view need) {
  if (const nlohmann::json* value = find(key)) return *value;
  fail(ErrorKind::bad_input, where_, "\"{}\" is missing, need {}", key, need);
}

void ObjectReader::refuse_unknown() const {
  for (const auto& [key, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      fail(ErrorKind::bad_input, path(key), "unknown key, got \"{}\", {}", key, nearest_choice(key, known_));
}

}  // namespace mbench
