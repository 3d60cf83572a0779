// Where Open MPI keeps the files of a sweep's ranks: a folder of the sweep's own below /dev/shm, not the places that all jobs share. A
// killed mpirun leaves a session folder in /tmp and a segment of shared memory for each rank. Here they are removed after each point.
// What a killed sweep leaves is removed at the start of the next one on this machine.
//
// The sweep holds a lock on its folder for as long as it lives, however it ends. So a folder with a free lock belongs to a dead sweep
// (remove_dead_sessions). Its ranks wait for that lock, to end with the sweep (end_with).
#pragma once
#include <map>
#include <optional>
#include <string>

#include "engine/base/folder_lock.h"
#include "sweeps/launch/launcher.h"

namespace mbench::sweeps {

inline constexpr const char* kSessionParent = "/dev/shm";

class SessionFolder {
 public:
  // Removes what dead sweeps of this user have left below `parent`, and makes a new folder there. Nothing where that is no folder
  // that can be written: Open MPI's files then lie where it puts them.
  static std::optional<SessionFolder> make(const std::string& parent = kSessionParent);
  SessionFolder(SessionFolder&&) noexcept;
  SessionFolder& operator=(SessionFolder&&) noexcept;
  ~SessionFolder();  // removes it

  const std::string& path() const { return path_; }
  void clear() const;  // removes what is in it

 private:
  SessionFolder(std::string path, FolderLock lock);
  std::string path_;
  FolderLock lock_;
};

// Whether that launcher's ranks are on this machine and started by Open MPI's mpirun, so that a folder here holds their files. In
// a job of a batch system its end removes what a job leaves.
bool keeps_session_here(const Launcher& launcher);

// The variables that put Open MPI's files (4 and 5) there, except those that this process's environment or `point_env` has.
std::map<std::string, std::string> session_variables(const std::string& folder,
                                                     const std::map<std::string, std::string>& point_env);

// For a rank. Once the sweep that holds the folder is gone, it wakes a stopped launcher. The launcher then ends its ranks, as it was
// asked to when the sweep died. This process ends 2 s later if it is still there. A thread sleeps in the kernel until then. Throws
// bad_input if there is no such folder.
void end_with(const std::string& folder);

}  // namespace mbench::sweeps
