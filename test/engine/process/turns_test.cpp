#include "engine/process/turns.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "engine/base/error.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::process;
using Catch::Matchers::Contains;
using namespace std::chrono_literals;

namespace {

using Folder = test::TemporaryFolder;

}  // namespace

TEST_CASE("two sides take turns, one of them at a time") {
  const Folder folder;
  std::atomic<int> inside = 0, both = 0;
  std::string order;  // written by the one whose turn it is
  const auto side = [&](int number) {
    Turns turns(folder.path, number);
    turns.join(30s);
    for (int i = 0; i < 20; ++i) {
      turns.wait();
      if (++inside != 1) ++both;
      order += std::to_string(number);
      std::this_thread::sleep_for(1ms);
      --inside;
      turns.pass();
    }
    turns.wait();  // the other may have a turn left
  };
  std::thread second(side, 2);
  side(1);
  second.join();
  CHECK(both == 0);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "12";
  CHECK(order == expected);
}

TEST_CASE("nobody waits for a side that is gone, and a side that does not come is said") {
  const Folder folder;
  Turns first(folder.path, 1);
  CHECK_THROWS_WITH(first.join(50ms), Contains("nobody came") && Contains("need a sweep as 2 too"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // has the turn when it is killed
    Turns other(folder.path, 2);
    other.join(30s);
    other.wait();
    ::pause();
    ::_exit(0);
  }
  Turns again(folder.path, 1);
  CHECK_THROWS_WITH(again.join(20ms), Contains("1 is taken"));
  while (true) {
    try {
      Turns(folder.path, 2).join(1ms);
    } catch (const Error& e) {
      if (std::string(e.what()).find("2 is taken") != std::string::npos) break;  // the child has it
    }
  }
  first.pass();
  std::atomic<bool> waited = false;
  std::thread waiter([&] {
    first.wait();
    waited = true;
  });
  std::this_thread::sleep_for(100ms);
  CHECK_FALSE(waited);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  waiter.join();
  CHECK(waited);
  bool stopped = false;
  first.wait([&] { return stopped = true; });  // its own turn or not, there is nobody
  CHECK_THROWS_AS(Turns("/proc/none", 1).join(1ms), Error);
  CHECK_THROWS_WITH(Turns(folder.path, 3), Contains("got 3"));
}
