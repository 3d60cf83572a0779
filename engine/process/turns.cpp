#include "engine/process/turns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "engine/base/error.h"

namespace mbench::process {
namespace {

// Short against a step that is worth measuring, and a hundredth of a percent of a core.
constexpr std::chrono::microseconds kGlance{200};
// The other is looked for as seldom as its end may cost.
constexpr int kGlancesPerLook = 100;

constexpr const char* kWhere = "--take-turns";

std::string side_file(const std::string& folder, int number) {
  return fmt::format("{}/{}", folder, number);
}

// Closed when this process starts another: a rank must not hold the lock of its sweep.
int opened(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0 && errno != ENOENT)
    fail(ErrorKind::bad_input, kWhere, "cannot open {}: {}, need a folder that can be written", path,
         std::strerror(errno));
  return fd;
}

}  // namespace

Turns::Turns(std::string folder, int number) : folder_(std::move(folder)), number_(number) {
  check(number == 1 || number == 2, kWhere, "number of a side, got {}, need 1 or 2", number);
}

Turns::~Turns() {
  if (lock_ >= 0) ::close(lock_);
}

void Turns::make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorKind::bad_input, kWhere, "cannot make {}: {}, need a folder that can be written", folder,
         error.message());
  ::close(opened(folder + "/turn", O_RDWR | O_CREAT));
}

void Turns::join(std::chrono::duration<double> limit, const std::function<bool()>& stop) {
  make_folder(folder_);
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto over = [&] { return std::chrono::steady_clock::now() > end; };
  lock_ = opened(side_file(folder_, number_), O_RDWR | O_CREAT);
  // The other may look at this lock in the same moment.
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (stop && stop()) return;
    if (over())
      fail(ErrorKind::launch_failed, kWhere, "{} is taken in {}, need a sweep as 1 and one as 2", number_, folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  while (!other_is_here()) {
    if (stop && stop()) return;
    if (over())
      fail(ErrorKind::launch_failed, kWhere, "nobody came to take turns in {}, need a sweep as {} too", folder_,
           3 - number_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Turns::wait(const std::function<bool()>& stop) const {
  for (int glances = 0; !is_ours(); ++glances) {
    if (glances % kGlancesPerLook == 0 && (!other_is_here() || (stop && stop()))) return;
    std::this_thread::sleep_for(kGlance);
  }
}

void Turns::pass() const {
  const int fd = opened(folder_ + "/turn", O_WRONLY);
  const char other = static_cast<char>('0' + 3 - number_);
  const bool written = fd >= 0 && ::pwrite(fd, &other, 1, 0) == 1;
  if (fd >= 0) ::close(fd);
  if (!written) fail(ErrorKind::launch_failed, kWhere, "{}/turn cannot be written: {}", folder_, std::strerror(errno));
}

// Where nobody has passed yet, it is the turn of 1.
bool Turns::is_ours() const {
  char turn = '1';
  const int fd = opened(folder_ + "/turn", O_RDONLY);
  if (fd < 0) return false;
  if (::pread(fd, &turn, 1, 0) <= 0) turn = '1';
  ::close(fd);
  return turn == '0' + number_;
}

bool Turns::other_is_here() const {
  const int fd = opened(side_file(folder_, 3 - number_), O_RDWR);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
  ::close(fd);
  return held;
}

}  // namespace mbench::process
