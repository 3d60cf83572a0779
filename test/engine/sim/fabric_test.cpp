// What crosses the spine of a network with tiers: closed formulas on a machine with round figures, and what holds for whole steps.
#include "engine/sim/cost/fabric.h"

#include <numeric>

#include "engine/base/error.h"
#include "engine/sim/cost/links.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;
using Catch::Contains;

namespace {

constexpr double kBase = 5e-6, kBus = 1e15, kNetwork = 10e9, kHop = 20e-6, kSpine = 3e-6;
constexpr double kGiB = 1073741824;

// Four nodes of eight below a leaf, whose uplinks have a seventh of the bandwidth.
Machine tiered(int nodes = 4, double oversubscription = 7, int rails = 1) {
  Machine m;
  m.node.devices = 8;
  m.node.collective_base = kBase;
  m.node.links = {{"all", 8, kBus, 0}};
  m.node.p2p_bandwidth = kBus;
  m.network.bandwidth = kNetwork;
  m.network.latency = kHop;
  m.network.adapters = 8;
  m.network.tiers = {nodes, rails, 8, oversubscription, kSpine};
  return m;
}

RunSpec run_of(const std::string& placement = "block", double load = 0) {
  RunSpec run;
  run.placement = read_node_placement(placement, "test");
  run.background_load = load;
  return run;
}

// The group of rank 0 over dp, of eight nodes with tp inside: each device's ring goes through all nodes.
const Mesh kEightNodes(8, 1, 8, 1);
Links::Reach over_dp(const Links& links) {
  return links.reach(kEightNodes.members(0, {Axis::dp}), {Axis::dp});
}

}  // namespace

TEST_CASE("a ring through two leaves crosses the spine at two edges") {
  const Machine machine = tiered();
  const Links links(machine, run_of(), kEightNodes);
  const Links::Reach r = over_dp(links);
  // One edge a ring leaves each leaf, and eight rings do: of the uplinks' 32 / 7 devices' bandwidth.
  CHECK(r.crossing.ring == Approx(8 * 7.0 / 32));
  CHECK(r.crossing.edges == 2);
  const double slow = kNetwork * 32 / 7 / 8;
  CHECK(links.all_gather(kGiB, r) == Approx(kBase + 7 * kHop + 2 * kSpine + 7.0 / 8 * kGiB / slow));
  CHECK(links.all_reduce(kGiB, r) == Approx(kBase + 14 * kHop + 4 * kSpine + 14.0 / 8 * kGiB / slow));
  CHECK(links.shift(kGiB, r) == Approx(kBase + kHop + kSpine + kGiB / slow));
  // A larger leaf has room for the eight.
  const Machine large = tiered(7);
  CHECK(over_dp(Links(large, run_of(), kEightNodes)).crossing.ring == 1);
  // Below one leaf nothing crosses.
  const Machine one = tiered(8);
  CHECK(over_dp(Links(one, run_of(), kEightNodes)).crossing == sim::Crossing());
}

TEST_CASE("of an all-to-all, what is for the other leaf crosses") {
  const Machine machine = tiered();
  const Links links(machine, run_of(), kEightNodes);
  const Links::Reach r = over_dp(links);
  // Of a device's seven parts four, of 32 devices: 32 * 4 / 7 on uplinks of 32 / 7.
  CHECK(r.crossing.all_to_all == Approx(4));
  CHECK(r.crossing.partners == 4);
  CHECK(links.all_to_all(kGiB, r) == Approx(kBase + 7 * kHop + 4 * kSpine + 4 * 7.0 / 8 * kGiB / kNetwork));
  const std::vector<std::int64_t> rows(8, 100);
  CHECK(links.forwarded(1 << 20, rows, rows, 800, r) ==
        Approx(kBase + 7 * kHop + 4 * kSpine + 4 * 7.0 / 8 * 800 * (1 << 20) / kNetwork));
  // At a rate of its own that is slower than what crosses, it does not wait for the uplinks.
  Machine slow = tiered();
  slow.network.all_to_all = kNetwork / 5;
  const Links exchange(slow, run_of(), kEightNodes);
  CHECK(exchange.all_to_all(kGiB, over_dp(exchange)) ==
        Approx(kBase + 7 * kHop + 4 * kSpine + 5 * 7.0 / 8 * kGiB / kNetwork));
}

TEST_CASE("nodes that are dealt to leaves have every edge of a ring behind the spine") {
  const Machine machine = tiered();
  const Links links(machine, run_of("cyclic"), kEightNodes);
  const Links::Reach r = over_dp(links);
  CHECK(r.crossing.ring == Approx(7));
  CHECK(r.crossing.edges == 8);
  CHECK(r.crossing.all_to_all == Approx(4));  // whose partners are as many behind it either way
  // Of eight edges a piece passes seven.
  CHECK(links.all_gather(kGiB, r) == Approx(kBase + 7 * (kHop + kSpine) + 7.0 / 8 * kGiB / (kNetwork / 7)));
  // Six nodes below one leaf and two below another are a block with another boundary.
  const Machine room = tiered(6);
  const Links::Reach cut = over_dp(Links(room, run_of("6+2"), kEightNodes));
  CHECK(cut.crossing.edges == 2);
  CHECK(cut.crossing.partners == 6);
  CHECK(cut.crossing.ring == Approx(8 * 7.0 / 48));
}

TEST_CASE("rails: data keep to a device's leaf, unless the library may not pass them within the node") {
  const Machine machine = tiered(4, 7, 8);
  const Links links(machine, run_of(), kEightNodes);
  // A leaf has one device of each of four nodes.
  CHECK(over_dp(links).crossing.ring == Approx(7.0 / 4));
  CHECK(over_dp(links).crossing.all_to_all == Approx(4));
  // Stages of nine devices: of a message from device 0 of a node to device 1 of the next, the library crosses the rails within a node.
  const Mesh stages(9, 1, 1, 2);
  CHECK(Links(machine, run_of(), stages).message(kGiB, 0, 9) == Approx(kBase + kHop + kGiB / kNetwork));
  RunSpec without = run_of();
  without.env["NCCL_PXN_DISABLE"] = "1";
  // Two devices of the first rail send to the second: 2 on uplinks of 4 / 7.
  CHECK(Links(machine, without, stages).message(kGiB, 0, 9) ==
        Approx(kBase + kHop + kSpine + kGiB / (kNetwork * std::min(1.0, 4.0 / 7 / 2))));
}

TEST_CASE("other jobs take their share of the uplinks, or of a node's network where there are no leaves") {
  const Machine machine = tiered();
  const Links::Reach r = over_dp(Links(machine, run_of("block", 0.5), kEightNodes));
  CHECK(r.crossing.ring == Approx(2 * 8 * 7.0 / 32));
  CHECK(r.crossing.all_to_all == Approx(8));
  const Machine flat = tiered(0, 1);
  const Links links(flat, run_of("block", 0.75), kEightNodes);
  CHECK(over_dp(links).crossing.ring == Approx(4));
  CHECK(links.message(kGiB, 0, 1) == Approx(kBase + kGiB / kBus));
  // Nothing is asked where nothing can be slower.
  CHECK(sim::fabric_of(flat, kEightNodes, run_of()) == nullptr);
  const Machine full = [] {
    Machine m = tiered(4, 1);
    m.network.tiers.latency = 0;
    return m;
  }();
  CHECK(sim::fabric_of(full, kEightNodes, run_of("cyclic")) == nullptr);
}

TEST_CASE("messages between stages cross where their stages stand below different leaves") {
  const Machine machine = tiered();
  const Mesh mesh(8, 1, 2, 4);  // two nodes a stage
  const Links links(machine, run_of(), mesh);
  CHECK(links.message(kGiB, 0, 16) == Approx(kBase + kHop + kGiB / kNetwork));
  CHECK(links.message(kGiB, 48, 32) == links.message(kGiB, 0, 16));
  // All 16 devices of a stage send at once.
  const double crossing = kBase + kHop + kSpine + kGiB / (kNetwork * 32 / 7 / 16);
  CHECK(links.message(kGiB, 16, 32) == Approx(crossing));
  CHECK(links.message(kGiB, 32, 16) == Approx(crossing));
  // From the last stage to the first.
  CHECK(links.message(kGiB, 48, 0) == Approx(crossing));
}

TEST_CASE("groups over all axes wait for the leaf that is asked most, whichever ranks they have") {
  const Machine machine = tiered(3);
  const Mesh mesh(8, 1, 2, 4);  // stage 1 stands below two leaves: nodes 2 and 3
  const Links links(machine, run_of(), mesh);
  const auto over = [&](int rank) { return links.reach(mesh.members(rank, {Axis::dp}), {Axis::dp}).crossing; };
  CHECK(over(0) == over(16));
  CHECK(over(0).edges == 2);
  CHECK(over(0).ring == Approx(8 * 7.0 / 24));
  // Of the first stage only, nothing crosses.
  const Links first(machine, run_of(), mesh, 16);
  CHECK(first.reach(mesh.members(0, {Axis::dp}), {Axis::dp}).crossing == sim::Crossing());
  // The first and the last stage's words: a ring of two for each of 16 devices, from the first leaf and from the third.
  CHECK(links.reach({0, 48}, {Axis::pp}).crossing.ring == Approx(16 * 7.0 / 24));
}

TEST_CASE("a place that does not exist is refused with what there is") {
  const Machine machine = tiered(), flat = tiered(0, 1);
  const auto why = [](const Machine& m, const std::string& placement, int world = 64) {
    return sim::why_not_placed(m, world, run_of(placement));
  };
  CHECK(why(machine, "block") == "");
  CHECK(why(machine, "cyclic") == "");
  CHECK(why(machine, "4+4") == "");
  CHECK_THAT(why(flat, "cyclic"), Contains("placement cyclic on ") && Contains("whose file has no network.leaf"));
  CHECK_THAT(why(machine, "5+3"), Contains("5 nodes below a leaf of ") && Contains("need 4 at most"));
  CHECK_THAT(why(machine, "4+3"), Contains("placement 4+3 of 7 nodes, and the job has 8"));
  const auto refused = [](const nlohmann::json& value) {
    try {
      read_node_placement(value, "here");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(refused("blocks"), Contains("[here]") && Contains("got \"blocks\"") && Contains("need block, cyclic"));
  CHECK_THAT(refused("4+"), Contains("got \"4+\""));
  CHECK_THAT(refused("4+0"), Contains("got \"4+0\""));
  CHECK_THAT(refused(24), Contains("got 24") && Contains("\"24+8\" is one value"));  // of --set placement=[24,8]
  CHECK_THAT(refused(nlohmann::json::array()), Contains("empty list"));
  CHECK(name_of(read_node_placement({4, 2}, "here")) == "4+2");
}

TEST_CASE("a step is no quicker with more oversubscription, with more load, or with its neighbours dealt to leaves") {
  const auto ms = [](Point p, double oversubscription, double load, const std::string& placement) {
    nlohmann::ordered_json json = machine_file("machines/H100-SXM5-80GB.json");
    json["network"]["leaf"]["nodes"]["value"] = 2;
    json["network"]["spine"]["oversubscription"]["value"] = oversubscription;
    json["network"]["spine"]["latency_us"] = {{"value", 2}, {"source", "test"}};
    p.background_load = load;
    p.placement = read_node_placement(placement, "test");
    return step_ms(simulated(p, machine_from_json(json, "test"), find_framework("mbench", "test")));
  };
  for (const auto& [tp, pp, ep, zero] : {std::tuple{2, 2, 1, Zero::none},
                                         {1, 1, 1, Zero::stage_3},
                                         {8, 4, 1, Zero::stage_1},
                                         {1, 2, 16, Zero::stage_1}}) {
    Point p;
    p.model = find_preset(ep > 1 ? "mixtral-bytes-4m" : "llama-bytes-3m", "test");
    if (ep > 1) p.model.experts = 16;
    p.seq = 512, p.micro_batch = 1, p.precision = Precision::bf16;
    p.tp = tp, p.pp = pp, p.ep = ep, p.zero = zero, p.dp = 64 / (tp * pp), p.global_batch = 4 * p.dp;
    INFO("tp " << tp << " pp " << pp << " ep " << ep);
    double before = 0;
    for (const double oversubscription : {1.0, 2.0, 7.0, 30.0}) {
      const double now = ms(p, oversubscription, 0, "block");
      CHECK(now >= before);
      CHECK(ms(p, oversubscription, 0.5, "block") >= now);
      CHECK(ms(p, oversubscription, 0.9, "block") >= ms(p, oversubscription, 0.5, "block"));
      CHECK(ms(p, oversubscription, 0, "2+2+2+2") == now);
      before = now;
    }
    if (pp == 1) CHECK(ms(p, 7, 0, "cyclic") > ms(p, 7, 0, "block"));
    CHECK(ms(p, 30, 0, "block") > ms(p, 1, 0, "block"));
  }
}
