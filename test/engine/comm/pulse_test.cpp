#include "engine/comm/pulse.h"

#include <atomic>
#include <thread>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;

TEST_CASE("pulse: tells the communication that a rank is in, the outer one, and moves with each") {
  Pulse pulse;
  const int dp = pulse.number_of("dp"), tp = pulse.number_of("tp");
  CHECK(pulse.number_of("dp") == dp);
  CHECK(dp != tp);
  const Pulse::Sight before = pulse.look();
  CHECK(before.in.empty());
  {
    const Pulse::In in(&pulse, "all_reduce", tp);
    const Pulse::Sight outer = pulse.look();
    CHECK(outer.in == "all_reduce of tp");
    CHECK(outer.turn > before.turn);
    const Pulse::In inner(&pulse, "wait", dp);
    CHECK(pulse.look() == outer);
  }
  CHECK(pulse.look().in.empty());
  CHECK(pulse.look().turn == before.turn + 2);
  { const Pulse::In none(nullptr, "wait", dp); }
}

TEST_CASE("pulse: read while it moves, it names what was begun in that turn or nothing") {
  Pulse pulse;
  const int groups[] = {pulse.number_of("a"), pulse.number_of("b")};
  const char* const whats[] = {"all_reduce", "barrier"};
  std::atomic<bool> stop = false;
  std::thread rank([&] {
    for (int i = 0; !stop; ++i) const Pulse::In in(&pulse, whats[i % 2], groups[i % 2]);
  });
  for (int i = 0; i < 20000; ++i) {
    const std::string in = pulse.look().in;
    if (!(in.empty() || in == "all_reduce of a" || in == "barrier of b")) FAIL("a name of two turns: " << in);
  }
  stop = true;
  rank.join();
}
