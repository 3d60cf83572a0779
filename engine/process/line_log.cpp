#include "engine/process/line_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mbench::process {
namespace {
constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kTailLines = 40;
constexpr std::size_t kTailColumns = 500;
}  // namespace

LineLog::LineLog(const std::string& path) : path_(path) {
  if (path.empty()) return;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) trouble_ = fmt::format("[{}] could not be written: {}", path_, std::strerror(errno));
}

LineLog::~LineLog() {
  if (fd_ >= 0) ::close(fd_);
}

void LineLog::add(std::string_view line) {
  tail_.emplace_back(line.substr(0, kTailColumns));
  if (tail_.size() > kTailLines) tail_.pop_front();
  if (written_ > kMaxBytes) return;
  write(std::string(line) + "\n");
  if (written_ > kMaxBytes) write("... the log ends here: it has reached 16 MiB\n");
}

void LineLog::write(std::string_view text) {
  written_ += text.size();
  while (fd_ >= 0 && !text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      trouble_ = fmt::format("[{}] could not be written: {}", path_, std::strerror(errno));
      ::close(fd_);
      fd_ = -1;
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace mbench::process
