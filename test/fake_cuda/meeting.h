// Where the ranks of a communicator meet: a folder in /dev/shm, in which each leaves files for the others. A
// file appears whole or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fake_cuda {

using Bytes = std::vector<std::byte>;

class Meeting {
 public:
  // The name of a new one, unlike any other on this machine. Removes what processes that are gone left.
  static std::string arrange();

  explicit Meeting(const std::string& name);
  void leave(const std::string& file, const Bytes& bytes) const;
  bool has(const std::string& file) const { return std::filesystem::exists(folder_ / file); }
  std::optional<Bytes> find(const std::string& file) const;
  void remove(const std::string& file) const;
  void end() const;  // of the whole folder, by whoever is last

 private:
  std::filesystem::path folder_;
};

}  // namespace fake_cuda
