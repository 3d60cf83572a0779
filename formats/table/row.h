// A trainer's config as a table: each row is one of its keys, the field of a spec for it, and the mapping of its values. Import and
// export both use it. The tables are JSON files (formats/*/*.json), so a key is one line there. What a single key cannot express is a
// rule (rules.h).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mbench::formats {

using nlohmann::json;
using nlohmann::ordered_json;

struct Row {
  std::string key;                            // "num_hidden_layers", "--num-layers"
  std::vector<std::string> also;              // its other spellings, older or newer; export writes `key`
  std::string field;                          // "tp", "model.norm"; empty: nothing of a spec
  std::vector<std::pair<json, json>> values;  // theirs, ours; empty: they are the same
  json absent;                                // theirs, where the key is not given
  bool required = false;                      // there is no default
  bool always = false;                        // export writes it, at its default too
  bool adds = false;                          // its names join those that other rows of the field say
  std::vector<json> only;                     // without a field: what mbench can do, the first one for export
  std::string why;                            // of `only`: what another value is
};

// A feature that mbench does not model and that no key names: "gptj" always has it.
struct Lack {
  std::string name, why;
};

struct Table {
  std::string name;                                 // of its file
  std::string source;                               // where keys and defaults stand
  std::vector<std::pair<std::string, json>> fixed;  // fields that the trainer always has so
  std::vector<Row> rows;
  std::vector<std::string> rules;    // by name, in order, after the rows
  std::vector<std::string> ignored;  // keys without meaning for cost; "--log-*": all that begin so
  std::vector<std::string> unsaid;   // keys of cost that no field of a spec says: it is forecast as without them
  std::vector<Lack> lacks;
  std::vector<std::string> types;  // Hugging Face's model_type
  std::string classifier;          // Hugging Face's class that labels samples; empty: none
  bool reads_only = false;         // for export only where no other table says the model

  bool ignores(std::string_view key) const;
  bool leaves_unsaid(std::string_view key) const;
  const Row* find(std::string_view key) const;  // by any spelling
};

// Reads a table. `find` gives the text of another by its name, for a table that is "like" it except for its own rows.
Table read_table(std::string_view name, const std::vector<std::pair<std::string_view, std::string_view>>& files);

// The trainer's value as mbench's, and the inverse; null where the row has no such value.
const json* ours_of(const Row& row, const json& theirs);
const json* theirs_of(const Row& row, const json& ours);

}  // namespace mbench::formats
