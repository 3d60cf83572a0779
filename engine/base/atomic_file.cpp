#include "engine/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {
namespace {

// Writes, and flushes if it is to be kept; 0, or the errno of what went wrong.
int write_all(int fd, std::string_view text, bool keep) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return !keep || ::fsync(fd) == 0 ? 0 : errno;
}

bool is_of_room(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

// What would let it be written.
std::string needed(const std::string& folder, std::string_view text, int error) {
  if (!is_of_room(error)) return "a folder that is there and that this user may write to";
  struct statvfs room {};
  const bool known = ::statvfs(folder.c_str(), &room) == 0;
  return format_bytes(text.size()) +
         (known ? fmt::format(" and {} are free", format_bytes(std::uint64_t{room.f_bavail} * room.f_frsize)) : "");
}

[[noreturn]] void fail_write(const std::string& path, const std::string& folder, std::string_view text, int error) {
  fail(ErrorKind::bad_input, path, "could not be written: {}, need {}{}", std::strerror(error),
       needed(folder, text, error), ::access(path.c_str(), F_OK) == 0 ? "; the older file stands" : "");
}

// A rename would replace a device such as /dev/stdout by a plain file.
void check_plain(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    fail(ErrorKind::bad_input, path, "not a plain file, need the name of a file that may be replaced");
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? std::string(".") : parent;
}

std::string temporary_of(const std::string& path) {
  return fmt::format("{}.tmp-{}", path, ::getpid());
}

void put(const std::string& path, std::string_view text, bool keep) {
  check_plain(path);
  const std::string folder = folder_of(path), temporary = temporary_of(path);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail_write(path, folder, text, errno);
  int error = write_all(fd, text, keep);
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail_write(path, folder, text, error);
  }
  if (!keep) return;
  // The rename itself must reach the disk too; a file system that cannot sync a folder has nothing to lose
  // here.
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view text) {
  put(path, text, true);
}

void replace_file(const std::string& path, std::string_view text) {
  put(path, text, false);
}

void check_writable(const std::string& path) {
  check_plain(path);
  const std::string temporary = temporary_of(path);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    fail(ErrorKind::bad_input, path, "cannot be written: {}, need a folder that is there and may be written to",
         std::strerror(errno));
  ::close(fd);
  ::unlink(temporary.c_str());
}

}  // namespace mbench
