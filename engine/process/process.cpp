#include "engine/process/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "engine/base/error.h"
#include "engine/process/line_log.h"
#include "engine/process/process_tree.h"

extern char** environ;

namespace mbench::process {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kGrace = 2;  // seconds between TERM and KILL

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      fail(ErrorKind::internal, "pipe", "could not be made: {}", std::strerror(errno));
  }
  ~Pipe() { close_read(), close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close(ends_[0]); }
  void close_write() { close(ends_[1]); }

 private:
  static void close(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// What the child reads: a file without a name, for a pipe would fill up. Nothing to read is /dev/null.
class Input {
 public:
  explicit Input(std::string_view text)
      : fd_(text.empty() ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : ::memfd_create("input", MFD_CLOEXEC)) {
    if (fd_ < 0) fail(ErrorKind::internal, "input", "could not be made: {}", std::strerror(errno));
    if (!text.empty()) write(text);
  }
  ~Input() { ::close(fd_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  int fd() const { return fd_; }

 private:
  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        ::close(fd_);
        fail(ErrorKind::internal, "input", "could not be written: {}", std::strerror(error));
      }
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    ::lseek(fd_, 0, SEEK_SET);
  }
  int fd_;
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!extra.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : extra) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

// The child between fork and exec. What fails is told to the parent as an errno through `report`.
[[noreturn]] void become(char* const* argv, char** env, const char* folder, int in, int out, int err, int report) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // if this program is killed, its points do not go on alone
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  environ = env;
  if (!*folder || ::chdir(folder) == 0) ::execvp(argv[0], argv);
  const int error = errno;
  const ssize_t reported = ::write(report, &error, sizeof error);
  ::_exit(reported == sizeof error ? 127 : 126);
}

// Hands what the child has written so far to `take`; false at its end.
template <class F>
bool drain(int fd, F&& take) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) {
      take(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
      if (n < static_cast<ssize_t>(buffer.size())) return true;
    } else if (n == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

}  // namespace

Interrupt::Interrupt() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
  ::sigprocmask(SIG_BLOCK, &set, &old_);
  fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) fail(ErrorKind::internal, "signalfd", "could not be made: {}", std::strerror(errno));
}

Interrupt::~Interrupt() {
  pending();  // what came at the very end must not end the process now
  ::close(fd_);
  ::sigprocmask(SIG_SETMASK, &old_, nullptr);
}

bool Interrupt::pending() {
  signalfd_siginfo info;
  while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) came_ = true;
  return came_;
}

ProcessEnd run_process(const ProcessRequest& request) {
  ProcessEnd end;
  adopt_orphans();
  const std::set<pid_t> others = live_descendants(0);
  LineLog log(request.log);
  const Input in(request.input);
  Pipe out, err, report;
  std::vector<std::string> argv_text = request.argv, env_text = merged_environment(request.env);
  std::vector<char*> argv = pointers(argv_text), env = pointers(env_text);
  const auto begin = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) {
    end.how = ProcessEnd::How::not_started;
    end.code = errno;
    return end;
  }
  if (child == 0)
    become(argv.data(), env.data(), request.folder.c_str(), in.fd(), out.write_end(), err.write_end(),
           report.write_end());
  out.close_write(), err.close_write(), report.close_write();
  int exec_error = 0;
  ssize_t reported;
  while ((reported = ::read(report.read_end(), &exec_error, sizeof exec_error)) < 0 && errno == EINTR) {
  }
  if (reported == sizeof exec_error) {
    ::waitpid(child, nullptr, 0);
    end.how = ProcessEnd::How::not_started;
    end.code = exec_error;
    return end;
  }
  for (const int fd : {out.read_end(), err.read_end()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);

  LineSplitter out_lines, err_lines;
  const auto from_out = [&](std::string_view line) {
    if (!request.on_line || !request.on_line(line)) log.add(line);
  };
  const auto take_out = [&](std::string_view bytes) {
    if (request.keep_output)
      end.output += bytes;
    else
      out_lines.add(bytes, from_out);
  };
  const auto from_err = [&](std::string_view line) {
    if (!request.on_error_line || !request.on_error_line(line)) log.add(line);
  };
  const auto take_err = [&](std::string_view bytes) { err_lines.add(bytes, from_err); };
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int status = 0;
  bool ended = false;
  while (!ended) {
    std::array<pollfd, 3> fds = {{{out.read_end(), POLLIN, 0},
                                  {err.read_end(), POLLIN, 0},
                                  {request.interrupt ? request.interrupt->fd() : -1, POLLIN, 0}}};
    // With both pipes closed nothing wakes poll when the child ends, so it looks more often.
    const bool silent = out.read_end() < 0 && err.read_end() < 0;
    ::poll(fds.data(), fds.size(), silent ? 5 : 100);
    if (fds[0].revents && !drain(out.read_end(), take_out)) out.close_read();
    if (fds[1].revents && !drain(err.read_end(), take_err)) err.close_read();
    ended = ::waitpid(child, &status, WNOHANG) == child;
    if (ended) break;
    if (request.interrupt && request.interrupt->pending()) {
      end.how = ProcessEnd::How::interrupted;
      break;
    }
    if (request.timeout_s > 0 && elapsed() > request.timeout_s) {
      end.how = ProcessEnd::How::timed_out;
      break;
    }
    if (request.give_up && !(end.why = request.give_up()).empty()) {
      end.how = ProcessEnd::How::given_up;
      break;
    }
  }
  end.seconds = elapsed();
  const std::size_t left = end_descendants(others, ended ? 0 : child, kGrace);
  if (!ended) ::waitpid(child, &status, left == 0 ? 0 : WNOHANG);
  if (out.read_end() >= 0) drain(out.read_end(), take_out);
  if (err.read_end() >= 0) drain(err.read_end(), take_err);
  out_lines.flush(from_out);
  err_lines.flush(from_err);
  if (ended) {
    end.how = WIFSIGNALED(status) ? ProcessEnd::How::signalled : ProcessEnd::How::exited;
    end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  end.tail = log.tail();
  end.trouble = log.trouble();
  if (left > 0) end.trouble += fmt::format("{}{} processes would not end", end.trouble.empty() ? "" : "; ", left);
  return end;
}

}  // namespace mbench::process
