#include "engine/comm/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"

namespace mbench::comm {
namespace {

template <class... Argument>
[[noreturn]] void refuse(const Member& me, std::string_view what, fmt::format_string<Argument...> text,
                         Argument&&... argument) {
  fail(ErrorKind::internal, fmt::format("{} {}", me.group, what), text, std::forward<Argument>(argument)...);
}

// `part` is separate from `whole`, or this rank's place in it.
void check_parts(const Member& me, std::string_view what, const Tensor& part, const Tensor& whole) {
  if (whole.numel() != part.numel() * me.size || whole.dtype() != part.dtype())
    refuse(me, what, "sizes, got {} and {} over {} ranks", part.shape().str(), whole.shape().str(), me.size);
  if (overlap(part, whole) && part.data() != whole.data() + static_cast<std::size_t>(me.rank) * part.bytes())
    refuse(me, what, "{} lies within {} but not where the part of rank {} of {} does", part.shape().str(),
           whole.shape().str(), me.rank, me.size);
}

void check_rows(const Member& me, const Tensor& in, const Tensor& out, const std::vector<std::int64_t>& send_rows,
                const std::vector<std::int64_t>& receive_rows) {
  const auto fits = [&](const Tensor& x, const std::vector<std::int64_t>& rows) {
    return x.shape().rank() > 0 && rows.size() == static_cast<std::size_t>(me.size) &&
           std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == x.shape()[0] &&
           *std::min_element(rows.begin(), rows.end()) >= 0;
  };
  Shape row = in.shape();  // in and out are alike but for how many rows they have
  if (row.rank() > 0 && out.shape().rank() > 0) row[0] = out.shape()[0];
  const auto own = static_cast<std::size_t>(me.rank);
  if (!fits(in, send_rows) || !fits(out, receive_rows) || row != out.shape() || in.dtype() != out.dtype() ||
      overlap(in, out) || send_rows[own] != receive_rows[own])
    refuse(me, AllToAll::name,
           "got {} in rows {} and {} in rows {} on rank {}, need rows of one shape, a count for each of {} ranks, as "
           "many to itself as from itself, and no overlap",
           in.shape().str(), fmt::join(send_rows, "+"), out.shape().str(), fmt::join(receive_rows, "+"), me.rank,
           me.size);
}

void check_peer(const Member& me, std::string_view what, int peer) {
  if (peer < 0 || peer >= me.size || peer == me.rank)
    refuse(me, what, "rank, got {}, need another of {} than {}", peer, me.size, me.rank);
}

std::int64_t rows_of(const Tensor& x) {
  return x.shape().rank() == 0 ? 1 : x.shape()[0];
}

}  // namespace

void AllGather::check(const Member& me) const {
  check_parts(me, name, in, out);
}

void ReduceScatter::check(const Member& me) const {
  check_parts(me, name, out, in);
}

Rows AllToAll::rows(int ranks) const {
  if (!equal()) return {send_rows, receive_rows};
  const std::vector<std::int64_t> part(static_cast<std::size_t>(ranks), rows_of(in) / ranks);
  return {part, part};
}

void AllToAll::check(const Member& me) const {
  if (!equal()) return check_rows(me, in, out, send_rows, receive_rows);
  if (in.shape() != out.shape() || in.dtype() != out.dtype() || rows_of(in) % me.size != 0 || overlap(in, out))
    refuse(me, name,
           "got {} and {}, need two tensors of one shape and dtype without overlap, of equal parts for {} ranks",
           in.shape().str(), out.shape().str(), me.size);
}

std::vector<AllToAll> ForwardedAllToAll::each() const {
  std::vector<AllToAll> all;
  for (const Parcel& p : parcels) all.push_back({p.in, p.out, send_rows, receive_rows});
  return all;
}

void ForwardedAllToAll::check(const Member& me) const {
  for (const Parcel& p : parcels) check_rows(me, p.in, p.out, send_rows, receive_rows);
}

std::size_t ForwardedAllToAll::bytes() const {
  std::size_t bytes = 0;
  for (const Parcel& p : parcels) bytes += p.in.bytes();
  return bytes;
}

AllToAll Shift::exchange(const Member& me) const {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(me.size), 0);
  AllToAll exchange{in, out, none, none};
  exchange.send_rows[static_cast<std::size_t>((me.rank + 1) % me.size)] = in.shape()[0];
  exchange.receive_rows[static_cast<std::size_t>((me.rank + me.size - 1) % me.size)] = in.shape()[0];
  return exchange;
}

void Shift::check(const Member& me) const {
  if (in.shape() != out.shape() || in.shape().rank() == 0 || in.dtype() != out.dtype() || overlap(in, out))
    refuse(me, name, "got {} and {}, need two tensors of one shape and dtype without overlap", in.shape().str(),
           out.shape().str());
}

void Send::check(const Member& me) const {
  check_peer(me, name, to);
}

void Receive::check(const Member& me) const {
  check_peer(me, name, from);
}

const char* name_of(const Collective& c) {
  return std::visit([](const auto& each) { return each.name; }, c);
}

}  // namespace mbench::comm
