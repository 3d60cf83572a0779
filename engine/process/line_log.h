// The log of a running program: whole lines to a file, at most 16 MiB of them. The last lines also stay in memory, so that a crash can be
// quoted even where the disk is full.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace mbench::process {

class LineLog {
 public:
  explicit LineLog(const std::string& path);  // no file if empty
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;
  void add(std::string_view line);
  std::vector<std::string> tail() const { return {tail_.begin(), tail_.end()}; }
  const std::string& trouble() const { return trouble_; }

 private:
  void write(std::string_view text);
  std::string path_;
  int fd_ = -1;
  std::size_t written_ = 0;
  std::deque<std::string> tail_;
  std::string trouble_;
};

// Cuts a stream of bytes into lines. A line without end is cut at 8 MiB: the record of a point of 100,000 steps is one line and must fit.
class LineSplitter {
 public:
  template <class F>
  void add(std::string_view bytes, F&& on_line) {
    std::size_t begin = 0, from = pending_.size();  // what was pending has no line end
    pending_ += bytes;
    for (std::size_t end; (end = pending_.find('\n', from)) != std::string::npos; begin = from = end + 1)
      on_line(std::string_view(pending_).substr(begin, end - begin));
    pending_.erase(0, begin);
    if (pending_.size() > kLongest) flush(on_line);
  }
  template <class F>
  void flush(F&& on_line) {
    if (!pending_.empty()) on_line(std::string_view(pending_));
    pending_.clear();
  }

 private:
  static constexpr std::size_t kLongest = std::size_t{8} << 20;
  std::string pending_;
};

}  // namespace mbench::process
