#include "engine/process/process_tree.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace mbench::process {
namespace {

using Clock = std::chrono::steady_clock;

struct Entry {
  pid_t parent = 0;
  char state = '?';
};

// /proc/PID/stat: "pid (name) state ppid ..."; the name may hold blanks and parentheses itself.
bool read_stat(const std::filesystem::path& folder, Entry& entry) {
  std::ifstream in(folder / "stat");
  std::string line;
  if (!std::getline(in, line)) return false;  // it has ended meanwhile
  const std::size_t paren = line.rfind(')');
  if (paren == std::string::npos || paren + 2 >= line.size()) return false;
  entry.state = line[paren + 2];
  entry.parent = static_cast<pid_t>(std::atol(line.c_str() + paren + 4));
  return true;
}

std::map<pid_t, Entry> all_processes() {
  std::map<pid_t, Entry> table;
  std::error_code ignored;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = folder.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    Entry entry;
    if (read_stat(folder.path(), entry)) table[static_cast<pid_t>(std::stol(name))] = entry;
  }
  return table;
}

}  // namespace

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::set<pid_t> live_descendants(pid_t keep) {
  const std::map<pid_t, Entry> table = all_processes();
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, entry] : table) children.emplace(entry.parent, pid);
  std::set<pid_t> found;
  std::vector<pid_t> open = {::getpid()};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (auto [i, end] = children.equal_range(parent); i != end; ++i) {
      open.push_back(i->second);
      if (table.at(i->second).state != 'Z' && table.at(i->second).state != 'X')
        found.insert(i->second);
      else if (parent == ::getpid() && i->second != keep)
        ::waitpid(i->second, nullptr, WNOHANG);
    }
  }
  return found;
}

std::size_t end_descendants(const std::set<pid_t>& spare, pid_t keep, double grace_s) {
  constexpr double kGiveUp = 5;  // after KILL: what is left then hangs in the kernel
  const auto begin = Clock::now();
  std::set<pid_t> reported;  // TERM once each: a second one would make mpirun give up on its ranks
  while (true) {
    std::set<pid_t> left;
    for (const pid_t pid : live_descendants(keep))
      if (!spare.contains(pid)) left.insert(pid);
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (left.empty() || waited > grace_s + kGiveUp) return left.size();
    for (const pid_t pid : left) {
      if (waited > grace_s)
        ::kill(pid, SIGKILL);
      else if (reported.insert(pid).second)
        ::kill(pid, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace mbench::process
