// What ranks do together, each a struct of its arguments. Group::run() and Group::start() take any of them.
//
// Each has a `name`, check(), which throws unless its tensors fit, and bytes(), which the meter is charged. Tensors are cut
// and joined along dim 0, their outermost, where the part of a rank is contiguous: "rows" are its entries. To gather or
// scatter along another dim, the caller brings that dim there first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/device/tensor.h"

namespace mbench::comm {

enum class ReduceOp { sum, max };

// A rank of a group, for what is checked there and named in messages.
struct Member {
  const std::string& group;
  int rank, size;
};

// Of an all-to-all: how many rows go to each rank, and how many come from it.
struct Rows {
  std::vector<std::int64_t> send, receive;
};

// x = op over ranks of x.
struct AllReduce {
  static constexpr const char* name = "all_reduce";
  Tensor x;
  ReduceOp op = ReduceOp::sum;

  void check(const Member&) const {}
  std::size_t bytes() const { return x.bytes(); }
};

// out = the ranks' `in`, one after the other along dim 0. `in` may be this rank's part of `out`.
struct AllGather {
  static constexpr const char* name = "all_gather";
  Tensor in, out;

  void check(const Member& me) const;
  std::size_t bytes() const { return out.bytes(); }
};

// out = this rank's part along dim 0 of the sum of the ranks' `in`. `out` may be this rank's part of `in`; the rest of `in`
// is lost then.
struct ReduceScatter {
  static constexpr const char* name = "reduce_scatter";
  Tensor in, out;

  void check(const Member& me) const;
  std::size_t bytes() const { return in.bytes(); }
};

// `in` is cut along dim 0 into a part for each rank. out = what the ranks sent here, in their order. A part has send_rows[i]
// rows to rank i and receive_rows[i] from it, which may be 0. What a rank sends to another, the other must expect. Without
// rows, all ranks cut equal parts.
struct AllToAll {
  static constexpr const char* name = "all_to_all";
  Tensor in, out;
  std::vector<std::int64_t> send_rows{}, receive_rows{};

  bool equal() const { return send_rows.empty() && receive_rows.empty(); }
  // The rows to and from each of `ranks`, equal ones too.
  Rows rows(int ranks) const;
  void check(const Member& me) const;
  std::size_t bytes() const { return in.bytes(); }
};

struct Parcel {
  Tensor in, out;
};

// Hierarchical all-to-all of token rows (DeepEP, HybridEP), of several tensors at once. A row that several ranks of a remote
// node want crosses the network once and is forwarded there. In the opposite direction rows are summed on that node first.
// `node_rows`: this rank's rows, one for each node that has any of their ranks, its own among them. A backend that knows of
// no nodes sends rows to each rank.
struct ForwardedAllToAll {
  static constexpr const char* name = "all_to_all";
  std::vector<Parcel> parcels;
  std::vector<std::int64_t> send_rows, receive_rows;
  std::int64_t node_rows;

  // The same as an all-to-all for each tensor.
  std::vector<AllToAll> each() const;
  void check(const Member& me) const;
  std::size_t bytes() const;
};

// Round the ring of ranks: `in` goes to the rank after this one (after the last: the first). out = what the rank before this
// one sent.
struct Shift {
  static constexpr const char* name = "shift";
  Tensor in, out;

  // The same as an all-to-all in which every rank sends to only one.
  AllToAll exchange(const Member& me) const;
  void check(const Member& me) const;
  std::size_t bytes() const { return in.bytes(); }
};

// On every rank, x = the x of rank `root`.
struct Broadcast {
  static constexpr const char* name = "broadcast";
  Tensor x;
  int root;

  void check(const Member&) const {}
  std::size_t bytes() const { return x.bytes(); }
};

// On `root`, x = the sum over ranks of x; on the others what x holds is lost.
struct Reduce {
  static constexpr const char* name = "reduce";
  Tensor x;
  int root;

  void check(const Member&) const {}
  std::size_t bytes() const { return x.bytes(); }
};

// Messages between two ranks of the group are received in the order sent, per tag. The receive that was started first gets the
// first message. The sender is charged its bytes.
struct Send {
  static constexpr const char* name = "send";
  Tensor x;
  int to, tag;

  void check(const Member& me) const;
  std::size_t bytes() const { return x.bytes(); }
};
struct Receive {
  static constexpr const char* name = "receive";
  Tensor x;
  int from, tag;

  void check(const Member& me) const;
  std::size_t bytes() const { return 0; }
};

using Collective = std::variant<AllReduce, AllGather, ReduceScatter, AllToAll, ForwardedAllToAll, Shift, Broadcast,
                                Reduce, Send, Receive>;

const char* name_of(const Collective& c);

}  // namespace mbench::comm
