// Transitions by what they must do: a collective that resolve() names, carried out on the ranks' numbers,
// turns what is in the one place into what is in the other, forward for values and backward for gradients.
#include "engine/plan/placement.h"

#include <random>
#include <vector>

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;

namespace {

constexpr Placement kPlaces[] = {replicate, partial, shard(0)};
constexpr int kRanks = 4, kElements = 8;

using Local = std::vector<long>;    // one rank's part
using Spread = std::vector<Local>;  // of all ranks
std::mt19937 numbers(3);

Local whole() {
  Local x(kElements);
  for (long& v : x) v = static_cast<long>(numbers() % 1000);
  return x;
}

// A tensor as it lies on the ranks; the parts of a partial one are arbitrary but for their sum.
Spread lay_out(const Local& x, const Placement& place) {
  Spread ranks(kRanks);
  if (place == replicate) {
    for (Local& r : ranks) r = x;
  } else if (place == partial) {
    ranks.back() = x;
    for (int i = 0; i + 1 < kRanks; ++i) {
      ranks[i] = whole();
      for (int e = 0; e < kElements; ++e) ranks.back()[e] -= ranks[i][e];
    }
  } else {
    const int part = kElements / kRanks;
    for (int i = 0; i < kRanks; ++i) ranks[i] = Local(x.begin() + i * part, x.begin() + (i + 1) * part);
  }
  return ranks;
}

Local sum(const Spread& ranks) {
  Local total(ranks[0].size(), 0);
  for (const Local& r : ranks)
    for (std::size_t e = 0; e < r.size(); ++e) total[e] += r[e];
  return total;
}

Local concatenation(const Spread& ranks) {
  Local all;
  for (const Local& r : ranks) all.insert(all.end(), r.begin(), r.end());
  return all;
}

Spread carry_out(Collective collective, const Spread& ranks) {
  Spread out = ranks;
  switch (collective) {
    case Collective::none:
      break;
    case Collective::all_reduce:
      out.assign(kRanks, sum(ranks));
      break;
    case Collective::all_gather:
      out.assign(kRanks, concatenation(ranks));
      break;
    case Collective::reduce_scatter:
      out = lay_out(sum(ranks), shard(0));
      break;
    case Collective::split:
      for (int i = 0; i < kRanks; ++i) out[i] = lay_out(ranks[i], shard(0))[i];
      break;
  }
  return out;
}

// Whether the ranks hold x in that place.
bool holds(const Spread& ranks, const Local& x, const Placement& place) {
  return place == partial ? sum(ranks) == x : ranks == lay_out(x, place);
}

bool possible(const Placement& from, const Placement& to) {
  return from == to || to != partial;
}

}  // namespace

TEST_CASE("a pair of placements resolves to the collective that does it") {
  for (const Placement& from : kPlaces) {
    for (const Placement& to : kPlaces) {
      INFO(str(from) << " to " << str(to));
      if (!possible(from, to)) {
        CHECK_THROWS_AS(resolve(from, to), Error);
        continue;
      }
      const Local x = whole();
      CHECK(holds(carry_out(resolve(from, to), lay_out(x, from)), x, to));
    }
  }
  CHECK(resolve(partial, replicate) == Collective::all_reduce);
  CHECK(resolve(partial, shard(0)) == Collective::reduce_scatter);
  CHECK(resolve(shard(0), replicate) == Collective::all_gather);
  CHECK(resolve(replicate, shard(0)) == Collective::split);
  CHECK(resolve(shard(0), shard(0)) == Collective::none);
  CHECK_THROWS_AS(resolve(shard(0), shard(1)), Error);
}

TEST_CASE("a transition carries values there and gradients back") {
  int transitions = 0;
  for (const Placement& a : kPlaces)
    for (const Placement& b : kPlaces)
      for (const Placement& c : kPlaces)
        for (const Placement& d : kPlaces) {
          const Flow from{a, b}, to{c, d};
          if (!possible(a, c) || !possible(d, b)) continue;
          INFO(str(a) << "/" << str(b) << " to " << str(c) << "/" << str(d));
          const Transition t = Transition::between(from, to, kRanks);
          const Local value = whole(), gradient = whole();
          CHECK(holds(carry_out(t.forward, lay_out(value, from.value)), value, to.value));
          CHECK(holds(carry_out(t.backward, lay_out(gradient, to.gradient)), gradient, from.gradient));
          ++transitions;
        }
  CHECK(transitions == 49);
}

// The pairs of Megatron-LM, f and g of tensor parallelism (Shoeybi et al. 2019) and their likes of sequence
// parallelism (Korthikanti et al. 2022).
TEST_CASE("the conjugates that strategies use") {
  struct Case {
    Flow from, to;
    Collective forward, backward;
  };
  const Flow whole{replicate, replicate}, copied{replicate, partial}, summed{partial, replicate},
      along_seq{shard(0), shard(0)};
  for (const Case& c : {Case{whole, copied, Collective::none, Collective::all_reduce},
                        Case{summed, whole, Collective::all_reduce, Collective::none},
                        Case{along_seq, copied, Collective::all_gather, Collective::reduce_scatter},
                        Case{summed, along_seq, Collective::reduce_scatter, Collective::all_gather},
                        Case{along_seq, whole, Collective::all_gather, Collective::split},
                        Case{whole, along_seq, Collective::split, Collective::all_gather},
                        Case{along_seq, along_seq, Collective::none, Collective::none}}) {
    const Transition t = Transition::between(c.from, c.to, 2);
    CHECK(name_of(t.forward) == name_of(c.forward));
    CHECK(name_of(t.backward) == name_of(c.backward));
    const Transition alone = Transition::between(c.from, c.to, 1);
    CHECK(alone.forward == Collective::none);
    CHECK(alone.backward == Collective::none);
  }
}
