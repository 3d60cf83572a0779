#include "engine/base/fiber.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "test/catch.h"

using mbench::Fiber;

TEST_CASE("a fiber stops where it pauses, and goes on from there") {
  std::string said;
  Fiber a([&](Fiber& self) {
    for (const char c : std::string("abc")) {
      said += c;
      self.pause();
    }
  });
  Fiber b([&](Fiber& self) {
    said += '1';
    self.pause();
    said += '2';
  });
  CHECK(!a.resume());
  CHECK(!b.resume());
  CHECK(!a.resume());
  CHECK(b.resume());
  CHECK(!a.resume());
  CHECK(a.resume());
  CHECK(said == "a1b2c");
}

TEST_CASE("what a fiber throws, who resumes it gets") {
  Fiber fiber([](Fiber& self) {
    self.pause();
    throw std::runtime_error("in the midst");
  });
  CHECK(!fiber.resume());
  CHECK_THROWS_WITH(fiber.resume(), "in the midst");
}

TEST_CASE("a fiber that nobody resumes gives back what it holds") {
  const auto held = std::make_shared<int>(1);
  bool went_on = false;
  {
    Fiber fiber([&, held](Fiber& self) {
      const std::shared_ptr<int> mine = held;
      self.pause();
      went_on = true;
    });
    fiber.resume();
    CHECK(held.use_count() == 3);
  }
  CHECK(held.use_count() == 1);
  CHECK(!went_on);
  {
    const Fiber idle([&](Fiber&) { went_on = true; });
  }  // one that was never begun
  CHECK(!went_on);
}

TEST_CASE("fibers follow each other by the thousand, each with a deep stack") {
  long sum = 0;
  const auto deep = [&](auto&& self, int n) -> long {
    volatile char frame[1024];
    frame[n % 1024] = 1;
    return n == 0 ? 0 : frame[n % 1024] + self(self, n - 1);
  };
  for (int i = 0; i < 2000; ++i) {
    Fiber fiber([&](Fiber& self) {
      self.pause();
      sum += deep(deep, 1000);
    });
    fiber.resume();
    CHECK(fiber.resume());
  }
  CHECK(sum == 2000L * 1000);
}
