#include "search/by_layout.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::search;

TEST_CASE("what several threads ask of a layout is made once") {
  ByLayout<int> known;
  Point p;
  p.tp = 2;
  std::atomic<int> made = 0, asked = 0;
  std::vector<const int*> found(4);
  std::vector<std::thread> threads;
  for (const int*& place : found)
    threads.emplace_back([&] {
      ++asked;
      place = &known.once(p, 7, [&] {
        while (asked < 4) std::this_thread::yield();  // all of them ask before it is there
        ++made;
        return 42;
      });
    });
  for (std::thread& t : threads) t.join();
  CHECK(made == 1);
  for (const int* place : found) {
    CHECK(place == found[0]);
    CHECK(*place == 42);
  }
  CHECK(known.once(p, 8, [] { return 8; }) == 8);
  p.tp = 4;
  CHECK(known.once(p, 7, [] { return 4; }) == 4);
}

TEST_CASE("what another thread makes now need not be waited for") {
  ByLayout<int> known;
  const Point p;
  std::atomic<bool> begun = false, go_on = false;
  std::thread other([&] {
    known.once(p, 1, [&] {
      begun = true;
      while (!go_on) std::this_thread::yield();
      return 1;
    });
  });
  while (!begun) std::this_thread::yield();
  CHECK(known.unless_being_made(p, 1, [] { return -1; }) == nullptr);
  const int* mine = known.unless_being_made(p, 2, [] { return 2; });
  REQUIRE(mine);
  CHECK(*mine == 2);
  go_on = true;
  other.join();
  const int* there = known.unless_being_made(p, 1, [] { return -1; });
  REQUIRE(there);
  CHECK(*there == 1);
}

TEST_CASE("what could not be made is made by who asks next") {
  ByLayout<int> known;
  const Point p;
  const auto fails = []() -> int { throw std::runtime_error("full"); };
  CHECK_THROWS_AS(known.once(p, 1, fails), std::runtime_error);
  CHECK(known.once(p, 1, [] { return 5; }) == 5);
  std::atomic<bool> begun = false, asks = false;
  std::thread other([&] {
    try {
      known.once(p, 2, [&]() -> int {
        begun = true;
        while (!asks) std::this_thread::yield();
        throw std::runtime_error("full");
      });
    } catch (const std::runtime_error&) {
    }
  });
  while (!begun) std::this_thread::yield();
  asks = true;
  CHECK(known.once(p, 2, [] { return 6; }) == 6);
  other.join();
}
