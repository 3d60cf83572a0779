// From a trainer's config to a spec, by its table: each row, then the rules. What mbench does not model is collected and refused with
// all of its keys and values; no key is dropped silently.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/table/row.h"

namespace mbench::formats {

// A key of a config as it was given.
struct Item {
  std::string key;
  json value;
  std::string where;  // "train.sh:12", "config.json: $.rope_theta"
};

class Reading {
 public:
  // `without`: keys that are treated as absent, and lacks that are ignored.
  Reading(const Table& table, std::vector<Item> items, std::string file, std::vector<std::string> without);

  // The value of a key by any of its row's spellings; null where it is not given. The key then counts as known.
  const Item* find(std::string_view key);
  // Its value, or what the trainer takes where it is not given (its row's, or `absent`).
  json value(std::string_view key, const json& absent = nullptr);
  double number(std::string_view key, const json& absent = nullptr);
  std::int64_t whole(std::string_view key, std::int64_t high, const json& absent = nullptr);  // from 1
  bool flag(std::string_view key) { return value(key, false) == json(true); }
  // How a message quotes a given value, or the default where none was given.
  std::string quoted(std::string_view key, const json& absent = nullptr);
  bool is_without(std::string_view key) const;
  bool is_auto(std::string_view key) const;  // given as "auto": someone else's to say

  void set(std::string_view field, const json& value);  // "model.rope.base"
  std::optional<json> get(std::string_view field) const;
  void lack(std::string_view key, const std::string& why,
            const json& absent = nullptr);  // mbench has no part for its value
  void note(const std::string& text) { notes_.push_back(text); }
  void ignore(std::string_view key);  // known, and without meaning for cost

  // Rows, rules, then what is left. Throws unsupported naming all that mbench lacks.
  void read();

  // How many devices run it; 0: not known.
  std::int64_t devices = 0;

  const Table& table() const { return table_; }
  const std::string& file() const { return file_; }
  const ordered_json& spec() const { return spec_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void read_row(const Row& row);
  void add_names(std::string_view field, const json& names);
  void sort_rest();
  void refuse_lacks() const;  // unsupported, with all of them

  const Table& table_;
  std::vector<Item> items_;
  std::string file_;
  std::vector<std::string> without_;
  ordered_json spec_ = ordered_json::object();
  std::set<std::string, std::less<>> known_, ignored_;
  std::map<std::string, std::string, std::less<>> said_;  // fields, by the row that said each first
  std::vector<std::string> lacks_, notes_;
};

}  // namespace mbench::formats
