#include "reports/plots/gnuplot.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/spec/result.h"
#include "reports/plots/plot_script.h"

extern char** environ;

namespace mbench::reports {
namespace {

namespace fs = std::filesystem;

constexpr int kTimeoutMs = 120'000;

// A file without a name: what the child reads or writes can be of any length without a pipe that fills up.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(::memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0) fail(ErrorKind::internal, "gnuplot", "memfd_create: {}", std::strerror(errno));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(ErrorKind::internal, "gnuplot", "writing its script: {}", std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    ::lseek(fd_, 0, SEEK_SET);
  }

  std::string read() const {
    std::string text;
    char buffer[65536];
    for (off_t at = 0;;) {
      const ssize_t n = ::pread(fd_, buffer, sizeof buffer, at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(n));
      at += n;
    }
  }

 private:
  int fd_;
};

struct Ran {
  std::string out, trouble;  // trouble: empty if all went well
};

// The exit status of a child that gets kTimeoutMs; -1 if it had to be killed.
int wait_for(pid_t child) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  bool ended = true;
  if (fd >= 0) {  // else an old kernel: wait without a limit
    pollfd event{fd, POLLIN, 0};
    int n = 0;
    while ((n = ::poll(&event, 1, kTimeoutMs)) < 0 && errno == EINTR) continue;
    ended = n > 0;
    ::close(fd);
  }
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string first_complaint(const std::string& text) {
  // gnuplot quotes the line, puts a caret below, and then says what is wrong as "line 3: ...".
  const std::size_t at = text.find("line ");
  std::string line = text.substr(at == std::string::npos ? 0 : at);
  line.erase(std::min(line.find('\n'), line.size()));
  return line.empty() ? "it said nothing" : line;
}

Ran run_gnuplot(const std::string& program, const std::string& script, const std::string& folder) {
  MemoryFile in("script"), out("output"), err("errors");
  in.write(script);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.fd(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.fd(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, err.fd(), 2);
  if (!folder.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  std::string name = program, no_start_files = "-d", from_stdin = "-";
  char* argv[] = {name.data(), no_start_files.data(), from_stdin.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, name.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    return {"", fmt::format("No plots: there is no {} on this machine; install it (Debian and Ubuntu: apt "
                            "install gnuplot-nox) and render the report again.",
                            program)};
  if (error != 0)
    return {"", fmt::format("No plots: {} cannot be started: {}.", program, std::strerror(error))};
  const int status = wait_for(child);
  Ran ran{out.read(), ""};
  if (status < 0) ran.trouble = fmt::format("Plots are missing: {} was killed or took too long.", program);
  if (status > 0)
    ran.trouble =
        fmt::format("Plots are missing: {} ended with {}: {}", program, status, first_complaint(err.read()));
  return ran;
}

std::vector<std::string> split_documents(std::string_view text) {
  constexpr std::string_view end = "</svg>";
  std::vector<std::string> documents;
  for (std::size_t at = 0;;) {
    const std::size_t close = text.find(end, at);
    if (close == std::string_view::npos) return documents;
    std::size_t begin = at;
    while (begin < close && (text[begin] == '\n' || text[begin] == '\r')) ++begin;
    documents.emplace_back(text.substr(begin, close + end.size() - begin));
    at = close + end.size();
  }
}

Drawing draw(const std::vector<Plot>& plots, PlotTarget target, const std::string& program) {
  Drawing drawing;
  if (plots.empty()) return drawing;
  std::string script;
  for (const Plot& plot : plots) script += plot_script(plot, target, "");
  Ran ran = run_gnuplot(program, script, "");
  if (!ran.trouble.empty()) drawing.notes.push_back(std::move(ran.trouble));
  drawing.svg = split_documents(ran.out);
  if (drawing.svg.size() != plots.size()) {
    if (drawing.notes.empty())
      drawing.notes.push_back(
          fmt::format("Plots are missing: {} drew {} of {}.", program, drawing.svg.size(), plots.size()));
    drawing.svg.clear();
  }
  return drawing;
}

}  // namespace

Drawing draw_inline(const std::vector<Plot>& plots, const std::string& program) {
  return draw(plots, PlotTarget::inline_svg, program);
}

PlotFiles write_plots(const std::vector<Plot>& plots, const std::string& folder, const std::string& program) {
  PlotFiles files;
  if (plots.empty()) return files;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::bad_input, folder, "the folder cannot be made: {}", error.message());
  Drawing drawing = draw(plots, PlotTarget::svg, program);
  files.notes = std::move(drawing.notes);
  if (drawing.svg.empty()) return files;
  std::string script;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    const std::string name = plots[i].name + ".svg";
    write_file_atomically((fs::path(folder) / name).string(), drawing.svg[i] + "\n");
    script += plot_script(plots[i], PlotTarget::png, plots[i].name + ".png");
  }
  const Ran ran = run_gnuplot(program, script, folder);
  if (!ran.trouble.empty()) files.notes.push_back(ran.trouble);
  for (const Plot& plot : plots)
    for (const char* extension : {".svg", ".png"})
      if (fs::exists(fs::path(folder) / (plot.name + extension), error))
        files.names.push_back(plot.name + extension);
  return files;
}

}  // namespace mbench::reports
