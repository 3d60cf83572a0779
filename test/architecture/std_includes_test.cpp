// A header includes what it names of the standard library and of fmt, itself or by headers of the project. A joined build precompiles those
// for header_check, which is then blind to one that is missing.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/catch.h"
#include "test/support/temporary_folder.h"

namespace fs = std::filesystem;

namespace {

struct Need {
  std::vector<std::string> headers;  // one of these
  std::vector<std::string> words;    // for these of std
};
const std::vector<Need> kNeeds = {
    {{"algorithm"},
     {"min", "max", "clamp", "sort", "find", "find_if", "any_of", "all_of", "max_element", "upper_bound"}},
    {{"array"}, {"array"}},
    {{"atomic"}, {"atomic"}},
    {{"bit"}, {"bit_cast"}},
    {{"charconv"}, {"from_chars", "to_chars"}},
    {{"chrono"}, {"chrono"}},
    {{"cmath"}, {"pow", "log", "isfinite", "floor", "sqrt", "exp", "nearbyint", "copysign"}},
    {{"condition_variable"}, {"condition_variable"}},
    {{"cstddef"}, {"byte"}},
    {{"cstdint"}, {"int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"}},
    {{"cstring"}, {"memcpy"}},
    {{"deque"}, {"deque"}},
    {{"exception"}, {"exception_ptr"}},
    {{"functional"}, {"function"}},
    {{"iosfwd", "istream", "ostream", "iostream", "fstream", "sstream"}, {"istream", "ostream"}},
    {{"limits"}, {"numeric_limits"}},
    {{"list"}, {"list"}},
    {{"map"}, {"map", "multimap"}},
    {{"memory"}, {"unique_ptr", "shared_ptr", "weak_ptr", "make_unique", "make_shared"}},
    {{"mutex"}, {"mutex", "lock_guard", "unique_lock"}},
    {{"numeric"}, {"gcd", "accumulate", "iota"}},
    {{"optional"}, {"optional", "nullopt"}},
    {{"set"}, {"set", "multiset"}},
    {{"span"}, {"span"}},
    {{"stdexcept"}, {"runtime_error"}},
    {{"string"}, {"string", "to_string"}},
    {{"string_view", "string"}, {"string_view"}},
    {{"thread"}, {"thread", "jthread"}},
    {{"tuple"}, {"tuple"}},
    {{"unordered_map"}, {"unordered_map"}},
    {{"unordered_set"}, {"unordered_set"}},
    {{"variant"}, {"variant", "monostate", "visit", "holds_alternative"}},
    {{"vector"}, {"vector"}},
};

// Of the source tree, or nothing.
fs::path found(const fs::path& root, const fs::path& from, const std::string& name) {
  for (const fs::path& folder : {root, from.parent_path(), root / "include"})
    if (fs::exists(folder / name)) return folder / name;
  return {};
}

class Headers {
 public:
  explicit Headers(fs::path root) : root_(std::move(root)) {}

  // All that a header includes with <>, by whatever way.
  const std::set<std::string>& all_of(const fs::path& header) {
    const auto [at, fresh] = all_.try_emplace(header.lexically_normal().string());
    if (!fresh) return at->second;
    std::set<std::string> all;
    static const std::regex include(R"(#include ([<"])([^>"]+)[>"].*)");
    std::istringstream lines(text_of(header));
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, include)) continue;
      if (match[1] == "<" && !match[2].str().starts_with("mbench/")) {
        all.insert(match[2]);
      } else if (const fs::path inner = found(root_, header, match[2]); !inner.empty()) {
        const std::set<std::string> more = all_of(inner);
        all.insert(more.begin(), more.end());
      }
    }
    return all_[header.lexically_normal().string()] = all;
  }

  // What it names and does not include.
  std::vector<std::string> missing(const fs::path& header) {
    const std::set<std::string>& all = all_of(header);
    const std::string text = std::regex_replace(text_of(header), std::regex("//[^\n]*"), "");
    std::vector<std::string> missing;
    const auto need = [&](const std::string& what, const std::vector<std::string>& of) {
      const auto is_there = [&](const std::string& one) { return all.contains(one); };
      if (std::none_of(of.begin(), of.end(), is_there)) missing.push_back(what + " needs <" + of.front() + ">");
    };
    const std::set<std::string> named = words_behind("std::", text);
    for (const Need& each : kNeeds)
      for (const std::string& word : each.words)
        if (named.contains(word)) need("std::" + word, each.headers);
    if (words_behind("fmt::", text).contains("format")) need("fmt::format", {"fmt/format.h", "fmt/core.h"});
    return missing;
  }

 private:
  static std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::set<std::string> words_behind(const std::string& space, const std::string& text) {
    std::set<std::string> words;
    for (std::size_t at = 0; (at = text.find(space, at)) != std::string::npos;) {
      const std::size_t begin = at += space.size();
      while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) ++at;
      words.insert(text.substr(begin, at - begin));
    }
    return words;
  }
  fs::path root_;
  std::map<std::string, std::set<std::string>> all_;
};

}  // namespace

TEST_CASE("headers include what they name of the standard library") {
  const fs::path root = MBENCH_SOURCE_DIR;
  Headers headers(root);
  std::size_t seen = 0;
  for (const char* folder :
       {"include", "engine", "strategies", "sweeps", "search", "formats", "explain", "reports", "health", "api", "cli"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".h") continue;
      ++seen;
      for (const std::string& what : headers.missing(entry.path())) {
        UNSCOPED_INFO(fs::relative(entry.path(), root).string() << ": " << what);
        CHECK(what.empty());
      }
    }
  CHECK(seen > 500);
}

TEST_CASE("a header that lacks an include is found, and one that has it by another is not") {
  const mbench::test::TemporaryFolder folder;
  const fs::path& root = folder.path;
  std::ofstream(root / "a.h") << "#include <vector>\nstd::vector<int> a;\n";
  std::ofstream(root / "b.h") << "#include \"a.h\"\nstd::vector<int> b;  // std::map\nstd::string c;\n";
  Headers headers(root);
  CHECK(headers.missing(root / "a.h").empty());
  CHECK(headers.missing(root / "b.h") == std::vector<std::string>{"std::string needs <string>"});
}
