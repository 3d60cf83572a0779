#include "test/mpi/collectives.h"

#include <numeric>

#include "engine/base/half.h"
#include "engine/comm/gather.h"
#include "test/catch.h"

namespace mbench::test {
namespace {

template <class T>
constexpr DType dtype_of = DType::f32;
template <>
constexpr DType dtype_of<bf16> = DType::bf16;
template <>
constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
constexpr DType dtype_of<std::uint8_t> = DType::u8;

template <class T>
T number(std::int64_t v) {
  if constexpr (std::is_same_v<T, bf16>)
    return from_float<bf16>(static_cast<float>(v % 128));
  else
    return static_cast<T>(v);
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

constexpr std::int64_t kColumns = 3;

Tensor empty(Device& device, std::int64_t rows, DType dtype = DType::f32) {
  return device.empty({rows, kColumns}, dtype, Category::other, "test");
}

template <class T>
void put(Device& device, const Tensor& x, const std::vector<T>& values) {
  device.write(x, std::as_bytes(std::span(values)));
}

template <class T>
std::vector<T> get(Device& device, const Tensor& x) {
  std::vector<T> values(static_cast<std::size_t>(x.numel()));
  device.read(x, std::as_writable_bytes(std::span(values)));
  return values;
}

// `rows` rows, as one rank says them to another: no two elements of a test are alike.
template <class T>
std::vector<T> rows_of(int from, int to, std::int64_t rows) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < rows * kColumns; ++i) values.push_back(number<T>(from * 10000 + to * 1000 + i));
  return values;
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Groups of every size, each once of neighbours and once of ranks far apart; that of all ranks first.
std::vector<std::unique_ptr<comm::Group>> groups_of(comm::World& world, Device& device) {
  std::vector<std::unique_ptr<comm::Group>> groups;
  for (int size = world.size(); size >= 1; size /= 2)
    for (const bool near : {true, false}) {
      const int count = world.size() / size;
      if (!near && (count == 1 || size == 1)) continue;
      std::vector<int> members;
      for (int i = 0; i < size; ++i)
        members.push_back(near ? world.rank() / size * size + i : world.rank() % count + i * count);
      groups.push_back(world.group(device, fmt::format("{} {}", size, near ? "neighbours" : "apart"), members));
    }
  return groups;
}

// What the ranks of a group say to each other in all_gather and reduce_scatter: small whole numbers, whose
// sums are exact.
template <class T>
void check_gather_and_scatter(Device& device, comm::Group& group, bool start) {
  const int n = group.size(), me = group.rank();
  const auto done = [&](std::unique_ptr<comm::Pending> pending) { pending->wait(); };
  constexpr std::int64_t rows = 2;
  const DType dtype = dtype_of<T>;

  std::vector<T> gathered;
  for (int r = 0; r < n; ++r) append(gathered, rows_of<T>(r, 0, rows));
  const Tensor part = empty(device, rows, dtype), whole = empty(device, rows * n, dtype);
  put(device, part, rows_of<T>(me, 0, rows));
  put(device, whole, std::vector<T>(gathered.size(), T{}));
  start ? done(group.start(comm::AllGather{part, whole})) : group.run(comm::AllGather{part, whole});
  CHECK(same(get<T>(device, whole), gathered));
  CHECK(same(get<T>(device, part), rows_of<T>(me, 0, rows)));

  put(device, whole, std::vector<T>(gathered.size(), T{}));
  const Tensor own = whole.slice(me * rows, rows);
  put(device, own, rows_of<T>(me, 0, rows));
  start ? done(group.start(comm::AllGather{own, whole})) : group.run(comm::AllGather{own, whole});
  CHECK(same(get<T>(device, whole), gathered));

  std::vector<T> said, sum;
  for (int r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < rows * kColumns; ++i) {
      said.push_back(number<T>(me + r + i));
      if (r == me) sum.push_back(number<T>(n * (n - 1) / 2 + n * (me + i)));
    }
  put(device, whole, said);
  start ? done(group.start(comm::ReduceScatter{whole, part})) : group.run(comm::ReduceScatter{whole, part});
  CHECK(same(get<T>(device, part), sum));
  CHECK(same(get<T>(device, whole), said));
  start ? done(group.start(comm::ReduceScatter{whole, own})) : group.run(comm::ReduceScatter{whole, own});
  CHECK(same(get<T>(device, own), sum));
}

void check_reductions(Device& device, comm::Group& group) {
  const int n = group.size(), me = group.rank();
  const Tensor x = empty(device, 1);
  const auto all = [](float v) { return std::vector<float>(kColumns, v); };
  put(device, x, all(static_cast<float>(me + 1)));
  group.run(comm::AllReduce{x});
  CHECK(get<float>(device, x) == all(static_cast<float>(n * (n + 1) / 2)));
  put(device, x, all(static_cast<float>(me + 1)));
  group.start(comm::AllReduce{x})->wait();
  CHECK(get<float>(device, x) == all(static_cast<float>(n * (n + 1) / 2)));
  // Of what is still under way: a rank's part of a sum, summed again.
  const Tensor parts = empty(device, n), part = parts.slice(me, 1);
  put(device, parts, std::vector<float>(static_cast<std::size_t>(n * kColumns), static_cast<float>(me + 1)));
  group.start(comm::AllReduce{part}, group.start(comm::ReduceScatter{parts, part}))->wait();
  CHECK(get<float>(device, part) == all(static_cast<float>(n * n * (n + 1) / 2)));
  // Or gathered, by a collective of another kind.
  put(device, parts, std::vector<float>(static_cast<std::size_t>(n * kColumns), static_cast<float>(me + 1)));
  group.start(comm::AllGather{part, parts}, group.start(comm::ReduceScatter{parts, part}))->wait();
  CHECK(get<float>(device, parts) ==
        std::vector<float>(static_cast<std::size_t>(n * kColumns), static_cast<float>(n * (n + 1) / 2)));
  for (const bool start : {false, true}) {
    put(device, x, all(static_cast<float>(me + 1)));
    const comm::AllReduce largest{x, comm::ReduceOp::max};
    start ? group.start(largest)->wait() : group.run(largest);
    CHECK(get<float>(device, x) == all(static_cast<float>(n)));
  }
  put(device, x, all(static_cast<float>(me + 1)));
  group.run(comm::Broadcast{x, n - 1});
  CHECK(get<float>(device, x) == all(static_cast<float>(n)));
  put(device, x, all(static_cast<float>(me + 1)));
  group.start(comm::Broadcast{x, 0})->wait();
  CHECK(get<float>(device, x) == all(1));
  for (const bool start : {false, true})
    for (const int root : {0, n - 1}) {
      put(device, x, all(static_cast<float>(me + 1)));
      start ? group.start(comm::Reduce{x, root})->wait() : group.run(comm::Reduce{x, root});
      if (me == root) CHECK(get<float>(device, x) == all(static_cast<float>(n * (n + 1) / 2)));
    }
  group.barrier();
}

// Rows from one rank to another: some pairs none, and of the second kind the first rank has nothing at all.
std::int64_t uneven(int kind, int from, int to) {
  if (kind == 1) return from == 0 || to == 0 ? 0 : 1 + (from + to) % 3;
  return (from + 2 * to + kind) % 3;
}

struct Exchange {
  std::vector<std::int64_t> send, receive;
  std::vector<float> in, out;
};

Exchange uneven_exchange(const comm::Group& group, int kind) {
  Exchange e;
  const int me = group.rank();
  for (int r = 0; r < group.size(); ++r) {
    e.send.push_back(uneven(kind, me, r));
    e.receive.push_back(uneven(kind, r, me));
    append(e.in, rows_of<float>(me, r, e.send.back()));
    append(e.out, rows_of<float>(r, me, e.receive.back()));
  }
  return e;
}

std::int64_t total(const std::vector<std::int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

template <class T>
void check_equal_parts(Device& device, comm::Group& group) {
  const int n = group.size(), me = group.rank();
  constexpr std::int64_t rows = 2;
  std::vector<T> said, heard;
  for (int r = 0; r < n; ++r) {
    append(said, rows_of<T>(me, r, rows));
    append(heard, rows_of<T>(r, me, rows));
  }
  const Tensor in = empty(device, rows * n, dtype_of<T>), out = empty(device, rows * n, dtype_of<T>);
  for (const bool start : {false, true}) {
    put(device, in, said);
    put(device, out, std::vector<T>(heard.size(), T{}));
    if (start)
      group.start(comm::AllToAll{in, out})->wait();
    else
      group.run(comm::AllToAll{in, out});
    CHECK(same(get<T>(device, out), heard));
  }
}

// Each hears its neighbour, and two shifts may be on their way at once.
template <class T>
void check_shifts(Device& device, comm::Group& group) {
  const int n = group.size(), me = group.rank(), before = (me + n - 1) % n, after = (me + 1) % n;
  constexpr std::int64_t rows = 5;
  Tensor in[2], out[2];
  std::unique_ptr<comm::Pending> pending[2];
  const double charged = sum_of(device.meter().communication_bytes);
  for (int i = 0; i < 2; ++i) {
    in[i] = empty(device, rows + i, dtype_of<T>), out[i] = empty(device, rows + i, dtype_of<T>);
    put(device, in[i], rows_of<T>(me, after, rows + i));
    pending[i] = group.start(comm::Shift{in[i], out[i]});
  }
  for (int i = 0; i < 2; ++i) {
    pending[i]->wait();
    CHECK(same(get<T>(device, out[i]), rows_of<T>(before, me, rows + i)));
  }
  put(device, out[0], rows_of<T>(me, me, rows));
  group.run(comm::Shift{in[0], out[0]});
  CHECK(same(get<T>(device, out[0]), rows_of<T>(before, me, rows)));
  const double sent = n == 1 ? 0 : static_cast<double>(2 * in[0].bytes() + in[1].bytes());
  CHECK(sum_of(device.meter().communication_bytes) - charged == sent);
}

bool charged_none(const Meter& before, const Meter& now) {
  return before.communication_bytes == now.communication_bytes;
}

}  // namespace

void check_collectives(comm::World& world, Device& device) {
  for (const auto& group : groups_of(world, device)) {
    INFO(group->name() << ", rank " << group->rank());
    const Meter before = device.meter();
    check_reductions(device, *group);
    for (const bool start : {false, true}) {
      INFO((start ? "started" : "whole"));
      check_gather_and_scatter<float>(device, *group, start);
      check_gather_and_scatter<bf16>(device, *group, start);
      check_gather_and_scatter<std::int64_t>(device, *group, start);
    }
    check_shifts<float>(device, *group);
    check_shifts<bf16>(device, *group);
    CHECK(charged_none(before, device.meter()) == (group->size() == 1));
  }
}

void check_all_to_all(comm::World& world, Device& device) {
  const auto groups = groups_of(world, device);
  for (const auto& group : groups) {
    INFO(group->name() << ", rank " << group->rank());
    check_equal_parts<float>(device, *group);
    check_equal_parts<bf16>(device, *group);
    check_equal_parts<std::uint8_t>(device, *group);
    for (int kind = 0; kind < 3; ++kind) {
      INFO("uneven parts of kind " << kind);
      const Exchange e = uneven_exchange(*group, kind);
      const Tensor in = empty(device, total(e.send)), out = empty(device, total(e.receive));
      put(device, in, e.in);
      const double before = sum_of(device.meter().communication_bytes);
      group->run(comm::AllToAll{in, out, e.send, e.receive});
      CHECK(get<float>(device, out) == e.out);
      CHECK(sum_of(device.meter().communication_bytes) - before ==
            (group->size() == 1 ? 0 : static_cast<double>(in.bytes())));
      put(device, out, std::vector<float>(e.out.size(), -1));
      group->start(comm::AllToAll{in, out, e.send, e.receive})->wait();
      CHECK(get<float>(device, out) == e.out);
      // Two tensors whose rows go together.
      const Tensor more = empty(device, total(e.receive));
      put(device, out, std::vector<float>(e.out.size(), -1));
      const double once = sum_of(device.meter().communication_bytes);
      group->run(comm::ForwardedAllToAll{{{in, out}, {in, more}}, e.send, e.receive, total(e.send)});
      CHECK(get<float>(device, out) == e.out);
      CHECK(get<float>(device, more) == e.out);
      CHECK(sum_of(device.meter().communication_bytes) - once ==
            (group->size() == 1 ? 0 : 2 * static_cast<double>(in.bytes())));
    }
  }
  // All groups at once, three of each under way, which end in the order they were started in.
  struct UnderWay {
    Exchange e;
    Tensor in, out;
    std::unique_ptr<comm::Pending> pending;
  };
  std::vector<UnderWay> under_way;
  for (int kind = 0; kind < 3; ++kind)
    for (const auto& group : groups) {
      UnderWay& u = under_way.emplace_back();
      u.e = uneven_exchange(*group, kind);
      u.in = empty(device, total(u.e.send)), u.out = empty(device, total(u.e.receive));
      put(device, u.in, u.e.in);
      u.pending = group->start(comm::AllToAll{u.in, u.out, u.e.send, u.e.receive});
    }
  for (UnderWay& u : under_way) {
    u.pending->wait();
    CHECK(get<float>(device, u.out) == u.e.out);
  }
}

void check_messages(comm::World& world, Device& device) {
  const auto groups = groups_of(world, device);
  for (const bool receive_first : {true, false})
    for (const auto& group : groups) {
      if (group->size() == 1) continue;
      INFO(group->name() << ", rank " << group->rank() << ", receives " << (receive_first ? "before" : "after")
                         << " sends");
      // Around the ring, two messages of a tag and one of another, waited for in another order.
      const int n = group->size(), me = group->rank(), next = (me + 1) % n, before = (me + n - 1) % n;
      constexpr int tags[] = {4, 5, 4};
      Tensor out[3], in[3];
      std::unique_ptr<comm::Pending> sends[3], receives[3];
      for (int i = 0; i < 3; ++i) {
        out[i] = empty(device, i + 1), in[i] = empty(device, i + 1);
        put(device, out[i], rows_of<float>(me, i, i + 1));
        put(device, in[i], std::vector<float>(static_cast<std::size_t>(in[i].numel()), -1));
      }
      const auto send = [&] {
        for (int i = 0; i < 3; ++i) sends[i] = group->start(comm::Send{out[i], next, tags[i]});
      };
      const auto receive = [&] {
        for (int i = 0; i < 3; ++i) receives[i] = group->start(comm::Receive{in[i], before, tags[i]});
      };
      if (receive_first) receive();
      send();
      if (!receive_first) receive();
      for (const int i : {2, 0, 1}) receives[i]->wait();
      for (const auto& s : sends) s->wait();
      for (int i = 0; i < 3; ++i) CHECK(get<float>(device, in[i]) == rows_of<float>(before, i, i + 1));
      // A receive that waits at once, for a message that is sent before it.
      const auto sent = group->start(comm::Send{out[0], before, 8});
      group->run(comm::Receive{in[0], next, 8});
      sent->wait();
      CHECK(get<float>(device, in[0]) == rows_of<float>(next, 0, 1));
    }
}

void check_host_values(comm::World& world, Device& device) {
  struct Figures {
    double seconds;
    std::int32_t rank;
    bool odd;
  };
  for (const auto& group : groups_of(world, device)) {
    INFO(group->name() << ", rank " << group->rank());
    const int n = group->size(), me = group->rank();
    CHECK(group->host_max(-me) == 0);
    CHECK(group->host_max(me) == n - 1);

    const std::vector<Figures> all = comm::gather_all(*group, Figures{0.5 * me, me, me % 2 == 1});
    REQUIRE(all.size() == static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) {
      const Figures& f = all[static_cast<std::size_t>(r)];
      CHECK((f.seconds == 0.5 * r && f.rank == r && f.odd == (r % 2 == 1)));
    }
    const auto lists =
        comm::gather_all(*group, std::vector<double>(static_cast<std::size_t>((me + n - 1) % n), me));  // one empty
    for (int r = 0; r < n; ++r)
      CHECK(lists.at(static_cast<std::size_t>(r)) == std::vector<double>(static_cast<std::size_t>((r + n - 1) % n), r));

    // Text for one rank: of most ranks none, of one more than hosts gather at a time.
    const auto text_of = [&](int r) {
      return r == n - 1 ? std::string(std::size_t{5} << 20, 'x') + "end" : std::string();
    };
    for (const int to : {0, n - 1}) {
      const std::vector<std::string> texts = comm::gather_text(*group, text_of(me), to);
      CHECK(texts.size() == static_cast<std::size_t>(me == to ? n : 0));
      for (std::size_t r = 0; r < texts.size(); ++r) CHECK((texts[r] == text_of(static_cast<int>(r))));
    }
  }
}

void check_refusals(comm::World& world, Device& device) {
  for (const auto& group : groups_of(world, device)) {
    INFO(group->name());
    const auto n = static_cast<std::size_t>(group->size());
    const std::int64_t rows = group->size();
    const Tensor in = empty(device, rows), out = empty(device, rows), longer = empty(device, rows + 1);
    const std::vector<std::int64_t> one(n, 1), few(n - 1, 1);
    std::vector<std::int64_t> shifted(n, 1), negative(n, 1);
    shifted.front() += 1, shifted.back() -= 1;
    negative.front() -= 2, negative.back() += 2;  // as many in all
    CHECK_THROWS_AS(group->run(comm::AllToAll{in, longer}), Error);
    CHECK_THROWS_AS(group->run(comm::AllToAll{in, in}), Error);
    CHECK_THROWS_AS(group->run(comm::AllToAll{in, out, few, one}), Error);
    CHECK_THROWS_AS(group->run(comm::AllToAll{in, longer, one, one}), Error);
    if (n > 1) CHECK_THROWS_AS(group->run(comm::AllToAll{in, out, negative, one}), Error);
    // What a rank sends to itself it also gets.
    if (n > 1 && (group->rank() == 0 || group->rank() + 1 == group->size()))
      CHECK_THROWS_AS(group->start(comm::AllToAll{in, out, shifted, one}), Error);
    CHECK_THROWS_AS(group->run(comm::AllGather{in, in.view({kColumns, rows}).slice(0, 1)}), Error);
    CHECK_THROWS_AS(group->start(comm::Send{in, group->rank(), 0}), Error);
    CHECK_THROWS_AS(group->start(comm::Receive{in, group->size(), 0}), Error);
    // Within the whole, but not where this rank's part lies.
    const Tensor whole = device.empty({2 * rows + 1}, DType::f32, Category::other, "test");
    CHECK_THROWS_AS(group->run(comm::AllGather{whole.slice(2 * group->rank() + 1, 2), whole.slice(0, 2 * rows)}),
                    Error);
  }
}

}  // namespace mbench::test
