#include "formats/megatron/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "engine/base/error.h"

namespace mbench::formats {
namespace {

struct Flag {
  std::string key;
  std::vector<ShellWord> values;
  int line = 0;
};

bool is_flag(const ShellWord& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && std::isalpha(static_cast<unsigned char>(word.text[2]));
}

// Numbers as numbers.
json typed(const std::string& text) {
  if (text == "True" || text == "true") return true;
  if (text == "None") return nullptr;
  std::int64_t whole = 0;
  const char *begin = text.data(), *end = begin + text.size();
  if (const auto [last, error] = std::from_chars(begin, end, whole); error == std::errc{} && last == end) return whole;
  char* stop = nullptr;
  const double number = std::strtod(text.c_str(), &stop);
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (plain && stop == text.c_str() + text.size() && std::isfinite(number)) return number;
  return text;
}

std::vector<Flag> flags_of(const std::vector<ShellWord>& words, std::size_t from, const std::string& file) {
  std::vector<Flag> flags;
  for (std::size_t i = from; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    if (is_flag(word)) {
      const std::size_t equals = word.text.find('=');
      flags.push_back({word.text.substr(0, equals), {}, word.line});
      if (equals != std::string::npos) {
        ShellWord value = word;
        value.text = word.text.substr(equals + 1);
        flags.back().values.push_back(value);
      }
      std::replace(flags.back().key.begin(), flags.back().key.end(), '_', '-');
    } else if (!flags.empty()) {
      flags.back().values.push_back(word);
    } else if (!word.unknown.empty()) {
      fail(ErrorKind::bad_input, fmt::format("{}:{}", file, word.line),
           "{}, need its value: mbench import ... --var NAME=VALUE", word.unknown);
    }
  }
  return flags;
}

bool names_megatron(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return word.text == "--num-layers" || word.text == "--micro-batch-size" ||
           word.text == "--tensor-model-parallel-size" || word.text == "--hidden-size" ||
           word.text.starts_with("--num-layers=");
  });
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// How many ranks a launcher starts: processes of a node times nodes.
class Launch {
 public:
  Launch(const std::vector<ShellWord>& words, std::string_view text) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = base_name(words[i].text);
      torchrun_ = torchrun_ || name == "torchrun" || name == "torch.distributed.run" ||
                  name == "torch.distributed.launch" || name == "ft_launcher";
      take(words, i);
    }
    for (std::size_t at = text.find("#SBATCH"); at != std::string_view::npos; at = text.find("#SBATCH", at + 1))
      header(text.substr(at + 7, std::min(text.find('\n', at), text.size()) - at - 7));
  }

  // Why it is not known, or nothing.
  std::optional<std::int64_t> ranks(std::string& why) const {
    if (const auto all = known("ntasks", why); all && !torchrun_) return all;
    const auto one = known(torchrun_ ? "nproc-per-node" : "ntasks-per-node", why);
    auto nodes = known("nnodes", why);
    if (!nodes && why.empty()) nodes = 1;
    if (!one || !nodes) return std::nullopt;
    return *one * *nodes;
  }

 private:
  void set(std::string key, const ShellWord& value) {
    std::replace(key.begin(), key.end(), '_', '-');
    if (key == "nodes" || key == "N") key = "nnodes";
    if (key == "n") key = "ntasks";
    values_[key] = value;
  }
  void take(const std::vector<ShellWord>& words, std::size_t i) {
    std::string text = words[i].text;
    if (!text.starts_with('-')) return;
    text.erase(0, text.find_first_not_of('-'));
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      ShellWord value = words[i];
      value.text = text.substr(equals + 1);
      set(text.substr(0, equals), value);
    } else if (i + 1 < words.size()) {
      set(text, words[i + 1]);
    }
  }
  void header(std::string_view line) {
    const std::size_t begin = line.find("-");
    if (begin == std::string_view::npos) return;
    line = line.substr(begin);
    const std::size_t apart = line.find_first_of("= \t");
    if (apart == std::string_view::npos) return;
    const std::size_t value = line.find_first_not_of("= \t", apart), last = line.find_first_of(" \t#\r", value);
    if (value == std::string_view::npos) return;
    std::string key(line.substr(0, apart));
    key.erase(0, key.find_first_not_of('-'));
    const ShellWord word{std::string(line.substr(value, last - value)), "", false, 0};
    if (!values_.contains(key)) set(key, word);
  }
  std::optional<std::int64_t> known(const std::string& key, std::string& why) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    const json value = typed(found->second.text);
    if (found->second.unknown.empty() && value.is_number_integer() && value > 0 && value <= 1 << 24)
      return value.get<std::int64_t>();
    why = found->second.unknown.empty() ? fmt::format("--{} {}", key, found->second.text) : found->second.unknown;
    return std::nullopt;
  }

  bool torchrun_ = false;
  std::map<std::string, ShellWord> values_;
};

std::map<std::string, std::string> variables_of(const std::vector<std::string>& assignments) {
  std::map<std::string, std::string> all;
  for (const std::string& text : assignments) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorKind::bad_input, "--var", "no variable, got \"{}\", need NAME=VALUE", text);
    all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

// A list of arguments, one or several a line, is one command.
ShellCommand command_of(std::string_view text, const std::string& file, const ImportOptions& options) {
  std::vector<ShellCommand> commands = shell_commands(text, file, variables_of(options.variables)), found;
  ShellCommand list;
  const bool bare = !commands.empty() && is_flag(commands.front().words.front());
  for (ShellCommand& command : commands)
    if (bare)
      list.words.insert(list.words.end(), command.words.begin(), command.words.end());
    else if (names_megatron(command))
      found.push_back(std::move(command));
  if (bare) return list;
  if (found.empty()) {
    std::string why;
    for (const ShellCommand& command : commands)
      for (const ShellWord& word : command.words)
        if (const bool starts = std::any_of(command.words.begin(), command.words.end(),
                                            [](const ShellWord& each) { return each.text.ends_with(".py"); });
            starts && why.empty() && word.text.empty())
          why = word.unknown;
    fail(ErrorKind::bad_input, file,
         "no command has Megatron's arguments, need one with --num-layers, --micro-batch-size and others{}{}",
         why.empty() ? "" : "; what is not known: ", why);
  }
  if (found.size() > 1)
    fail(ErrorKind::bad_input, fmt::format("{}:{}", file, found[1].line),
         "a second command with Megatron's arguments, the first is on line {}, need one", found[0].line);
  return found.front();
}

// Whether the value says something that the spec has.
bool matters(const Table& table, const std::string& key) {
  return table.find(key) || !(table.ignores(key) || table.leaves_unsaid(key));
}

}  // namespace

Arguments megatron_arguments(std::string_view text, const std::string& file, const Table& table,
                             const ImportOptions& options) {
  ShellCommand command = command_of(text, file, options);
  Arguments all;
  std::vector<ShellWord>& words = command.words;
  const auto script = std::find_if(words.begin(), words.end(),
                                   [](const ShellWord& word) { return word.text.ends_with(".py") && !is_flag(word); });
  std::size_t from = 0;
  if (script != words.end()) {
    from = static_cast<std::size_t>(script - words.begin()) + 1;
    std::string name = base_name(script->text);
    if (name != "pretrain_gpt.py" && name != "pretrain_bert.py") {
      all.notes.push_back(fmt::format("{} is read as pretrain_gpt.py", name));
      name = "pretrain_gpt.py";
    }
    all.items.push_back({"script", name, fmt::format("{}:{}", file, script->line)});
    std::string why;
    const Launch launch({words.begin(), script}, text);
    if (const auto ranks = launch.ranks(why))
      all.items.push_back({"ranks", *ranks, fmt::format("{}:{}", file, command.line)});
    else if (!why.empty())
      all.notes.push_back(fmt::format("how many ranks start is not known: {}", why));
  }
  for (const std::string& more : options.also)
    for (const ShellCommand& each : shell_commands(more, "--also", {}))
      words.insert(words.end(), each.words.begin(), each.words.end());
  for (const Flag& flag : flags_of(words, from, file)) {
    json value = json::array();
    for (const ShellWord& word : flag.values) {
      const bool own = &word == &flag.values.front();
      if (!word.unknown.empty() && (matters(table, flag.key) || !own))
        fail(ErrorKind::bad_input, fmt::format("{}:{}", file, word.line ? word.line : flag.line),
             "{} {}: {}, need its value: mbench import ... --var NAME=VALUE", flag.key,
             own ? "" : "and what follows it", word.unknown);
      value.push_back(typed(word.text));
    }
    if (value.empty()) value = true;
    if (value.is_array() && value.size() == 1) value = json(value[0]);
    all.items.push_back({flag.key, value, fmt::format("{}:{}", file, flag.line ? flag.line : command.line)});
  }
  return all;
}

}  // namespace mbench::formats
