// Groups of simulated ranks: when a collective or a message ends on the virtual clock, and what a group of
// one costs.
#include "test/engine/sim/threaded/world.h"

#include <functional>
#include <thread>

#include "engine/comm/gather.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/run/counting.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::sim;

namespace {

constexpr double kCall = 1e-5, kLaunch = 3e-6;  // of the host

HostTimes host_times() {
  HostTimes t;
  t.launch = kLaunch;
  t.collective = t.message = kCall;
  return t;
}

const Machine& machine() {
  static const Machine m = find_machine("A100-SXM4-80GB", "test");
  return m;
}

// A pipeline stage of that many ranks, the first of which runs here.
struct Stage {
  Stage(SimNetwork& network, int stage, int ranks, const HostTimes& times = host_times())
      : clock(times),
        device("A100", 0, std::make_unique<sim::CostModel>(machine(), find_framework("mbench", "test"), 1.0), clock),
        world(stage * ranks, network.stages() * ranks, network, links, clock) {}
  Tensor tensor(std::int64_t rows) { return device.empty({rows, 1024}, DType::f32, Category::other, "x"); }
  // A kernel of that time, on an idle stream.
  void compute(double seconds) { clock.kernel(seconds, TimePart::gemms); }
  double copy_seconds(const Tensor& x) {
    return sim::CostModel(machine(), find_framework("mbench", "test"), 1.0)
        .streaming_seconds({0, 2 * static_cast<double>(x.bytes())});
  }

  Links links{machine(), true};
  VirtualClock clock;
  sim::SimDevice device;
  SimWorld world;
};

std::vector<int> first(int n) {
  std::vector<int> members;
  for (int i = 0; i < n; ++i) members.push_back(i);
  return members;
}

}  // namespace

TEST_CASE("a simulated group of one costs the copies that it makes and nothing else") {
  SimNetwork network(1, 1);
  Stage s(network, 0, 1);
  const auto alone = s.world.group(s.device, "alone", {0});
  const Tensor in = s.tensor(4096), out = s.tensor(4096);
  const std::vector<std::int64_t> rows{4096};
  const comm::Collective collectives[] = {comm::AllGather{in, out}, comm::ReduceScatter{in, out},
                                          comm::AllToAll{in, out}, comm::AllToAll{in, out, rows, rows},
                                          comm::Shift{in, out}};
  std::vector<std::function<void()>> calls;
  for (const comm::Collective& c : collectives) {
    calls.push_back([&] { alone->run(c); });
    calls.push_back([&] { alone->start(c)->wait(); });
  }
  for (const auto& call : calls) {
    const double begin = s.clock.synchronize();
    call();
    CHECK(s.clock.now() - begin == Approx(kLaunch + s.copy_seconds(in)));
  }
  const double begin = s.clock.synchronize();
  alone->run(comm::AllGather{in, in});
  alone->run(comm::AllReduce{in});
  alone->run(comm::Broadcast{in, 0});
  alone->start(comm::Broadcast{in, 0})->wait();
  alone->run(comm::Reduce{in, 0});
  alone->start(comm::Reduce{in, 0})->wait();
  alone->barrier();
  CHECK(s.clock.now() == begin);
  CHECK(sum_of(s.device.meter().communication_bytes) == 0);
  CHECK(s.device.meter().launches == std::size(calls));

  // Where nothing has a time, the copies are counted all the same, as on the devices that make them.
  const auto counting = open_counting_device(0);
  const auto lone = lone_world(3, 8);
  const auto counted = lone->group(*counting, "alone", {3});
  const Tensor x = counting->empty({8}, DType::f32, Category::other, "x");
  const Tensor y = counting->empty({8}, DType::f32, Category::other, "y");
  counted->run(comm::AllGather{x, y});
  counted->run(comm::AllToAll{x, y});
  CHECK(counting->meter().launches == 2);
  CHECK(sum_of(counting->meter().communication_bytes) == 0);
}

TEST_CASE("an all_to_all takes what the links say, of unequal parts as long as if all were the largest") {
  SimNetwork network(1, 16);
  Stage s(network, 0, 16);
  const auto group = s.world.group(s.device, Axes{Axis::ep}, first(16));
  const Tensor x = s.tensor(16 * 32), y = s.tensor(16 * 32);
  const double equal = s.links.all_to_all(static_cast<double>(x.bytes()), {8, 2});
  double begin = s.clock.synchronize();
  group->run(comm::AllToAll{x, y});
  CHECK(s.clock.now() - begin == Approx(kCall + equal));
  CHECK(sum_of(s.device.meter().communication_bytes) == static_cast<double>(x.bytes()));

  // One peer gets 32 rows, the others few or none: as long as 32 for each.
  std::vector<std::int64_t> send(16, 1), receive(16, 2);
  send[5] = 32, send[6] = 0, receive[0] = 1;
  const Tensor out = s.tensor(46), in = s.tensor(31);
  begin = s.clock.synchronize();
  group->run(comm::AllToAll{out, in, send, receive});
  CHECK(s.clock.now() - begin == Approx(kCall + equal));
  std::swap(send, receive);
  begin = s.clock.synchronize();
  group->run(comm::AllToAll{in, out, send, receive});
  CHECK(s.clock.now() - begin == Approx(kCall + equal));
}

TEST_CASE("tensors whose rows are forwarded together take one exchange of all their bytes") {
  SimNetwork network(1, 16);
  Stage s(network, 0, 16);
  const auto group = s.world.group(s.device, Axes{Axis::ep}, first(16));
  CHECK(group->ranks_on_node() == 8);
  CHECK(s.world.group(s.device, "pair", first(2))->ranks_on_node() == 2);
  const std::vector<std::int64_t> rows(16, 32);
  const Tensor x = s.tensor(16 * 32), y = s.tensor(16 * 32), narrow = s.tensor(16 * 32), other = s.tensor(16 * 32);
  const double begin = s.clock.synchronize(), before = sum_of(s.device.meter().communication_bytes);
  group->run(comm::ForwardedAllToAll{{{x, y}, {narrow, other}}, rows, rows, 100});
  CHECK(s.clock.now() - begin == Approx(kCall + s.links.forwarded(2 * row_bytes(x), rows, rows, 100, {8, 2})));
  CHECK(sum_of(s.device.meter().communication_bytes) - before == static_cast<double>(x.bytes() + narrow.bytes()));
}

TEST_CASE("a started all_to_all runs beside what is computed until it is waited for") {
  SimNetwork network(1, 8);
  Stage s(network, 0, 8);
  const auto group = s.world.group(s.device, Axes{Axis::ep}, first(8));
  const Tensor x = s.tensor(8 * 4096), y = s.tensor(8 * 4096);
  const double seconds = s.links.all_to_all(static_cast<double>(x.bytes()), {8, 1});
  for (const double kernel : {0.1 * seconds, 10 * seconds}) {
    const double begin = s.clock.synchronize();
    const auto pending = group->start(comm::AllToAll{x, y});
    s.compute(kernel);
    pending->wait();
    CHECK(s.clock.now() - begin == Approx(kCall + std::max(seconds, kLaunch + kernel)));
  }
}

TEST_CASE("what is reduced behind another collective begins where that ends, and both run beside what is computed") {
  SimNetwork network(1, 16);
  Stage s(network, 0, 16);
  const auto within = s.world.group(s.device, Axes{Axis::dp}, first(8)),
             between = s.world.group(s.device, Axes{Axis::dp_replicate}, {0, 8});
  const Tensor whole = s.tensor(8 * 4096), part = whole.slice(0, 4096);
  const double first_half = s.links.all_gather(static_cast<double>(whole.bytes()), {8, 1}),
               second_half = s.links.all_reduce(static_cast<double>(part.bytes()), {1, 2}),
               both = first_half + second_half;
  CHECK(std::min(first_half, second_half) > 3 * kCall);
  for (const double kernel : {0.1 * first_half, first_half + 0.5 * second_half, 10 * both}) {
    INFO(kernel / both);
    const double begin = s.clock.synchronize();
    const auto pending = between->start(comm::AllReduce{part}, within->start(comm::ReduceScatter{whole, part}));
    s.compute(kernel);
    pending->wait();
    // The host enqueues the second while the first runs.
    CHECK(s.clock.now() - begin == Approx(kCall + std::max(both, kCall + kLaunch + kernel)));
  }
  // Of a group of one there is nothing to come behind.
  const auto alone = s.world.group(s.device, "alone", {0});
  const double begin = s.clock.synchronize();
  alone->start(comm::AllReduce{part}, within->start(comm::ReduceScatter{whole, part}))->wait();
  CHECK(s.clock.now() - begin == Approx(kCall + first_half));
  // And what needs nobody else has ended.
  const double then = s.clock.synchronize();
  between->start(comm::AllReduce{part}, alone->start(comm::ReduceScatter{part, part}))->wait();
  CHECK(s.clock.now() - then == Approx(kCall + second_half));
}

TEST_CASE("a started shift runs beside what is computed until it is waited for") {
  SimNetwork network(1, 4);
  Stage s(network, 0, 4);
  const auto ring = s.world.group(s.device, Axes{Axis::cp}, first(4));
  const Tensor x = s.tensor(4096), y = s.tensor(4096);
  const double seconds = s.links.message(static_cast<double>(x.bytes()), 0, 1);
  for (const double kernel : {0.1 * seconds, 10 * seconds}) {
    const double begin = s.clock.synchronize();
    const auto pending = ring->start(comm::Shift{x, y});
    s.compute(kernel);
    pending->wait();
    CHECK(s.clock.now() - begin == Approx(kCall + std::max(seconds, kLaunch + kernel)));
  }
}

TEST_CASE("what a framework enqueues by one call costs its host the first kernel, and its shifts slow no kernel") {
  SimNetwork network(1, 4);
  HostTimes times = host_times();
  times.overlap_slowdown = 0.25;
  Stage s(network, 0, 4, times);
  const auto ring = s.world.group(s.device, Axes{Axis::tp}, first(4));
  const Tensor x = s.tensor(4096), y = s.tensor(4096), z = s.tensor(16);
  const auto seconds = [&](bool one_call) {
    const double begin = s.clock.synchronize();
    std::optional<OneCall> call;
    if (one_call) call.emplace(s.device, 1);
    const auto pending = ring->start(comm::Shift{x, y});
    for (int i = 0; i < 3; ++i) run(s.device, ops::Fill{z, 0});
    const double end = s.clock.now();
    pending->wait();
    call.reset();
    return end - begin;
  };
  const double kernel =
      sim::CostModel(machine(), find_framework("mbench", "test"), 1.0).streaming_seconds(ops::Fill{z, 0}.cost());
  REQUIRE(kernel > 0);
  // The host is behind the device either way, so that each kernel begins when it has been enqueued.
  REQUIRE(1.25 * kernel < kLaunch);
  CHECK(seconds(false) == Approx(kCall + 3 * kLaunch + 1.25 * kernel));
  CHECK(seconds(true) == Approx(kLaunch + 3 * kernel));
  CHECK(seconds(false) == Approx(kCall + 3 * kLaunch + 1.25 * kernel));  // and what follows is charged again
}

TEST_CASE("a started receive moves beside what is computed, once it has been started and sent") {
  SimNetwork network(1, 4);
  Stage s(network, 0, 4);
  const auto ring = s.world.group(s.device, Axes{Axis::cp}, first(4));  // whose ranks do all the same
  const Tensor x = s.tensor(4096), y = s.tensor(4096);
  const double seconds = s.links.message(static_cast<double>(x.bytes()), 3, 0);
  for (const double kernel : {0.1 * seconds, 10 * seconds}) {
    const double begin = s.clock.synchronize();
    const auto receive = ring->start(comm::Receive{y, 3, 0});
    const auto send = ring->start(comm::Send{x, 1, 0});
    s.compute(kernel);
    receive->wait();
    send->wait();
    CHECK(s.clock.now() - begin == Approx(2 * kCall + std::max(seconds, kLaunch + kernel)));
  }
  // A receive that is the whole of it begins when it is called.
  const double begin = s.clock.synchronize();
  const auto send = ring->start(comm::Send{x, 1, 0});
  s.compute(10 * seconds);
  ring->run(comm::Receive{y, 3, 0});
  CHECK(s.clock.now() - begin == Approx(kCall + kLaunch + 11 * seconds));
}

TEST_CASE("messages of a tag go to receives in the order these were started, however they are waited for") {
  SimNetwork network(2, 1);
  Stage sender(network, 0, 1), receiver(network, 1, 1);
  const auto from = sender.world.group(sender.device, Axes{Axis::pp}, {0, 1});
  const auto to = receiver.world.group(receiver.device, Axes{Axis::pp}, {0, 1});
  const Tensor x = sender.tensor(1), y = receiver.tensor(1);
  const double seconds = receiver.links.message(static_cast<double>(x.bytes()), 0, 1);
  from->start(comm::Send{x, 1, 7})->wait();
  sender.compute(1);
  from->start(comm::Send{x, 1, 7})->wait();
  sender.compute(1);
  from->start(comm::Send{x, 1, 8})->wait();
  const auto early = to->start(comm::Receive{y, 0, 7}), late = to->start(comm::Receive{y, 0, 7}),
             other = to->start(comm::Receive{y, 0, 8});
  early->wait();
  CHECK(receiver.clock.now() < 0.1);
  other->wait();
  CHECK(receiver.clock.now() == Approx(2 + seconds).margin(1e-4));

  sender.compute(1);
  from->start(comm::Send{x, 1, 7})->wait();  // as the first in line gets it, the one that is waited for last
  late->wait();
  CHECK(receiver.clock.now() < 2.5);
  to->run(comm::Receive{y, 0, 7});
  CHECK(receiver.clock.now() == Approx(3 + seconds).margin(1e-4));
}

TEST_CASE("the stages of a simulated job gather bytes of any length, each for all of its ranks") {
  SimNetwork network(2, 2);
  std::vector<std::vector<std::int64_t>> seen[2];
  std::vector<double> largest(2);
  std::vector<std::thread> threads;
  for (int stage = 0; stage < 2; ++stage)
    threads.emplace_back([&, stage] {
      Stage s(network, stage, 2);
      const auto all = s.world.group(s.device, "world", first(4));
      seen[stage] = gather_all(*all, std::vector<std::int64_t>(static_cast<std::size_t>(3 * stage), stage));
      largest[static_cast<std::size_t>(stage)] = all->host_max(stage);
      network.leave(stage);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& all : seen) CHECK(all == std::vector<std::vector<std::int64_t>>{{}, {}, {1, 1, 1}, {1, 1, 1}});
  CHECK(largest == std::vector<double>{1, 1});
}
