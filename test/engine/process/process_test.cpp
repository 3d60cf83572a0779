#include "engine/process/process.h"

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "engine/base/json_reader.h"
#include "engine/process/line_log.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::process;
namespace fs = std::filesystem;
using How = ProcessEnd::How;

namespace {

using Folder = test::TemporaryFolder;

ProcessRequest shell(const std::string& script) {
  ProcessRequest request;
  request.argv = {"/bin/sh", "-c", script};
  return request;
}

}  // namespace

TEST_CASE("a program is given up when it is asked to be, and lines of stderr can be taken before the log") {
  const test::TemporaryFolder folder;
  ProcessRequest request;
  request.argv = {"/bin/sh", "-c", "echo kept >&2; echo told >&2; sleep 30"};
  request.log = folder / "log";
  bool reported = false;
  request.on_error_line = [&](std::string_view line) { return line == "told" && (reported = true); };
  request.give_up = [&] { return reported ? std::string("it has told") : std::string(); };
  const ProcessEnd end = run_process(request);
  CHECK(end.how == ProcessEnd::How::given_up);
  CHECK(end.why == "it has told");
  CHECK(end.seconds < 10);
  CHECK(read_text_file(folder / "log") == "kept\n");
}

TEST_CASE("a program's lines, log, environment and exit code arrive") {
  const Folder folder;
  std::vector<std::string> lines;
  ProcessRequest request = shell("echo one; echo two >&2; echo keep; echo \"$A\"; printf end; exit 5");
  request.env = {{"A", "b c"}};
  request.log = folder / "log";
  request.on_line = [&](std::string_view line) {
    lines.emplace_back(line);
    return line != "keep";
  };
  const ProcessEnd end = run_process(request);
  CHECK(end.how == How::exited);
  CHECK(end.code == 5);
  CHECK(lines == std::vector<std::string>{"one", "keep", "b c", "end"});
  CHECK(end.tail.size() == 2);
  const std::string log = read_text_file(folder / "log");
  CHECK(log.find("two\n") != std::string::npos);
  CHECK(log.find("keep\n") != std::string::npos);
  CHECK(end.trouble.empty());
}

TEST_CASE("a program reads its input whole, runs in its folder, and what it prints is kept byte by byte") {
  const Folder folder;
  std::string long_text(3 << 20, 'x');  // longer than any pipe holds, and than a line may be
  for (std::size_t i = 0; i < long_text.size(); i += 70001) long_text[i] = static_cast<char>(i % 7);
  ProcessRequest request = shell("cat; printf 'no end'; echo trouble >&2");
  request.input = long_text;
  request.keep_output = true;
  const ProcessEnd end = run_process(request);
  CHECK(end.how == How::exited);
  CHECK((end.output == long_text + "no end"));
  CHECK(end.tail == std::vector<std::string>{"trouble"});

  ProcessRequest where = shell("pwd; cat");
  where.folder = fs::canonical(folder.path).string();
  where.keep_output = true;
  CHECK(run_process(where).output == where.folder + "\n");  // and without input it waits for none
  where.folder = folder / "none";
  const ProcessEnd nowhere = run_process(where);
  CHECK(nowhere.how == How::not_started);
  CHECK(nowhere.code == ENOENT);
  CHECK(run_process(shell("exit 3")).output.empty());
}

TEST_CASE("a signal and a missing program are told") {
  const ProcessEnd killed = run_process(shell("kill -SEGV $$"));
  CHECK(killed.how == How::signalled);
  CHECK(killed.code == SIGSEGV);
  ProcessRequest request;
  request.argv = {"/no/such/program"};
  const ProcessEnd missing = run_process(request);
  CHECK(missing.how == How::not_started);
  CHECK(missing.code == ENOENT);
}

TEST_CASE("a time-out ends a program that ignores TERM, and its grandchildren in sessions of their own") {
  ProcessRequest request = shell(
      "trap '' TERM; (trap '' TERM; setsid sleep 60) & setsid sh -c 'sleep 60 & sleep 60' & sleep 60; sleep "
      "60");
  request.timeout_s = 0.3;
  const ProcessEnd end = run_process(request);
  CHECK(end.how == How::timed_out);
  CHECK(end.seconds < 20);
  CHECK(end.trouble.empty());
  CHECK(live_descendants(0).empty());
}

TEST_CASE("what a program leaves behind is ended, what was there before is not") {
  const pid_t bystander = ::fork();
  if (bystander == 0) {
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  const ProcessEnd end = run_process(shell("(setsid sleep 60 >/dev/null 2>&1 &); echo done"));
  CHECK(end.how == How::exited);
  CHECK(live_descendants(0) == std::set<pid_t>{bystander});
  ::kill(bystander, SIGKILL);
  ::waitpid(bystander, nullptr, 0);
}

TEST_CASE("an interrupt ends the program and is remembered") {
  Interrupt interrupt;
  CHECK_FALSE(interrupt.pending());
  ProcessRequest request = shell("kill -INT $PPID; sleep 60");
  request.interrupt = &interrupt;
  const ProcessEnd end = run_process(request);
  CHECK(end.how == How::interrupted);
  CHECK(interrupt.pending());
  CHECK(live_descendants(0).empty());
}

TEST_CASE("a program that closes its output is still waited for") {
  const ProcessEnd end = run_process(shell("exec >/dev/null 2>&1; sleep 0.2; exit 4"));
  CHECK(end.how == How::exited);
  CHECK(end.code == 4);
}

TEST_CASE("a log keeps the last lines and stops at its limit") {
  const Folder folder;
  LineLog log(folder / "log");
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) log.add(line);
  log.add("the end");
  CHECK(log.tail().back() == "the end");
  CHECK(log.tail().front().size() == 500);
  CHECK(fs::file_size(folder / "log") < 18u << 20);
  LineLog nowhere(folder / "no/log");
  nowhere.add("kept in memory");
  CHECK(nowhere.tail().back() == "kept in memory");
  CHECK_FALSE(nowhere.trouble().empty());
}

TEST_CASE("a line without end is cut") {
  LineSplitter lines;
  std::vector<std::size_t> sizes;
  const auto count = [&](std::string_view line) { sizes.push_back(line.size()); };
  lines.add("a\n\nbc", count);
  CHECK(sizes == std::vector<std::size_t>{1, 0});
  lines.add("d\n" + std::string(70000, 'x'), count);
  CHECK(sizes == std::vector<std::size_t>{1, 0, 3});  // a long line is one line
  lines.add("x\n" + std::string(9 << 20, 'x'), count);
  CHECK(sizes == std::vector<std::size_t>{1, 0, 3, 70001, 9 << 20});
  lines.add("tail", count);
  lines.flush(count);
  CHECK(sizes.back() == 4);
}
