#include "engine/base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "test/catch.h"

using namespace mbench;

TEST_CASE("each_in_parallel: each number once, with any number of threads and neighbours") {
  for (const int threads : {1, 2, 5})
    for (const std::size_t run : {std::size_t{1}, std::size_t{3}}) {
      INFO(threads << " threads, " << run << " neighbours");
      std::vector<std::atomic<int>> calls(10);
      each_in_parallel(
          calls.size(), threads, [&](std::size_t i) { ++calls[i]; }, run);
      for (const auto& n : calls) CHECK(n == 1);
    }
  each_in_parallel(0, 4, [](std::size_t) { FAIL("nothing is to be done"); });
}

TEST_CASE("each_in_parallel: the exception of the lowest number is thrown, once all threads have ended") {
  for (const int threads : {1, 4}) {
    std::atomic<int> running{0};
    std::string what;
    try {
      each_in_parallel(100, threads, [&](std::size_t i) {
        ++running;
        const bool fails = i % 10 == 7;
        --running;
        if (fails) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& e) {
      what = e.what();
    }
    CHECK(running == 0);
    CHECK(what == "7");
  }
}
