// One program at a time in a folder: an advisory lock on the folder itself. It leaves no file behind and ends with the program that holds
// it. Programs on the same machine see each other's locks. On a file system without such locks (NFS, for a folder) every program gets in.
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace mbench {

class FolderLock {
 public:
  // bad_input if the folder cannot be opened.
  static FolderLock wait_for(const std::string& folder);
  // Nothing if another program has it.
  static std::optional<FolderLock> try_for(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  explicit FolderLock(const std::string& folder);
  int fd_ = -1;
};

}  // namespace mbench
