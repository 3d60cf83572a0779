#include "test/fake_cuda/meeting.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <random>

#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoot = "/dev/shm";
const std::string kPrefix = "fake-nccl-";

void remove_abandoned() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kRoot, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const int owner = std::atoi(name.c_str() + kPrefix.size());
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

std::string Meeting::arrange() {
  remove_abandoned();
  static std::atomic<int> count{0};
  std::random_device random;
  return kPrefix + std::to_string(::getpid()) + "-" + std::to_string(count++) + "-" + std::to_string(random());
}

Meeting::Meeting(const std::string& name) : folder_(fs::path(kRoot) / name) {
  std::error_code ignored;  // another rank may have made it
  fs::create_directory(folder_, ignored);
}

void Meeting::leave(const std::string& file, const Bytes& bytes) const {
  const fs::path whole = folder_ / file, part = folder_ / ("." + file);
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code failed;
  fs::rename(part, whole, failed);
  if (failed || !out) complain(whole.string(), "cannot be written: " + failed.message());
}

std::optional<Bytes> Meeting::find(const std::string& file) const {
  std::ifstream in(folder_ / file, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  Bytes bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void Meeting::remove(const std::string& file) const {
  std::error_code ignored;
  fs::remove(folder_ / file, ignored);
}

void Meeting::end() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace fake_cuda
