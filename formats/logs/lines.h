// A log line by line, in constant memory: files of many gigabytes, colours, progress bars, lines without an end.
#pragma once
#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

namespace mbench::formats {

// A trainer's line about a step is far shorter; the rest of a longer line is dropped.
inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 16;

struct Line {
  std::string_view text;  // without colours and what ended it; valid until the next one is asked for
  bool whole = true;      // false where the file or the limit cuts it: a number at its end may be half of one
  int rank = -1;          // by its prefix, "[rank3]:" or "3: "; -1: it has none
};

class Lines {
 public:
  explicit Lines(std::istream& in) : in_(in) {}
  // The next line; false at the end. A carriage return ends one too, as progress bars use it.
  bool next(Line& line);

 private:
  int get();

  std::istream& in_;
  std::string buffer_, text_;
  std::size_t at_ = 0;
};

// The rank of "[rank3]: text", "[default3]:text" or "3: text", and the text without the prefix. -1 where there is none.
int take_rank(std::string_view& text);

}  // namespace mbench::formats
