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

using Local = std::vector<long>;   // one rank's part
using Ranks = std::vector<Local>;  // of all ranks
std::mt19937 numbers(3);

Local whole() {
  Local x(kElements);
  for (long& v : x) v = static_cast<long>(numbers() % 1000);
  return x;
}

// A tensor as it lies on the ranks; the parts of a partial one are arbitrary but for their sum.
Ranks lay_out(const Local& x, const Placement& place) {
  Ranks ranks(kRanks);
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

Local sum(const Ranks& ranks) {
  Local total(ranks[0].size(), 0);
  for (const Local& r : ranks)
    for (std::size_t e = 0; e < r.size(); ++e) total[e] += r[e];
  return total;
}

Local concatenation(const Ranks& ranks) {
  Local all;
  for (const Local& r : ranks) all.insert(all.end(), r.begin(), r.end());
  return all;
}

Ranks carry_out(const Exchange& exchange, const Ranks& ranks) {
  Ranks out = ranks;
  CHECK(exchange.dim == 0);
  switch (exchange.what) {
    case Collective::none:
    case Collective::all_to_all:
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
    case Collective::scatter:
      for (int i = 0; i < kRanks; ++i) out[i] = lay_out(ranks[i], shard(0))[i];
      break;
  }
  return out;
}

// Whether the ranks hold x in that place.
bool holds(const Ranks& ranks, const Local& x, const Placement& place) {
  return place == partial ? sum(ranks) == x : ranks == lay_out(x, place);
}

Exchange only(const Exchanges& list) {
  CHECK(list.size() <= 1);
  return list.empty() ? Exchange{Axis::tp, Collective::none} : list[0];
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
        CHECK_THROWS_AS(resolve(Axis::tp, from, to), Error);
        continue;
      }
      const Local x = whole();
      CHECK(holds(carry_out(resolve(Axis::tp, from, to), lay_out(x, from)), x, to));
    }
  }
  const auto what = [](const Placement& from, const Placement& to) { return resolve(Axis::tp, from, to).what; };
  CHECK(what(partial, replicate) == Collective::all_reduce);
  CHECK(what(partial, shard(0)) == Collective::reduce_scatter);
  CHECK(what(shard(0), replicate) == Collective::all_gather);
  CHECK(what(replicate, shard(0)) == Collective::scatter);
  CHECK(what(shard(0), shard(0)) == Collective::none);
  CHECK(resolve(Axis::cp, shard(2), shard(0)) == Exchange{Axis::cp, Collective::all_to_all, 2, 0});
}

TEST_CASE("a transition carries values there and gradients back") {
  int transitions = 0;
  for (const Placement& a : kPlaces)
    for (const Placement& b : kPlaces)
      for (const Placement& c : kPlaces)
        for (const Placement& d : kPlaces) {
          const Flow from{Spread(Axis::tp, a), Spread(Axis::tp, b)}, to{Spread(Axis::tp, c), Spread(Axis::tp, d)};
          if (!possible(a, c) || !possible(d, b)) continue;
          INFO(str(a) << "/" << str(b) << " to " << str(c) << "/" << str(d));
          const Transition t = Transition::between(from, to, Mesh(kRanks, 1, 1, 1));
          const Local value = whole(), gradient = whole();
          CHECK(holds(carry_out(only(t.forward), lay_out(value, a)), value, c));
          CHECK(holds(carry_out(only(t.backward), lay_out(gradient, d)), gradient, b));
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
  const auto flow = [](Placement value, Placement gradient) { return Flow{}.with(Axis::tp, value, gradient); };
  const Flow whole = flow(replicate, replicate), copied = flow(replicate, partial), summed = flow(partial, replicate),
             along_seq = flow(shard(0), shard(0));
  for (const Case& c : {Case{whole, copied, Collective::none, Collective::all_reduce},
                        Case{summed, whole, Collective::all_reduce, Collective::none},
                        Case{along_seq, copied, Collective::all_gather, Collective::reduce_scatter},
                        Case{summed, along_seq, Collective::reduce_scatter, Collective::all_gather},
                        Case{along_seq, whole, Collective::all_gather, Collective::scatter},
                        Case{whole, along_seq, Collective::scatter, Collective::all_gather},
                        Case{along_seq, along_seq, Collective::none, Collective::none}}) {
    const Transition t = Transition::between(c.from, c.to, Mesh(2, 1, 1, 1));
    CHECK(name_of(only(t.forward).what) == name_of(c.forward));
    CHECK(name_of(only(t.backward).what) == name_of(c.backward));
    const Transition alone = Transition::between(c.from, c.to, Mesh(1, 1, 8, 1));
    CHECK(alone.forward.empty());
    CHECK(alone.backward.empty());
  }
}

// A dim that two axes cut is put together from the inside and cut from the outside; on numbers.
TEST_CASE("exchanges over several axes keep the order of the cuts") {
  const Mesh mesh(2, 2, 1, 1);
  const Spread cut = Spread(Axis::tp, shard(0)).with(Axis::cp, shard(0)), whole;
  CHECK(exchanges(cut, whole, mesh) ==
        Exchanges{{Axis::tp, Collective::all_gather, 0}, {Axis::cp, Collective::all_gather, 0}});
  CHECK(exchanges(whole, cut, mesh) ==
        Exchanges{{Axis::cp, Collective::scatter, 0}, {Axis::tp, Collective::scatter, 0}});
  // What rank r has of eight numbers, the outer axis (cp) cutting first; then put together again as the list says.
  std::vector<Local> have(4);
  for (int r = 0; r < 4; ++r) {
    const int first = mesh.coordinate(r, Axis::cp) * 4 + mesh.coordinate(r, Axis::tp) * 2;
    have[static_cast<std::size_t>(r)] = {first, first + 1};
  }
  for (const Exchange& e : exchanges(cut, whole, mesh)) {
    const std::vector<Local> before = have;
    for (int r = 0; r < 4; ++r) {
      Local& mine = have[static_cast<std::size_t>(r)];
      mine.clear();
      for (const int other : mesh.members(r, {e.axis}))
        mine.insert(mine.end(), before[static_cast<std::size_t>(other)].begin(),
                    before[static_cast<std::size_t>(other)].end());
    }
  }
  for (const Local& all : have) CHECK(all == Local{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(str(exchanges(cut, whole, mesh)) == "all-gather tp, all-gather cp");
  CHECK(str(cut, mesh) == "tp shard(0), cp shard(0)");
}

TEST_CASE("a gradient is partial where its weight is replicated and its tokens are split") {
  const Spread batch(Axis::dp, shard(1)), seq = batch.with(Axis::tp, shard(0)).with(Axis::cp, shard(0));
  const Spread whole, rows(Axis::tp, shard(0));
  CHECK(reduce_over(whole, batch) == Axes{Axis::dp});
  CHECK(reduce_over(rows, batch) == Axes{Axis::dp});
  CHECK(reduce_over(whole, seq) == Axes{Axis::tp, Axis::cp, Axis::dp});
  CHECK(reduce_over(rows, seq) == Axes{Axis::cp, Axis::dp});
  // Experts: each rank of ep has its own, whose tokens come from all of them; copies of an expert are over edp.
  const Spread expert(Axis::ep, shard(0)), routed = Spread(Axis::edp, shard(0)).with(Axis::ep, shard(0));
  CHECK(reduce_over(expert, routed) == Axes{Axis::edp});
}
