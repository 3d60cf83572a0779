// What a rank holds, tensor by tensor: sums against the allocator's own, the snapshot against the row's figures.
#include "engine/sim/recording/memory_log.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "engine/base/pickle.h"
#include "engine/point/fields.h"
#include "engine/sim/run/step_costs.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::test;

namespace {

Point pipeline(std::int64_t pp, const char* framework) {
  Point p;
  p.model = {"small", "gpt", 8, 512, 8, 2048, 4000, 512};
  p.seq = 512;
  p.precision = Precision::bf16;
  p.pp = pp, p.micro_batch = 2, p.global_batch = 16;
  p.framework.preset = framework;
  return p;
}

struct Recorded {
  Plan plan;
  sim::Recording recording;
  std::optional<sim::CachingSettings> caching;
};
Recorded recorded(const Point& p) {
  Plan plan = strategies::make_plan(p);
  sim::Recording recording = sim::record(plan, 8, nullptr, nullptr);
  const auto caching = sim::caching_of(plan, p.env);
  return {std::move(plan), std::move(recording), caching};
}

}  // namespace

TEST_CASE("tensors at the peak add up to the peak, by category too, and say where they are from") {
  for (const char* framework : {"mbench", "megatron-core", "torchtitan"})
    for (const std::int64_t pp : {1, 4}) {
      INFO(framework << ", pp " << pp);
      const Recorded r = recorded(pipeline(pp, framework));
      const auto replayed = sim::replay_memory(r.plan, r.recording, 0, r.caching);
      for (std::size_t i = 0; i < replayed.size(); ++i) {
        const sim::RankClasses::Class& c = r.recording.classes.classes[i];
        const sim::PeakByTensor peak = sim::peak_by_tensor(r.plan, r.recording, c, r.caching);
        CHECK(peak.total == replayed[i].peak.total);
        std::array<std::size_t, kCategories> by_category{};
        std::size_t before = peak.total;
        std::set<std::string> where;
        for (const sim::TensorsAtPeak& t : peak.tensors) {
          by_category[static_cast<std::size_t>(t.category)] += t.bytes;
          CHECK(t.bytes <= before);
          CHECK(t.count > 0);
          before = t.bytes;
          where.insert(t.where);
        }
        CHECK(by_category == replayed[i].peak.by_category);
        const std::int64_t first = c.stage * 8 / pp, last = first + 8 / pp - 1;
        CHECK(where.count(fmt::format("layers {}-{}", first, last)) == 1);
      }
    }
}

TEST_CASE("what a later stage keeps of micro batches in flight is told by their number") {
  const Recorded r = recorded(pipeline(4, "megatron-core"));
  const auto made_in = [&](std::size_t stage) {
    std::set<std::string> all;
    for (const sim::TensorsAtPeak& t :
         sim::peak_by_tensor(r.plan, r.recording, r.recording.classes.classes[stage], r.caching).tensors)
      all.insert(t.made_by);
    return all;
  };
  CHECK(made_in(0).count("forward of 4 micro batches") == 1);
  CHECK(made_in(2).count("forward of 2 micro batches") == 1);
  CHECK(made_in(2).count("forward of 4 micro batches") == 0);
}

TEST_CASE(
    "a snapshot has the reserved memory in its segments, the allocated one in their blocks, and a trace that ends "
    "where it began") {
  for (const char* framework : {"mbench", "megatron-core", "torchtitan"}) {
    INFO(framework);
    const Point p = pipeline(1, framework);
    const Recorded r = recorded(p);
    const sim::RankClasses::Class& c = r.recording.classes.classes.front();
    const nlohmann::json snapshot = sim::memory_snapshot(r.plan, r.recording, c, r.caching);
    std::size_t reserved = 0, used = 0;
    std::map<std::size_t, std::size_t> held;  // of blocks in use, by address: what was asked for
    for (const auto& segment : snapshot.at("segments")) {
      reserved += segment.at("total_size").get<std::size_t>();
      used += segment.at("allocated_size").get<std::size_t>();
      std::size_t end = segment.at("address");
      for (const auto& block : segment.at("blocks")) {
        CHECK(block.at("address") == end);
        end += block.at("size").get<std::size_t>();
        if (block.at("state") != "active_allocated") continue;
        CHECK_FALSE(block.at("frames").empty());
        held[block.at("address")] = block.at("requested_size");
      }
      CHECK(end == segment.at("address").get<std::size_t>() + segment.at("total_size").get<std::size_t>());
    }
    CHECK(reserved == sim::replay_memory(r.plan, r.recording, 0, r.caching).front().reserved);
    // Backwards through the trace: what is taken is there, what is freed comes back, and most is there at the peak.
    const auto& trace = snapshot.at("device_traces").at(0);
    std::size_t now = 0, most = 0;
    for (const auto& [address, size] : held) now += size;
    CHECK(now <= used);
    most = now;
    for (auto e = trace.rbegin(); e != trace.rend(); ++e) {
      const std::size_t address = e->at("addr"), size = e->at("size");
      if (e->at("action") == "alloc") {
        REQUIRE(held.count(address) == 1);
        CHECK(held[address] == size);
        held.erase(address);
        now -= size;
      } else if (e->at("action") == "free_requested") {
        REQUIRE(held.count(address) == 0);
        held[address] = size;
        now += size;
      }
      most = std::max(most, now);
    }
    CHECK(most == sim::peak_by_tensor(r.plan, r.recording, c, r.caching).total);
  }
}

TEST_CASE("memory over a step: parts in the schedule's order, their moments within them, and the peak by category") {
  for (const char* framework : {"mbench", "megatron-core"})
    for (const std::int64_t pp : {1, 4}) {
      INFO(framework << ", pp " << pp);
      const Recorded r = recorded(pipeline(pp, framework));
      const sim::RankClasses::Class& c = r.recording.classes.classes.front();
      const sim::MemoryOverStep over = sim::memory_over_step(r.plan, r.recording, c, r.caching);
      REQUIRE(over.parts.size() > 3);
      CHECK((over.parts[0] == "forward 0" || over.parts[1] == "forward 0"));
      CHECK(over.parts.back() == "backward 7");  // the optimizer takes nothing
      CHECK(std::count(over.parts.begin(), over.parts.end(), "backward 7") == 1);
      CHECK(std::set<std::string>(over.parts.begin(), over.parts.end()).size() == over.parts.size());
      std::size_t most = 0;
      std::array<std::size_t, kCategories> at_most{};
      double before = 0;
      for (const auto& moment : over.moments) {
        CHECK(moment.at >= before);
        before = moment.at;
        const std::size_t total = std::accumulate(moment.bytes.begin(), moment.bytes.end(), std::size_t{0});
        if (total > most) most = total, at_most = moment.bytes;
      }
      CHECK(over.moments.front().at == 0);
      CHECK(before == static_cast<double>(over.parts.size()));
      CHECK(over.moments.front().bytes == over.moments.back().bytes);  // of steps that are alike
      const MemoryUse peak = sim::replay_memory(r.plan, r.recording, 0, r.caching).front().peak;
      CHECK(most == peak.total);
      CHECK(at_most == peak.by_category);
    }
}

TEST_CASE("memory over a step: what the optimizer takes is a part of its own") {
  Point p = pipeline(1, "megatron-core");
  p.gradients_in_bf16 = true;  // of which it makes f32 copies
  const Recorded r = recorded(p);
  const sim::MemoryOverStep over =
      sim::memory_over_step(r.plan, r.recording, r.recording.classes.classes.front(), r.caching);
  CHECK(over.parts.back() == "optimizer");
}

TEST_CASE("a pickle is what Python's protocol 2 says") {
  using namespace std::string_literals;
  CHECK(to_pickle(nullptr) == "\x80\x02N."s);
  CHECK(to_pickle({{"a", 1}, {"b", {true, -2}}}) ==
        "\x80\x02}(X\x01\0\0\0aJ\x01\0\0\0X\x01\0\0\0b](\x88J\xfe\xff\xff\xff"s
        "eu."s);
  CHECK(to_pickle(0.5) == "\x80\x02G\x3f\xe0\0\0\0\0\0\0."s);
  CHECK(to_pickle(std::uint64_t{1} << 46) == "\x80\x02\x8a\x09\0\0\0\0\0\x40\0\0\0."s);
  CHECK(to_pickle(std::int64_t{-1} - (std::int64_t{1} << 40)) ==
        "\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xfe\xff\xff\xff."s);
}
