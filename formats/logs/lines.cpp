#include "formats/logs/lines.h"

#include <cctype>
#include <charconv>

namespace mbench::formats {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr int kEnd = -1;

// A rank at the beginning of `text`, behind `open` and before `close`.
int rank_between(std::string_view& text, std::string_view open, std::string_view close) {
  if (!text.starts_with(open)) return -1;
  const std::string_view rest = text.substr(open.size());
  int rank = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  if (error != std::errc{} || rank < 0) return -1;
  const std::string_view behind = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (!behind.starts_with(close)) return -1;
  text = behind.substr(close.size());
  return rank;
}

}  // namespace

int take_rank(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);  // srun -l aligns them
  for (const auto& [open, close] : {std::pair("[rank", "]:"), std::pair("[default", "]:"), std::pair("", ": ")})
    if (const int rank = rank_between(text, open, close); rank >= 0) return rank;
  return -1;
}

int Lines::get() {
  if (at_ == buffer_.size()) {
    buffer_.resize(kBlock);
    in_.read(buffer_.data(), static_cast<std::streamsize>(kBlock));
    buffer_.resize(static_cast<std::size_t>(in_.gcount()));
    at_ = 0;
    if (buffer_.empty()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_++]);
}

bool Lines::next(Line& line) {
  text_.clear();
  line = {};
  enum class Escape { none, begun, sequence } escape = Escape::none;
  bool any = false;
  for (int c = get();; c = get()) {
    if (c == kEnd) {
      if (!any) return false;
      line.whole = false;
      break;
    }
    any = true;
    if (c == '\n' || c == '\r') break;
    // ESC [ ... letter; of any other sequence, ESC and what follows it.
    if (escape == Escape::begun) {
      escape = c == '[' ? Escape::sequence : Escape::none;
    } else if (escape == Escape::sequence) {
      if (c >= 0x40 && c <= 0x7e) escape = Escape::none;
    } else if (c == 0x1b) {
      escape = Escape::begun;
    } else if (text_.size() < kMostLineBytes) {
      text_ += c == 0 ? ' ' : static_cast<char>(c);
    } else {
      line.whole = false;
    }
  }
  line.text = text_;
  line.rank = take_rank(line.text);
  return true;
}

}  // namespace mbench::formats
