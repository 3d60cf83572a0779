// Reads JSON that people write. Every refusal names the file and the JSON path, what was found and what would be right. `where` is always
// "file: $.path"; a reader of an array or object passes on the longer path.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {

// The most that a reader takes, so that no foreign file makes it run out of memory, stack or time.
constexpr std::size_t kMostFileBytes = std::size_t{512} << 20;
constexpr std::size_t kMostDepth = 100;    // of arrays and objects inside each other
constexpr std::size_t kMostKeys = 10'000;  // of one object

// The bytes of a file; bad_input if it cannot be read, or has more than kMostFileBytes.
std::string read_text_file(const std::string& path);

// Parses a whole text. bad_input naming the byte or path for a text that is empty, cut short, not JSON or beyond the limits above. The same
// for a key that stands twice, and for a U+0000 in a string: most programs take it for the string's end.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& file);

// Two spaces of indent and a final newline. Bytes that are not UTF-8 (a log line quoted in a reason) are replaced.
std::string dump_json(const nlohmann::ordered_json& json);

// A value as a message quotes it: at most 60 characters of its JSON.
std::string short_json(const nlohmann::json& value);

// A text as it is, and anything else as its JSON.
std::string word_of(const nlohmann::json& value);

std::int64_t read_int(const nlohmann::json& value, const std::string& where, std::int64_t low, std::int64_t high);
std::uint64_t read_uint(const nlohmann::json& value, const std::string& where);
double read_number(const nlohmann::json& value, const std::string& where, double low = 0,
                   double high = std::numeric_limits<double>::max());
bool read_bool(const nlohmann::json& value, const std::string& where);
std::string read_string(const nlohmann::json& value, const std::string& where);

// The names of an enumeration, in the order in which messages list them.
template <class Enum, std::size_t N>
using Choices = std::array<std::pair<std::string_view, Enum>, N>;

template <class Enum, std::size_t N>
Enum read_choice(const nlohmann::json& value, const std::string& where, const Choices<Enum, N>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) {
    if (value.is_string() && value.get_ref<const std::string&>() == name) return choice;
    names.emplace_back(name);
  }
  fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
       nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
}

template <class Enum, std::size_t N>
std::string_view choice_name(Enum value, const Choices<Enum, N>& choices) {
  for (const auto& [name, choice] : choices)
    if (choice == value) return name;
  fail(ErrorKind::internal, "choice_name", "value {} has no name", static_cast<int>(value));
}

// An object whose keys are all accounted for: a key that was never asked for is unknown.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string where);
  // The value of a key, or null if it is missing.
  const nlohmann::json* find(const std::string& key);
  // The same, but bad_input if it is missing; `need` says what should be there.
  const nlohmann::json& require(const std::string& key, std::string_view need);
  std::string path(const std::string& key) const { return where_ + "." + key; }
  // bad_input for the first key that nobody asked for, with the nearest key that somebody did.
  void refuse_unknown() const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace mbench
