// The two clocks of a simulated rank: what the host pays, when the stream runs, and who waits for whom.
#include "engine/sim/play/clock.h"

#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

HostTimes times() {
  HostTimes t;
  t.launch = 1;
  t.synchronize = 0.5;
  return t;
}

}  // namespace

TEST_CASE("long kernels hide what the host needs to launch them") {
  VirtualClock clock(times());
  CHECK(clock.kernel(10, TimePart::gemms).begin == 1);
  const TimeSpan second = clock.kernel(10, TimePart::gemms);
  CHECK(second.begin == 11);
  CHECK(second.end == 21);
  CHECK(clock.now() == 21);
}

TEST_CASE("a message travels while its receiver computes, if its receive is posted ahead") {
  for (const bool ahead : {false, true}) {
    HostTimes t;
    t.receives_ahead = ahead;
    VirtualClock clock(t);
    clock.receive(3, 2, TimePart::communication_pp);
    CHECK(clock.now() == 5);
    clock.kernel(10, TimePart::gemms);
    // It left before this receive was posted, which is when the message before had come: at 5.
    const TimeSpan early = clock.receive(1, 4, TimePart::communication_pp);
    CHECK(early.begin == (ahead ? 5 : 15));
    CHECK(clock.now() == (ahead ? 15 : 19));
    clock.kernel(10, TimePart::gemms);
    const double left = clock.now() - 1;
    // It leaves a second before the end of that kernel: the rest of it is waited for.
    CHECK(clock.receive(left, 4, TimePart::communication_pp).begin == (ahead ? left : left + 1));
    CHECK(clock.now() == (ahead ? left + 4 : left + 5));
  }
}

TEST_CASE("short kernels wait for the host to launch them") {
  VirtualClock clock(times());
  for (int i = 0; i < 10; ++i) clock.kernel(0.25, TimePart::gemms);
  CHECK(clock.now() == 10.25);
  clock.host(5);
  CHECK(clock.kernel(0.25, TimePart::gemms).begin == 16);
}

TEST_CASE("work of the host's is paid as often as it is done, and some of it is no time but a way to go on") {
  HostTimes t = times();
  t.work[HostWork::call] = 0.5;  // not what a kernel's launch takes
  VirtualClock clock(t);
  clock.host_work(HostWork::call, 4);
  CHECK(clock.now() == 2);
  clock.host_work(HostWork::loss);
  CHECK(clock.now() == 2);
  t.loss_blocks = true;
  VirtualClock waits(t);
  waits.kernel(10, TimePart::gemms);
  waits.host_work(HostWork::loss);
  CHECK(waits.kernel(1, TimePart::gemms).begin == 12.5);
}

TEST_CASE("a host that synchronizes has waited for the stream, and pays for it") {
  VirtualClock clock(times());
  clock.kernel(10, TimePart::gemms);
  CHECK(clock.synchronize() == 11.5);
  // The launches to come are no longer hidden.
  CHECK(clock.kernel(10, TimePart::gemms).begin == 12.5);
}

TEST_CASE("the stream waits until what it waits for has ended, and the host goes on") {
  VirtualClock clock(times());
  clock.wait_until(100, TimePart::communication_tp);
  clock.wait_until(50, TimePart::communication_tp);
  CHECK(clock.now() == 100);
  CHECK(clock.kernel(1, TimePart::gemms).begin == 100);
  for (int i = 0; i < 20; ++i) clock.kernel(1, TimePart::gemms);
  CHECK(clock.now() == 121);
}

TEST_CASE("a kernel is slower for as long as a collective runs beside it") {
  HostTimes t = times();
  t.overlap_slowdown = 0.2;
  VirtualClock clock(t);
  CollectiveCall started{clock.add_stream("dp"), 3, TimePart::communication_dp};
  started.started = true;
  clock.run(started, 5);
  const TimeSpan overlapped = clock.kernel(10, TimePart::gemms);  // from 1 to 11, three of them beside the collective
  CHECK(overlapped.end == Approx(11.6));
  CHECK(clock.kernel(10, TimePart::gemms).end == Approx(21.6));
  VirtualClock alone(t);
  alone.add_stream("dp");
  alone.run(started, 50);
  CHECK(alone.kernel(10, TimePart::gemms).end == 11);
  // One that copy engines move slows none.
  VirtualClock beside_copies(t);
  beside_copies.add_stream("dp");
  started.slows = false;
  beside_copies.run(started, 5);
  CHECK(beside_copies.kernel(10, TimePart::gemms).end == 11);
}

TEST_CASE("a collective waits for the compute stream and for those before it on its own stream, not on another's") {
  HostTimes t;
  t.collective = 1;
  VirtualClock clock(t);
  const int tp = clock.add_stream("tp"), dp = clock.add_stream("dp");
  CHECK(clock.track(tp).name() == "communication tp");
  CHECK(clock.track(dp) == Track(Track::communication, "dp"));
  clock.kernel(10, TimePart::gemms);
  const auto started = [](int stream, TimePart part) {
    CollectiveCall call{stream, 5, part};
    call.started = true;
    return call;
  };
  const CollectiveCall of_tp = started(tp, TimePart::communication_tp), of_dp = started(dp, TimePart::communication_dp);
  CHECK(clock.enter(of_tp) == 10);
  const TimeSpan first = clock.run(of_tp, 10);
  CHECK(first.begin == 10);
  CHECK(first.end == 15);
  CHECK(clock.enter(of_tp) == 15);
  CHECK(clock.enter(of_dp) == 10);
  CHECK(clock.now() == 10);
  // What begins behind another's needs no one to wait for that.
  CollectiveCall behind = of_dp;
  behind.behind = &first;
  CHECK(clock.enter(behind) == 15);
  CHECK(clock.now() == 10);
  clock.host(20);
  CHECK(clock.enter(of_dp) == 25);
}

TEST_CASE("the stream waits for a collective at once, when it is asked to, or where its framework makes it") {
  HostTimes t;
  const auto now_after = [&](bool started, bool over_tp) {
    VirtualClock clock(t);
    CollectiveCall call{clock.add_stream("tp"), 5, TimePart::communication_tp};
    call.started = started, call.over_tp = over_tp;
    clock.run(call, clock.enter(call));
    return clock.now();
  };
  CHECK(now_after(false, false) == 5);
  CHECK(now_after(true, true) == 0);
  t.tensor_collectives_block = true;
  CHECK(now_after(true, true) == 5);
  CHECK(now_after(true, false) == 0);
}

TEST_CASE("what the stream waits for other ranks is a bubble, and the collective is communication") {
  HostTimes t;
  TimeByPart spent{};
  VirtualClock clock(t);
  clock.charge_to(&spent);
  CollectiveCall call{clock.add_stream("tp x pp"), 5, TimePart::communication_other};
  call.meets = true;
  clock.run(call, clock.enter(call) + 7);  // the last rank comes then
  CHECK(at(spent, TimePart::bubble) == 7);
  CHECK(at(spent, TimePart::communication_other) == 5);
}

TEST_CASE("what makes progress in calls alone takes its time where it is waited for, before what comes behind it") {
  HostTimes t;
  t.progress_in_calls = true;
  VirtualClock clock(t);
  CollectiveCall call{clock.add_stream("dp"), 5, TimePart::communication_dp};
  call.started = true;
  const TimeSpan first = clock.run(call, clock.enter(call));
  clock.kernel(20, TimePart::gemms);
  CHECK(clock.now() == 20);
  CollectiveCall behind{clock.add_stream("dp_replicate"), 3, TimePart::communication_dp};
  behind.started = true, behind.behind = &first;
  CHECK(clock.enter(behind) == 25);
  clock.wait_for(clock.run(behind, 25), TimePart::communication_dp);
  CHECK(clock.now() == 28);
}

TEST_CASE("where the device is the host, a call has ended when it returns") {
  HostTimes t = times();
  t.immediate = true;
  VirtualClock clock(t);
  clock.kernel(10, TimePart::gemms);
  CHECK(clock.kernel(10, TimePart::gemms).begin == 12);
  clock.wait_until(30, TimePart::communication_tp);
  CHECK(clock.kernel(10, TimePart::gemms).begin == 31);
}

TEST_CASE("a step is no shorter than what its loader takes, and the two blur where they are near") {
  HostTimes t;
  t.loader = 10;
  const auto step_of = [&](double host_seconds, int micro_batches) {
    VirtualClock clock(t);
    clock.host(5);
    clock.begin_step();
    for (int i = 0; i < micro_batches; ++i) clock.micro_batch();
    clock.host(host_seconds);
    clock.wait_for_loader();
    return clock.now() - 5;
  };
  CHECK(step_of(100, 0) == 100);
  CHECK(step_of(100, 1) == Approx(100));
  CHECK(step_of(100, 20) == Approx(200).epsilon(1e-4));
  CHECK(step_of(100, 10) > 100);
  CHECK(step_of(100, 10) < 110);
}

TEST_CASE("a copy to the host runs beside kernels, after those before it, one of a way after the other") {
  VirtualClock clock(times());
  clock.kernel(10, TimePart::gemms);  // from 1 to 11
  const TimeSpan first = clock.start_copy(CopyWay::to_host, 4);
  CHECK(first.begin == 11);
  CHECK(first.end == 15);
  CHECK(clock.start_copy(CopyWay::to_host, 4).begin == 15);
  CHECK(clock.start_copy(CopyWay::to_device, 3).begin == 11);  // a stream of its own
  CHECK(clock.kernel(2, TimePart::gemms).begin == 11);
  clock.wait_until(19, TimePart::copies);
  CHECK(clock.kernel(1, TimePart::gemms).begin == 19);
}

TEST_CASE("the host computes beside the device once it has what it waits for, and the device waits for none of it") {
  TimeByPart spent{};
  VirtualClock clock(times());
  clock.charge_to(&spent);
  const TimeSpan copy = clock.start_copy(CopyWay::to_host, 5);  // from 1 to 6
  clock.host_waits_until(copy.end, TimePart::copies);
  CHECK(at(spent, TimePart::copies) == 5);
  const TimeSpan update = clock.host_kernel(8, TimePart::optimizer);
  CHECK(update.begin == 6);
  CHECK(update.end == 14);
  CHECK(at(spent, TimePart::optimizer) == 8);
  CHECK(clock.now() == 14);
  CHECK(clock.start_copy(CopyWay::to_device, 1).begin == 15);  // a launch later
}

TEST_CASE("where the device is the host, it copies and updates itself, one after the other") {
  HostTimes t = times();
  t.immediate = true;
  VirtualClock clock(t);
  CHECK(clock.start_copy(CopyWay::to_host, 5).end == 6);
  CHECK(clock.host_kernel(8, TimePart::optimizer).end == 14);
  CHECK(clock.start_copy(CopyWay::to_device, 2).end == 17);
  CHECK(clock.now() == 17);
}
