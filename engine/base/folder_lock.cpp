#include "engine/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.h"

namespace mbench {

FolderLock::FolderLock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) fail(ErrorKind::bad_input, folder, "the folder cannot be opened: {}", std::strerror(errno));
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock FolderLock::wait_for(const std::string& folder) {
  FolderLock lock(folder);
  while (::flock(lock.fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
  return lock;
}

std::optional<FolderLock> FolderLock::try_for(const std::string& folder) {
  FolderLock lock(folder);
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

}  // namespace mbench
