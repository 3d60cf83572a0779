// Reads JSON quickly, where it is plain: what mbench itself writes. A result file of many points is mostly
// numbers, and a general parser takes seconds over them. Anything unusual (a mistake, a key that stands
// twice, a number too large, deep nesting) makes a function here return false; parse_json then reads the same
// text and says what is wrong and where, or reads it after all.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mbench {

class FastJson {
 public:
  explicit FastJson(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool value(nlohmann::json& out);
  bool value(nlohmann::ordered_json& out);
  bool string(std::string& out);
  // The next character that is no space, if it is `c`; it is consumed.
  bool take(char c);
  bool at_end();

 private:
  template <class Json>
  bool read(Json& out, int depth);
  template <class Json>
  bool read_object(Json& out, int depth);
  template <class Json>
  bool read_array(Json& out, int depth);
  template <class Json>
  bool read_number(Json& out);
  template <class Json>
  bool read_word(std::string_view word, Json meaning, Json& out);
  void skip_space();

  const char* at_;
  const char* end_;
};

}  // namespace mbench
