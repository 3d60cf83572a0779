// What the built binary takes of the machine, for the tests that hold it to a time.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "test/cli/room.h"

namespace mbench::test {

/// What a command took of the machine.
struct Spent {
  int code = -1;
  double cpu_seconds = 0, peak_rss_mib = 0;
};

/// Runs the binary, its output thrown away, and returns what it and its children took. `path`: searched before PATH.
inline Spent spend(const Room& room, std::vector<std::string> arguments, const std::string& path = "") {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), MBENCH_BINARY);
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    if (!path.empty()) ::setenv("PATH", (path + ":" + std::getenv("PATH")).c_str(), 1);
    if (::chdir(room.path.c_str()) != 0 || !std::freopen("/dev/null", "w", stdout) ||
        !std::freopen("/dev/null", "w", stderr))
      _exit(126);
    execv(MBENCH_BINARY, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage use{};
  wait4(child, &status, 0, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, seconds(use.ru_utime) + seconds(use.ru_stime),
          static_cast<double>(use.ru_maxrss) / 1024};
}

}  // namespace mbench::test
