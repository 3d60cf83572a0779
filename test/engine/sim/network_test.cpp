// What simulated ranks share: time stamps in order, meetings, and an end for all who wait for one that has
// ended.
#include "test/engine/sim/threaded/network.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <thread>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;

namespace {

// Runs `stage(s)` in a thread for each stage; each leaves when it ends.
void on_stages(SimNetwork& network, const std::function<void(int)>& stage) {
  std::vector<std::thread> threads;
  for (int s = 0; s < network.stages(); ++s)
    threads.emplace_back([&, s] {
      stage(s);
      network.leave(s);
    });
  for (std::thread& t : threads) t.join();
}

// Groups, by their numbers.
constexpr int kWorld = 0, kPipeline = 3, kAnother = 4, kLow = 5, kHigh = 6, kEnds = 7;

// Numbers as the bytes that a meeting exchanges, and back.
SimNetwork::Bytes bytes_of(const std::vector<double>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
std::vector<std::vector<double>> meet(SimNetwork& network, int group, const std::vector<int>& stages, int me,
                                      const std::vector<double>& values) {
  std::vector<std::vector<double>> all;
  for (const SimNetwork::Bytes& bytes : network.meet(group, stages, me, bytes_of(values))) {
    all.emplace_back(bytes.size() / sizeof(double));
    std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

enum class End { normal, stopped, stuck, other };

End end_of(const std::function<void()>& call) {
  try {
    call();
    return End::normal;
  } catch (const SimNetwork::Stopped&) {
    return End::stopped;
  } catch (const Error& e) {
    return e.kind() == ErrorKind::internal ? End::stuck : End::other;
  }
}

}  // namespace

TEST_CASE("the ranks of a stage are adjacent") {
  const SimNetwork network(4, 8);
  CHECK(network.stages() == 4);
  CHECK(network.stage_of(0) == 0);
  CHECK(network.stage_of(7) == 0);
  CHECK(network.stage_of(8) == 1);
  CHECK(network.stage_of(31) == 3);
}

TEST_CASE("messages carry their time and keep their order within a group, a pair and a tag") {
  SimNetwork network(2, 1);
  std::vector<double> odd, even, other;
  on_stages(network, [&](int s) {
    if (s == 0) {
      for (int i = 0; i < 100; ++i) network.send(kPipeline, 0, 1, i % 2, i);
      network.send(kAnother, 0, 1, 0, -1);
      return;
    }
    // Taken in another order than sent.
    other.push_back(network.receive(kAnother, 0, 1, 0));
    for (int i = 0; i < 50; ++i) odd.push_back(network.receive(kPipeline, 0, 1, 1));
    for (int i = 0; i < 50; ++i) even.push_back(network.receive(kPipeline, 0, 1, 0));
  });
  CHECK(other == std::vector<double>{-1});
  REQUIRE(odd.size() == 50);
  REQUIRE(even.size() == 50);
  for (int i = 0; i < 50; ++i) {
    CHECK(even[static_cast<std::size_t>(i)] == 2 * i);
    CHECK(odd[static_cast<std::size_t>(i)] == 2 * i + 1);
  }
}

TEST_CASE("a meeting gives everyone all values in the order of the stages, round after round") {
  constexpr int stages = 5, rounds = 200;
  SimNetwork network(stages, 1);
  std::atomic<int> wrong = 0;
  on_stages(network, [&](int s) {
    for (int round = 0; round < rounds; ++round) {
      const auto all = meet(network, kWorld, {0, 1, 2, 3, 4}, s, {double(s), double(round)});
      if (all.size() != stages) ++wrong;
      for (int i = 0; i < static_cast<int>(all.size()); ++i)
        if (all[static_cast<std::size_t>(i)] != std::vector<double>{double(i), double(round)}) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("meetings of different groups and members do not mix") {
  SimNetwork network(4, 1);
  std::atomic<int> wrong = 0;
  on_stages(network, [&](int s) {
    for (int round = 0; round < 50; ++round) {
      const std::vector<int> pair = s < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
      const auto two = meet(network, s < 2 ? kLow : kHigh, pair, s, {double(s)});
      if (two != std::vector<std::vector<double>>{{double(pair[0])}, {double(pair[1])}}) ++wrong;
      if (s == 0 || s == 3) {
        const auto ends = meet(network, kEnds, {0, 3}, s, {double(10 * s)});
        if (ends != std::vector<std::vector<double>>{{0}, {30}}) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a stage that ends stops those who wait for its message, but what it had sent arrives") {
  SimNetwork network(3, 1);
  double last = 0;
  End end[3] = {};
  on_stages(network, [&](int s) {
    end[s] = end_of([&] {
      if (s == 0) return network.send(kPipeline, 0, 1, 7, 42);
      if (s == 1) {
        last = network.receive(kPipeline, 0, 1, 7);
        network.receive(kPipeline, 0, 1, 7);
      } else {
        network.receive(kPipeline, 1, 2, 0);
      }
    });
  });
  CHECK(last == 42);
  CHECK(end[0] == End::normal);
  CHECK(end[1] == End::stopped);  // stage 0 has ended
  CHECK(end[2] == End::stopped);  // and so has stage 1
}

TEST_CASE("a stage that ends stops those who meet without it, but not those whom it has met") {
  SimNetwork network(3, 1);
  End first[3] = {}, second[3] = {};
  on_stages(network, [&](int s) {
    first[s] = end_of([&] { meet(network, kWorld, {0, 1, 2}, s, {1}); });
    if (s == 2) return;
    second[s] = end_of([&] { meet(network, kWorld, {0, 1, 2}, s, {2}); });
  });
  for (const End e : first) CHECK(e == End::normal);
  CHECK(second[0] == End::stopped);
  CHECK(second[1] == End::stopped);
}

TEST_CASE("where every stage waits for another the simulation fails instead of hanging") {
  for (int round = 0; round < 20; ++round) {
    SimNetwork network(3, 1);
    End end[3] = {};
    on_stages(network, [&](int s) { end[s] = end_of([&] { network.receive(kPipeline, (s + 1) % 3, s, 0); }); });
    // At least one says so; who wakes later may find its partner gone already.
    int stuck = 0;
    for (const End e : end) {
      CHECK((e == End::stuck || e == End::stopped));
      stuck += e == End::stuck ? 1 : 0;
    }
    CHECK(stuck >= 1);
  }
}

TEST_CASE("those left when a stage has ended are found stuck as well") {
  SimNetwork network(3, 1);
  End end[3] = {};
  on_stages(network, [&](int s) {
    end[s] = end_of([&] {
      if (s < 2) network.receive(kPipeline, 1 - s, s, 0);  // stage 2 ends at once and nobody waits for it
    });
  });
  CHECK(end[2] == End::normal);
  CHECK((end[0] == End::stuck || end[1] == End::stuck));
  CHECK(end[0] != End::normal);
  CHECK(end[1] != End::normal);
}

TEST_CASE("a message wakes only who waits for it, whatever else is going on") {
  // A ring in which each stage passes the sum on: the same total in every run.
  for (int run = 0; run < 20; ++run) {
    constexpr int stages = 6, laps = 20;
    SimNetwork network(stages, 1);
    double total = 0;
    on_stages(network, [&](int s) {
      const int before = (s + stages - 1) % stages, after = (s + 1) % stages;
      for (int lap = 0; lap < laps; ++lap) {
        const double sum = s == 0 && lap == 0 ? 0 : network.receive(kPipeline, before, s, lap - (s == 0 ? 1 : 0));
        network.send(kPipeline, s, after, lap, sum + 1);
      }
      if (s == 0) total = network.receive(kPipeline, before, s, laps - 1);
    });
    CHECK(total == stages * laps);
  }
}
