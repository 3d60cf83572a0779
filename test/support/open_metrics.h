// A reader of OpenMetrics text as strict as its grammar (OpenMetrics 1.0, "Text format" and "Overall structure"). It reads the types
// that mbench writes: gauge, counter, info. What breaks a rule is reported with its line.
#pragma once
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace mbench::test {

struct OpenMetric {
  std::string name;  // of the sample, its suffix in
  std::map<std::string, std::string> labels;
  double value = 0;
};

class OpenMetrics {
 public:
  static std::vector<OpenMetric> read(const std::string& text) { return OpenMetrics(text).samples_; }

 private:
  explicit OpenMetrics(const std::string& text) {
    need(!text.empty() && text.back() == '\n', "ends with a line feed");
    std::size_t begin = 0;
    bool eof = false;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      need(!eof, "nothing after # EOF");
      line_ = text.substr(begin, end - begin);
      need(!line_.empty(), "no empty lines");
      need(line_.find('\r') == std::string::npos, "no carriage returns");
      if (line_ == "# EOF")
        eof = true;
      else if (line_[0] == '#')
        take_head();
      else
        take_sample();
    }
    line_ = "(end)";
    need(eof, "ends with # EOF");
  }

  void need(bool holds, const std::string& rule) const {
    if (!holds) throw std::runtime_error("OpenMetrics: " + rule + ", got: " + line_);
  }
  static bool is_name(const std::string& text, bool label) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
    for (const char c : text)
      if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c == ':' && !label))) return false;
    return true;
  }

  // "# TYPE name type", "# UNIT name unit", "# HELP name text"
  void take_head() {
    const std::string kind = line_.substr(0, 7);
    need(kind == "# TYPE " || kind == "# UNIT " || kind == "# HELP ", "a comment is TYPE, UNIT or HELP");
    const std::size_t blank = line_.find(' ', 7);
    need(blank != std::string::npos, "a name and what is said of it, with one blank between");
    const std::string name = line_.substr(7, blank - 7), rest = line_.substr(blank + 1);
    need(is_name(name, false), "a name of a family");
    if (name != family_) {
      need(families_.insert(name).second, "families do not interleave");
      family_ = name;
      type_ = "unknown";
      said_.clear();
      seen_.clear();
    }
    need(seen_.empty(), "what is said of a family stands before its samples");
    need(said_.insert(kind).second, "each is said once");
    if (kind == "# TYPE ") {
      need(rest == "gauge" || rest == "counter" || rest == "info", "a type that is known here");
      type_ = rest;
    } else if (kind == "# UNIT ") {
      need(is_name(rest, false), "a unit");
      need(name.ends_with("_" + rest), "a unit is the end of the name");
      need(type_ != "info", "an info has no unit");
    } else {
      for (std::size_t i = 0; i < rest.size(); ++i) {
        need(rest[i] != '"', "no quotes in help unless escaped");
        if (rest[i] == '\\')
          need(i + 1 < rest.size() && std::string("n\\\"").find(rest[++i]) != std::string::npos, "an escape");
      }
    }
  }

  // name{label="value",...} number
  void take_sample() {
    OpenMetric sample;
    std::size_t at = line_.find_first_of("{ ");
    need(at != std::string::npos, "a value");
    sample.name = line_.substr(0, at);
    const std::string suffix = type_ == "counter" ? "_total" : type_ == "info" ? "_info" : "";
    need(sample.name == family_ + suffix, "a sample has its family's name and the suffix of its type");
    std::string key = sample.name;
    if (line_[at] == '{') {
      ++at;
      while (line_.at(at) != '}') {
        const std::size_t equals = line_.find('=', at);
        need(equals != std::string::npos, "a label and its value");
        const std::string label = line_.substr(at, equals - at);
        need(is_name(label, true), "a name of a label");
        need(line_.at(equals + 1) == '"', "a value in quotes");
        std::string value;
        for (at = equals + 2; line_.at(at) != '"'; ++at) {
          if (line_[at] != '\\') {
            value += line_[at];
            continue;
          }
          const char next = line_.at(++at);
          need(next == 'n' || next == '\\' || next == '"', "an escape");
          value += next == 'n' ? '\n' : next;
        }
        need(sample.labels.emplace(label, value).second, "a label once");
        ++at;
        if (line_.at(at) == ',') {
          ++at;
          need(line_.at(at) != '}', "no comma after the last label");
        } else {
          need(line_.at(at) == '}', "a comma between labels");
        }
      }
      ++at;
    }
    need(line_.at(at) == ' ', "one blank before the value");
    const std::string number = line_.substr(at + 1);
    char* end = nullptr;
    sample.value = std::strtod(number.c_str(), &end);
    need(!number.empty() && number.find(' ') == std::string::npos && end == number.c_str() + number.size(), "a number");
    if (type_ == "counter") need(sample.value >= 0, "a counter is not below 0");
    if (type_ == "info") need(sample.value == 1, "an info is 1");
    for (const auto& [label, value] : sample.labels) key += "," + label + "=" + value;
    need(seen_.insert(key).second, "a sample once");
    samples_.push_back(std::move(sample));
  }

  std::string line_, family_, type_;
  std::set<std::string> families_, said_, seen_;
  std::vector<OpenMetric> samples_;
};

}  // namespace mbench::test
