// What collectives are before a group does them: their bytes, their rows, and what fits none.
#include "engine/comm/collectives.h"

#include "engine/base/error.h"
#include "engine/sim/run/counting.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using Catch::Contains;

namespace {

using Counts = std::vector<std::int64_t>;

const std::string kGroup = "dp";

struct Tensors {
  std::unique_ptr<Device> device = open_counting_device(0);
  Tensor of(std::int64_t rows, DType dtype = DType::f32) const {
    return device->empty({rows, 8}, dtype, Category::other, "test");
  }
};

// Of the second of three ranks.
template <class C>
std::string refusal(const C& c) {
  try {
    c.check(comm::Member{kGroup, 1, 3});
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

template <class C>
std::size_t bytes_of(const C& c) {
  return c.bytes();
}

}  // namespace

TEST_CASE("a collective charges the bytes of its larger tensor, and a message only its sender") {
  const Tensors t;
  const Tensor part = t.of(2), whole = t.of(6);
  CHECK(bytes_of(comm::AllReduce{part}) == part.bytes());
  CHECK(bytes_of(comm::AllGather{part, whole}) == whole.bytes());
  CHECK(bytes_of(comm::ReduceScatter{whole, part}) == whole.bytes());
  CHECK(bytes_of(comm::AllToAll{whole, t.of(6)}) == whole.bytes());
  CHECK(bytes_of(comm::ForwardedAllToAll{{{part, whole}, {whole, part}}, {}, {}, 0}) == part.bytes() + whole.bytes());
  CHECK(bytes_of(comm::Broadcast{part, 0}) == part.bytes());
  CHECK(bytes_of(comm::Reduce{part, 0}) == part.bytes());
  CHECK(bytes_of(comm::Send{part, 0, 0}) == part.bytes());
  CHECK(bytes_of(comm::Receive{part, 0, 0}) == 0);
  CHECK(std::string(name_of(comm::ForwardedAllToAll{{}, {}, {}, 0})) == "all_to_all");
}

TEST_CASE("without rows an all-to-all cuts equal parts, and a shift is one with a single receiver") {
  const Tensors t;
  const Tensor in = t.of(6), out = t.of(6);
  const comm::Rows equal = comm::AllToAll{in, out}.rows(3);
  CHECK(equal.send == Counts{2, 2, 2});
  CHECK(equal.receive == Counts{2, 2, 2});
  const comm::Rows own = comm::AllToAll{in, out, {1, 2, 3}, {4, 2, 0}}.rows(3);
  CHECK(own.send == Counts{1, 2, 3});
  CHECK(own.receive == Counts{4, 2, 0});
  for (const int rank : {0, 1, 2}) {
    const comm::AllToAll ring = comm::Shift{in, out}.exchange({kGroup, rank, 3});
    Counts send(3, 0), receive(3, 0);
    send[static_cast<std::size_t>((rank + 1) % 3)] = receive[static_cast<std::size_t>((rank + 2) % 3)] = 6;
    CHECK(ring.send_rows == send);
    CHECK(ring.receive_rows == receive);
    CHECK_NOTHROW(ring.check({kGroup, rank, 3}));
  }
  const auto each = comm::ForwardedAllToAll{{{in, out}, {out, in}}, {1, 2, 3}, {3, 2, 1}, 4}.each();
  REQUIRE(each.size() == 2);
  CHECK(each[1].in.data() == out.data());
  CHECK(each[1].send_rows == Counts{1, 2, 3});
}

TEST_CASE("what does not fit is refused with the group, the collective and what it got") {
  const Tensors t;
  const Tensor part = t.of(2), whole = t.of(6), other = t.of(6);
  CHECK(refusal(comm::AllGather{part, whole}) == "");
  CHECK(refusal(comm::AllGather{whole.slice(2, 2), whole}) == "");
  CHECK(refusal(comm::ReduceScatter{whole, whole.slice(2, 2)}) == "");
  CHECK_THAT(refusal(comm::AllGather{whole, part}),
             Contains("[dp all_gather] sizes, got [6, 8] and [2, 8] over 3 ranks"));
  CHECK_THAT(refusal(comm::ReduceScatter{whole, t.of(2, DType::bf16)}), Contains("[dp reduce_scatter] sizes"));
  CHECK_THAT(refusal(comm::AllGather{whole.slice(0, 2), whole}),
             Contains("lies within [6, 8] but not where the part of rank 1 of 3 does"));
  CHECK(refusal(comm::AllToAll{whole, other}) == "");
  CHECK_THAT(refusal(comm::AllToAll{whole, whole}), Contains("[dp all_to_all] got") && Contains("without overlap"));
  CHECK_THAT(refusal(comm::AllToAll{t.of(4), t.of(4)}), Contains("equal parts for 3 ranks"));
  CHECK(refusal(comm::AllToAll{whole, other, {1, 2, 3}, {3, 2, 1}}) == "");
  // Rows for some ranks alone, more than there are, or not as many to itself as from itself.
  CHECK_THAT(refusal(comm::AllToAll{whole, other, {}, {3, 2, 1}}),
             Contains("in rows  and [6, 8] in rows 3+2+1 on rank 1"));
  CHECK_THAT(refusal(comm::AllToAll{whole, other, {1, 2, 4}, {3, 2, 1}}), Contains("in rows 1+2+4"));
  CHECK_THAT(refusal(comm::AllToAll{whole, other, {1, 2, 3}, {3, 1, 2}}), Contains("as many to itself as from itself"));
  CHECK_THAT(refusal(comm::ForwardedAllToAll{{{whole, other}, {part, other}}, {1, 2, 3}, {3, 2, 1}, 6}),
             Contains("got [2, 8] in rows 1+2+3"));
  CHECK(refusal(comm::Shift{whole, other}) == "");
  CHECK_THAT(refusal(comm::Shift{whole, part}), Contains("[dp shift] got [6, 8] and [2, 8]"));
  CHECK(refusal(comm::Send{part, 2, 0}) == "");
  CHECK_THAT(refusal(comm::Send{part, 1, 0}), Contains("[dp send] rank, got 1, need another of 3 than 1"));
  CHECK_THAT(refusal(comm::Receive{part, 3, 0}), Contains("[dp receive] rank, got 3"));
}
