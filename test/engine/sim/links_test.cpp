// How long communication takes: closed formulas on a machine with round figures.
#include "engine/sim/cost/links.h"

#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

constexpr double kBase = 5e-6, kBus = 100e9, kStep = 2e-6;  // eight devices of a node
constexpr double kPairBus = 20e9;                           // two of them
constexpr double kHostBus = 10e9, kHostStep = 6e-6;         // through the host
constexpr double kP2p = 25e9, kNetwork = 10e9, kHop = 20e-6;
constexpr double kGiB = 1073741824;

Machine round_machine() {
  Machine m;
  m.node.devices = 8;
  m.node.collective_base = kBase;
  m.node.links = {{"pair", 2, kPairBus, kStep}, {"all", 8, kBus, kStep}};
  m.node.pcie = {"", 0, kHostBus, kHostStep};
  m.node.p2p_bandwidth = kP2p;
  m.network.bandwidth = kNetwork;
  m.network.latency = kHop;
  m.network.adapters = 8;
  return m;
}

// Switches that add up, and another rate of all-to-all.
Machine switched_machine() {
  Machine m = round_machine();
  m.node.links[1].all_reduce_bandwidth = 2 * kBus;
  m.node.links[1].all_to_all_bandwidth = kBus / 2;
  m.network.all_to_all = kNetwork / 4;
  return m;
}

const Machine kMachine = round_machine();
const Machine kSwitched = switched_machine();
const Links kDirect(kMachine, true), kThroughHost(kMachine, false);

}  // namespace

TEST_CASE("reach counts nodes and the members of the fullest node") {
  const auto reach = [](const std::vector<int>& ranks) {
    const Links::Reach r = kDirect.reach(ranks);
    return std::pair(r.per_node, r.nodes);
  };
  CHECK(reach({0}) == std::pair(1, 1));
  CHECK(reach({0, 1, 2, 3, 4, 5, 6, 7}) == std::pair(8, 1));
  CHECK(reach({0, 8, 16, 24}) == std::pair(1, 4));
  CHECK(reach({4, 5, 6, 7, 8, 9, 10, 11}) == std::pair(4, 2));
  CHECK(reach({6, 7, 8, 9, 10, 11}) == std::pair(4, 2));
}

TEST_CASE("a large all-reduce within a node is a ring: 2 (k - 1) / k of the bytes at the bus bandwidth") {
  for (const int k : {4, 8}) {
    INFO(k << " ranks");
    const double share = 2.0 * (k - 1) / k;
    CHECK(kDirect.all_reduce(kGiB, {k, 1}) == Approx(kBase + 2 * (k - 1) * kStep + share * kGiB / kBus));
  }
  // Two devices have the link of two.
  CHECK(kDirect.all_reduce(kGiB, {2, 1}) == Approx(kBase + 2 * kStep + kGiB / kPairBus));
}

TEST_CASE("a small all-reduce is a tree: its latency grows with the logarithm of the ranks") {
  CHECK(kDirect.all_reduce(8, {8, 1}) == Approx(kBase + 2 * 3 * kStep + 16 / kBus));
  // In between the faster of the two counts, so more bytes never take less time.
  double before = 0;
  for (double bytes = 8; bytes < kGiB; bytes *= 2) {
    const double now = kDirect.all_reduce(bytes, {8, 1});
    CHECK(now > before);
    CHECK(now <= Approx(kBase + 2 * 7 * kStep + 1.75 * bytes / kBus));
    before = now;
  }
}

TEST_CASE("an all-gather is half a ring all-reduce") {
  CHECK(kDirect.all_gather(kGiB, {8, 1}) == Approx(kBase + 7 * kStep + 7.0 / 8 * kGiB / kBus));
}

TEST_CASE("an all-to-all sends every other device its part, within the node and over the network at once") {
  CHECK(kDirect.all_to_all(kGiB, {8, 1}) == Approx(kBase + 7 * kStep + 7.0 / 8 * kGiB / kBus));
  CHECK(kDirect.all_to_all(kGiB, {1, 4}) == Approx(kBase + 3 * kHop + 0.75 * kGiB / kNetwork));
  // Of 4 nodes of 8, three quarters of what a device sends cross its share of the network: the slower part.
  CHECK(kDirect.all_to_all(kGiB, {8, 4}) == Approx(kBase + 7 * kStep + 3 * kHop + 0.75 * kGiB / kNetwork));
  CHECK(kThroughHost.all_to_all(kGiB, {8, 1}) == Approx(kBase + 7 * kHostStep + 7.0 / 8 * kGiB / kHostBus));
}

TEST_CASE("a broadcast sends all bytes down the ring") {
  CHECK(kDirect.broadcast(kGiB, {8, 1}) == Approx(kBase + 7 * kStep + kGiB / kBus));
  // From node to node a piece of 512 KiB goes on when all of it is there, on each of an adapter's two channels.
  const double piece = 2 * 524288 / kNetwork;
  CHECK(kDirect.broadcast(kGiB, {1, 4}) == Approx(kBase + 3 * (kHop + piece) + kGiB / kNetwork));
  // Through all 32 of 4 nodes of 8, in pieces over the ports of all of a node's.
  CHECK(kDirect.broadcast(kGiB, {8, 4}) ==
        Approx(kBase + 4 * 7 * kStep + 3 * (kHop + piece) + kGiB / std::min(kBus, 8 * kNetwork)));
  // Less than a piece is one.
  CHECK(kDirect.broadcast(16000, {8, 4}) ==
        Approx(kBase + 4 * 7 * kStep + 3 * (kHop + 1000 / (kNetwork / 2)) + 16000 / (8 * kNetwork)));
  // Devices that share an adapter share its channels: each is twice as fast, and a piece on it half as long.
  Machine shared = round_machine();
  shared.network.adapters = 4;
  CHECK(Links(shared, true).broadcast(kGiB, {8, 4}) ==
        Approx(kBase + 4 * 7 * kStep + 3 * (kHop + piece / 2) + kGiB / std::min(kBus, 8 * kNetwork)));
}

TEST_CASE("across nodes the slowest level's bandwidth counts and every level's latency") {
  // 4 nodes of 8: an eighth of the bytes per device crosses the network, 2 (4 - 1) / 4 of it, and that is the
  // slower part.
  const double network = 1.5 * kGiB / 8 / kNetwork, inside = 1.75 * kGiB / kBus;
  REQUIRE(network > inside);
  CHECK(kDirect.all_reduce(kGiB, {8, 4}) == Approx(kBase + 2 * 7 * kStep + 2 * 3 * kHop + network));
  CHECK(kDirect.all_gather(kGiB, {8, 4}) == Approx(kBase + 7 * kStep + 3 * kHop + 0.75 * kGiB / 8 / kNetwork));
  // With a network as fast as that, the node's link is the slower part.
  Machine fast = round_machine();
  fast.network.bandwidth = 1000e9;
  const Links links(fast, true);
  CHECK(links.all_reduce(kGiB, {8, 4}) == Approx(kBase + 2 * 7 * kStep + 2 * 3 * kHop + inside));
}

TEST_CASE("a group with one member a node is a ring over the network alone") {
  CHECK(kDirect.all_reduce(kGiB, {1, 4}) == Approx(kBase + 2 * 3 * kHop + 1.5 * kGiB / kNetwork));
  CHECK(kDirect.all_gather(kGiB, {1, 4}) == Approx(kBase + 3 * kHop + 0.75 * kGiB / kNetwork));
}

TEST_CASE("with peer-to-peer off a node's devices talk through the host") {
  CHECK(kThroughHost.all_reduce(kGiB, {8, 1}) == Approx(kBase + 2 * 7 * kHostStep + 1.75 * kGiB / kHostBus));
  CHECK(kThroughHost.all_gather(kGiB, {8, 1}) == Approx(kBase + 7 * kHostStep + 7.0 / 8 * kGiB / kHostBus));
  CHECK(kThroughHost.message(kGiB, 0, 1) == Approx(kBase + kHostStep + kGiB / kHostBus));
  // Between nodes it makes no difference to a message.
  CHECK(kThroughHost.message(kGiB, 0, 8) == kDirect.message(kGiB, 0, 8));
}

TEST_CASE("a shift is a message of every rank at once, over the network where any crosses nodes") {
  CHECK(kDirect.shift(kGiB, {8, 1}) == kDirect.message(kGiB, 0, 1));
  CHECK(kDirect.shift(kGiB, {2, 4}) == kDirect.message(kGiB, 7, 8));
  CHECK(kThroughHost.shift(kGiB, {4, 1}) == kThroughHost.message(kGiB, 0, 1));
}

TEST_CASE("a message takes the peer-to-peer path inside a node and the network between nodes") {
  CHECK(kDirect.message(kGiB, 0, 7) == Approx(kBase + kStep + kGiB / kP2p));
  CHECK(kDirect.message(kGiB, 7, 8) == Approx(kBase + kHop + kGiB / kNetwork));
  CHECK(kDirect.message(kGiB, 8, 7) == kDirect.message(kGiB, 7, 8));
}

TEST_CASE("all-reduce in switches and all-to-all go at the rates that a machine has for them") {
  const Links plain(kMachine, true), switched(kSwitched, true);
  const Links::Reach node{8, 1}, pair{2, 1}, nodes{8, 4};
  CHECK(switched.all_reduce(kGiB, node) == Approx(kBase + 2 * kStep + 2 * kGiB * 7 / 8 / (2 * kBus)));
  CHECK(switched.all_reduce(kGiB, pair) == plain.all_reduce(kGiB, pair));  // two devices have no switch to add up in
  CHECK(switched.all_gather(kGiB, node) == plain.all_gather(kGiB, node));
  CHECK(switched.all_to_all(kGiB, node) == Approx(kBase + 7 * kStep + kGiB * 7 / 8 / (kBus / 2)));
  CHECK(switched.all_to_all(kGiB, nodes) == Approx(kBase + 7 * kStep + 3 * kHop + kGiB * 3 / 4 / (kNetwork / 4)));
}

TEST_CASE(
    "rows that are forwarded: within a node as all-to-all, across nodes once for each, at the rates that a machine has "
    "for them") {
  const Links plain(kMachine, true), switched(kSwitched, true);
  const std::vector<std::int64_t> eight(8, 100), more(32, 100);
  constexpr double kRow = 1 << 20, kAll = 800 * kRow;
  CHECK(plain.forwarded(kRow, eight, eight, 800, {8, 1}) == Approx(plain.all_to_all(kRow, eight, eight, {8, 1})));
  // 3200 rows to ranks, 1600 to nodes, of which three quarters leave this one.
  CHECK(plain.forwarded(kRow, more, more, 1600, {8, 4}) ==
        Approx(kBase + 7 * kStep + 3 * kHop + 0.75 * 1600 * kRow / kNetwork));
  CHECK(plain.forwarded(kRow, more, more, 1600, {8, 4}) < plain.all_to_all(kRow, more, more, {8, 4}));
  // Few nodes' rows leave the links within a node to wait for.
  CHECK(plain.forwarded(kRow, more, more, 32, {8, 4}) ==
        Approx(kBase + 7 * kStep + 3 * kHop + 4 * kAll * 7 / 8 / kBus));
  CHECK(switched.forwarded(kRow, eight, eight, 800, {8, 1}) == Approx(kBase + 7 * kStep + kAll * 7 / 8 / (kBus / 2)));
  Machine kernels = switched_machine();
  kernels.node.links[1].forwarding_bandwidth = kBus * 3 / 4;
  kernels.network.forwarding = kNetwork / 2;
  const Links forwarding(kernels, true);
  CHECK(forwarding.forwarded(kRow, eight, eight, 800, {8, 1}) ==
        Approx(kBase + 7 * kStep + kAll * 7 / 8 / (kBus * 3 / 4)));
  CHECK(forwarding.forwarded(kRow, more, more, 1600, {8, 4}) ==
        Approx(kBase + 7 * kStep + 3 * kHop + 0.75 * 1600 * kRow / (kNetwork / 2)));
  CHECK(forwarding.all_to_all(kGiB, {8, 4}) == switched.all_to_all(kGiB, {8, 4}));
}
