#include "formats/logs/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "formats/logs/lines.h"

namespace mbench::formats {
namespace {

constexpr std::size_t kMostRows = 100'000, kMostRanks = 1'000'000;

// Programs of nccl-tests as mbench check calls what they measure.
constexpr std::pair<std::string_view, std::string_view> kPrograms[] = {
    {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
    {"alltoall_perf", "all_to_all"},   {"sendrecv_perf", "send"},         {"broadcast_perf", "broadcast"},
    {"reduce_perf", "reduce"},         {"hypercube_perf", "hypercube"},   {"gather_perf", "gather"},
    {"scatter_perf", "scatter"}};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(" \t"); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(" \t", end);
  }
  return words;
}

template <class Number>
bool read_whole(std::string_view word, Number& number) {
  const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && last == word.data() + word.size();
}

// The program whose name stands in the text, with no other name around it: "all_gather_perf" is not "gather_perf".
std::string collective_in(std::string_view text) {
  for (const auto& [program, name] : kPrograms) {
    const std::size_t at = text.find(program);
    if (at != std::string_view::npos &&
        (at == 0 || !(std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_')))
      return std::string(name);
  }
  return "";
}

struct ReadRow {
  NcclTestRow row;
  std::string_view operation;  // "sum", "none"; empty in old releases
  double factor = 0;           // of the bus bandwidth over the algorithm's
};

// size count type [redop [root]] time algbw busbw wrong, and the same in place. Nothing where the line is no row.
std::optional<ReadRow> row_of(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() < 7 || words.size() > 13) return std::nullopt;
  ReadRow read;
  std::int64_t count = 0;
  if (!read_whole(words[0], read.row.bytes) || !read_whole(words[1], count) || read.row.bytes < 0 ||
      !std::isalpha(static_cast<unsigned char>(words[2][0])))
    return std::nullopt;
  const bool both = words.size() >= 11;  // in place too
  const std::size_t figures = both ? 8 : 4, begin = words.size() - figures;
  if (begin < 3) return std::nullopt;
  if (begin > 3) read.operation = words[3];
  double algorithm = 0;
  if (!read_whole(words[begin], read.row.us) || !read_whole(words[begin + 1], algorithm) ||
      !read_whole(words[begin + 2], read.row.bus_gbps))
    return std::nullopt;
  if (!(read.row.us > 0) || !std::isfinite(read.row.us) || !std::isfinite(read.row.bus_gbps)) return std::nullopt;
  std::int64_t wrong = 0;
  if (read_whole(words[begin + 3], wrong))
    read.row.wrong = std::max<std::int64_t>(wrong, 0);  // N/A, or an error such as 1e-07 in old releases
  if (algorithm > 0) read.factor = read.row.bus_gbps / algorithm;
  return read;
}

// By what it does with the data and how its bandwidth is counted; empty where that does not tell.
std::string collective_of(std::string_view operation, double factor, std::int64_t ranks) {
  if (ranks < 2 || operation == "none" || operation.empty()) return "";
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const auto is = [&](double wanted) { return std::abs(factor - wanted) < 0.02 * wanted; };
  return ranks > 2 && is(2 * share) ? "all_reduce" : is(share) && !is(1) ? "reduce_scatter" : "";
}

class TestReader {
 public:
  void read(const Line& line) {
    const std::string_view text = line.text;
    if (text.find("nThread") != std::string_view::npos && text.find("minBytes") != std::string_view::npos) begin();
    if (const std::string named = collective_in(text); !named.empty())
      (text.find("concluded") != std::string_view::npos && !tests_.empty() ? tests_.back().collective : said_) = named;
    if (text.find("Rank ") != std::string_view::npos && text.find(" on ") != std::string_view::npos &&
        text.find(" device ") != std::string_view::npos)
      return add_rank(text);
    if (line.whole)
      if (const auto row = row_of(text)) add_row(*row);
  }

  std::vector<NcclTest> take(const std::string& file, const std::string& collective) {
    std::erase_if(tests_, [](const NcclTest& test) { return test.rows.empty(); });
    if (tests_.empty())
      fail(ErrorKind::bad_input, file,
           "no row of nccl-tests is in it, need lines of size, count, type, time, algbw and busbw");
    for (NcclTest& test : tests_) {
      if (test.collective.empty()) test.collective = collective;
      if (test.collective.empty())
        fail(ErrorKind::bad_input, file,
             "does not say which collective it measures, need --collective all_gather (or all_reduce, reduce_scatter, "
             "all_to_all, send)");
      test.ranks = std::max<std::int64_t>(static_cast<std::int64_t>(test.devices.size()), 1);
    }
    return std::move(tests_);
  }

 private:
  void begin() {
    if (!tests_.empty() && tests_.back().rows.empty()) return;
    tests_.emplace_back();
  }
  // "#  Rank  0 Group  0 Pid 548419 on host device  0 [0000:1b:00] NVIDIA H100 80GB HBM3"
  void add_rank(std::string_view text) {
    if (tests_.empty() || !tests_.back().rows.empty()) tests_.emplace_back();
    NcclTest& test = tests_.back();
    const std::size_t on = text.find(" on ") + 4, device = text.find(" device ", on), bracket = text.find(']', device);
    if (device == std::string_view::npos || test.devices.size() >= kMostRanks) return;
    const auto trimmed = [](std::string_view word) {
      const std::size_t begin = word.find_first_not_of(' '), end = word.find_last_not_of(' ');
      return begin == std::string_view::npos ? std::string() : std::string(word.substr(begin, end - begin + 1));
    };
    test.hosts.push_back(trimmed(text.substr(on, device - on)));
    test.devices.push_back(bracket == std::string_view::npos ? "" : trimmed(text.substr(bracket + 1)));
  }
  void add_row(const ReadRow& read) {
    if (tests_.empty()) tests_.emplace_back();
    NcclTest& test = tests_.back();
    if (test.rows.size() >= kMostRows)
      fail(ErrorKind::bad_input, "log", "has more than {} rows of one test", kMostRows);
    if (test.collective.empty()) test.collective = said_;
    if (test.collective.empty())
      test.collective = collective_of(read.operation, read.factor, static_cast<std::int64_t>(test.devices.size()));
    test.rows.push_back(read.row);
  }

  std::vector<NcclTest> tests_;
  std::string said_;  // by the command line or the heading before a test
};

}  // namespace

bool is_nccl_tests(std::string_view text) {
  return text.find("algbw") != std::string_view::npos && text.find("busbw") != std::string_view::npos &&
         text.find("#wrong") != std::string_view::npos;
}

std::vector<NcclTest> read_nccl_tests(std::istream& in, const std::string& file, const std::string& collective) {
  std::string asked = collective;
  if (!asked.empty()) {
    std::vector<std::string> names;
    for (const auto& [program, name] : kPrograms) {
      if (asked == program) asked = name;
      names.emplace_back(name);
    }
    if (std::find(names.begin(), names.end(), asked) == names.end())
      fail(ErrorKind::bad_input, "--collective", "no such collective, got \"{}\", {}", collective,
           nearest_choice(collective, names));
  }
  TestReader reader;
  Lines lines(in);
  for (Line line; lines.next(line);) reader.read(line);
  return reader.take(file, asked);
}

}  // namespace mbench::formats
