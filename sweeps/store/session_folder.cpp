#include "sweeps/store/session_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace mbench::sweeps {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kGrace{2};

// Of this user: what another one's sweep has left is not ours to remove.
std::string prefix() {
  return fmt::format("mbench-{}-", ::getuid());
}

bool is_own_folder(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
}

void remove_dead_sessions(const std::string& parent) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent, error))
    if (entry.path().filename().string().starts_with(prefix()) && is_own_folder(entry.path()))
      found.push_back(entry.path());
  for (const fs::path& path : found) {
    try {
      if (const auto lock = FolderLock::try_for(path.string())) fs::remove_all(path, error);
    } catch (const Error&) {  // it is gone meanwhile
    }
  }
}

}  // namespace

std::optional<SessionFolder> SessionFolder::make(const std::string& parent) {
  remove_dead_sessions(parent);
  while (true) {
    std::string path = fmt::format("{}/{}XXXXXX", parent, prefix());
    if (::mkdtemp(path.data()) == nullptr) return std::nullopt;
    try {
      auto lock = FolderLock::try_for(path);
      // Another sweep that starts now may have taken it for a dead one's before it was locked: it has removed it, or will.
      if (lock && is_own_folder(path)) return SessionFolder(path, std::move(*lock));
    } catch (const Error&) {
    }
  }
}

SessionFolder::SessionFolder(std::string path, FolderLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

SessionFolder::SessionFolder(SessionFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

SessionFolder& SessionFolder::operator=(SessionFolder&& other) noexcept {
  std::swap(path_, other.path_);
  lock_ = std::move(other.lock_);
  return *this;
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void SessionFolder::clear() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
}

bool keeps_session_here(const Launcher& launcher) {
  const bool starts_by_mpirun = launcher.kind == LauncherKind::mpirun || launcher.kind == LauncherKind::mpiexec;
  return starts_by_mpirun && launcher.flavour == MpiFlavour::open_mpi && !launcher.allocated && launcher.nodes <= 1;
}

std::map<std::string, std::string> session_variables(const std::string& folder,
                                                     const std::map<std::string, std::string>& point_env) {
  std::map<std::string, std::string> variables;
  for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base",
                           "OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"})
    if (std::getenv(name) == nullptr && !point_env.contains(name)) variables[name] = folder;
  return variables;
}

void end_with(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::bad_input, folder, "the folder of the sweep cannot be opened: {}", std::strerror(errno));
  std::thread([fd] {
    while (::flock(fd, LOCK_SH) != 0)
      if (errno != EINTR) return;  // no locks there: the launcher alone ends its ranks
    ::close(fd);                   // the folder is free for who removes it
    ::kill(::getppid(), SIGCONT);
    std::this_thread::sleep_for(kGrace);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

}  // namespace mbench::sweeps
