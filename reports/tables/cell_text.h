// The text of a heading, label or cell, with values in it: "{tp}-way Tensor Parallelism", "{samples_per_s:2} +/-
// {samples_per_s.stddev:2}". Grammar:
//
//   {name}                  The value; a number that is no integer gets 3 significant digits, as {name:3s}.
//   {name*2} {name/1024}    Scaled by a constant.
//   {name:2}                Two decimals.
//   {name:4s}               As many decimals as give the smallest value of the column 4 significant digits.
//
//   {name:3g} {name:3g1-2}  Each value by itself with 3 significant digits, if that takes 1 to 2 decimals.
//   {name:,0} {name:+1}     With thousands separators; with the sign of values above zero too.
//   [ ... ]                 Vanishes when a value in it is null or its text is empty.
//   {{ }} [[ ]]             The characters themselves.
//
// Decimals of {..s} are those of all records of the report, so a column of numbers lines up.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reports/records/record.h"

namespace mbench::reports {

class CellText {
 public:
  struct Part {
    std::string literal;  // or, where a name is given, a value:
    std::string name;
    double scale = 1;
    bool thousands = false;
    bool sign = false;
    enum class Digits { decimals, column, each } mode = Digits::column;
    int digits = 3;
    int least = 0, most = 6;  // decimals, unless they are given
    int group = 0;            // of [ ]; 0: none
  };

  // `where` names the place for messages about the grammar.
  static CellText parse(std::string_view text, std::string_view where);
  const std::vector<Part>& parts() const { return parts_; }
  std::vector<std::string> names() const;

 private:
  std::vector<Part> parts_;
};

// field -> value's text -> what to print instead
using Labels = std::map<std::string, std::map<std::string, std::string>>;

class Formatter {
 public:
  explicit Formatter(const std::vector<const Record*>& records) : records_(records) {}
  // All values null: "n/a".
  std::string format(const CellText& text, const Record& record, const Labels& labels);
  std::string number(double value, const CellText::Part& part);
  // One number, which no record has, in every value of `text`.
  std::string number(double value, const CellText& text);

 private:
  int decimals(double value, const CellText::Part& part);
  const std::vector<const Record*>& records_;
  std::map<std::tuple<std::string, double, int>, int> decimals_;  // name, scale, digits
};

std::string with_thousands(const std::string& digits);

}  // namespace mbench::reports
