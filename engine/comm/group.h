// Communication among the ranks of one mesh axis (or of the whole job).
//
// Every call goes through Group: it checks, charges the meter and calls the backend. Collectives are in stream order
// with the device's ops. All ranks of a group make the same calls in the same order; results are the same bits on every
// rank and in every run.
//
// A group of one keeps every promise here without a backend. What a collective would bring is copied on the device.
// That costs what Device::copy costs, on simulated devices too, and nothing where the place is the same. No
// communication is charged, and what was started is already finished. A message has no receiver there and is refused.
//
// Tensors are cut and joined along dim 0, their outermost, where the part of a rank is contiguous: "rows" are its
// entries. To gather or scatter along another dim, the caller brings that dim there first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/axis.h"
#include "engine/device/device.h"

namespace mbench {

enum class ReduceOp { sum, max };

// Communication in flight. wait() completes it in stream order and is called once; the tensors it works on must live
// until then.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
  // The backend's own object, where this one wraps it.
  virtual Pending& made() { return *this; }
};

// What a group is: its name in messages and traces, and the axes of the mesh in which its ranks differ. A group that is no
// axis's, such as the ranks of a host, has none.
struct GroupName {
  std::string text;
  Axes axes;
  GroupName(Axes over) : text(str(over)), axes(over) {}
  GroupName(std::string name, Axes over = {}) : text(std::move(name)), axes(over) {}
  GroupName(const char* name, Axes over = {}) : text(name), axes(over) {}
};

// For host_gather: all ranks get what was gathered.
inline constexpr int kEveryRank = -1;

class Group {
 public:
  using Bytes = std::vector<std::byte>;

  Group(Device& device, GroupName name, int rank, int size)
      : device_(device), name_(std::move(name)), part_(communication_of(name_.axes)), rank_(rank), size_(size) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_.text; }
  const GroupName& named() const { return name_; }
  Axes axes() const { return name_.axes; }

  // start_...() does the same without waiting: it overlaps with what is enqueued until wait().

  // x = op over ranks of x.
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum);
  std::unique_ptr<Pending> start_all_reduce(const Tensor& x);
  // The same, on what is still in flight: begins when `before` has ended, which need not be waited for any more. A
  // backend that cannot order the two by itself waits for `before` here.
  std::unique_ptr<Pending> start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x);
  // out = the ranks' `in`, one after the other along dim 0. `in` may be this rank's part of `out`.
  void all_gather(const Tensor& in, const Tensor& out);
  std::unique_ptr<Pending> start_all_gather(const Tensor& in, const Tensor& out);
  // out = this rank's part along dim 0 of the sum of the ranks' `in`. `out` may be this rank's part of `in`; the rest
  // of `in` is lost then.
  void reduce_scatter(const Tensor& in, const Tensor& out);
  std::unique_ptr<Pending> start_reduce_scatter(const Tensor& in, const Tensor& out);
  // `in` is cut into equal parts along dim 0; the i-th goes to rank i. out = what the ranks sent here, in their order.
  void all_to_all(const Tensor& in, const Tensor& out);
  std::unique_ptr<Pending> start_all_to_all(const Tensor& in, const Tensor& out);
  // The same with parts of send_rows[i] rows to rank i and receive_rows[i] rows from it; both may be 0. What a rank
  // sends to another, the other must expect.
  void all_to_all(const Tensor& in, const Tensor& out, std::span<const std::int64_t> send_rows,
                  std::span<const std::int64_t> receive_rows);
  std::unique_ptr<Pending> start_all_to_all(const Tensor& in, const Tensor& out,
                                            std::span<const std::int64_t> send_rows,
                                            std::span<const std::int64_t> receive_rows);
  // Hierarchical all-to-all of token rows (DeepEP, HybridEP), of several tensors at once. A row that several ranks of a
  // remote node want crosses the network once and is forwarded there. In the opposite direction rows are summed on that
  // node first. `node_rows`: this rank's rows, one for each node that has any of their ranks, its own among them. A
  // backend that knows of no nodes sends rows to each rank.
  struct Parcel {
    Tensor in, out;
  };
  void forwarded_all_to_all(const std::vector<Parcel>& parcels, std::span<const std::int64_t> send_rows,
                            std::span<const std::int64_t> receive_rows, std::int64_t node_rows);
  std::unique_ptr<Pending> start_forwarded_all_to_all(const std::vector<Parcel>& parcels,
                                                      std::span<const std::int64_t> send_rows,
                                                      std::span<const std::int64_t> receive_rows,
                                                      std::int64_t node_rows);
  // How many ranks of the group, one after the other, are on a node; all, where the backend does not know.
  virtual int ranks_on_node() const { return size_; }
  // Round the ring of ranks: `in` goes to the rank after this one (after the last: the first). out = what the rank
  // before this one sent.
  std::unique_ptr<Pending> start_shift(const Tensor& in, const Tensor& out);
  void broadcast(const Tensor& x, int root);
  std::unique_ptr<Pending> start_broadcast(const Tensor& x, int root);
  // On `root`, x = the sum over ranks of x; on the others what x holds is lost.
  void reduce(const Tensor& x, int root);
  std::unique_ptr<Pending> start_reduce(const Tensor& x, int root);
  // Messages between two ranks of the group are received in the order sent, per tag. The receive that was started first
  // gets the first message.
  std::unique_ptr<Pending> start_send(const Tensor& x, int to, int tag);
  std::unique_ptr<Pending> start_receive(const Tensor& x, int from, int tag);
  void receive(const Tensor& x, int from, int tag);
  void barrier();

  // Host values, for decisions and metrics; not in stream order.
  double host_max(double value);
  // Every rank's bytes in the order of the ranks, of any length each: on rank `to`, or on every rank; the others get
  // nothing. engine/comm/gather.h has it for typed values.
  std::vector<Bytes> host_gather(std::span<const std::byte> mine, int to = kEveryRank);

 protected:
  // How an all_to_all cuts dim 0.
  struct Rows {
    std::vector<std::int64_t> send, receive;
    bool equal = true;  // all ranks have asked for equal parts
  };

  Device& device() { return device_; }
  TimePart part() const { return part_; }
  // Whether the device is idle while the host is in a call of the group, so that the call's time is the step's. Where a
  // stream waits, its events measure the time.
  virtual bool device_waits() const { return device_.immediate(); }
  virtual void do_all_reduce(const Tensor& x, ReduceOp op) = 0;
  virtual std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) = 0;
  virtual std::unique_ptr<Pending> do_start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x);
  virtual void do_all_gather(const Tensor& in, const Tensor& out) = 0;
  virtual void do_reduce_scatter(const Tensor& in, const Tensor& out) = 0;
  virtual void do_all_to_all(const Tensor& in, const Tensor& out, const Rows& rows) = 0;
  virtual std::unique_ptr<Pending> do_start_all_to_all(const Tensor& in, const Tensor& out, const Rows& rows) = 0;
  // One all_to_all after the other, unless a backend has a better way.
  virtual void do_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows, std::int64_t node_rows);
  virtual std::unique_ptr<Pending> do_start_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows,
                                                                 std::int64_t node_rows);
  // An all_to_all in which every rank sends to only one, unless a backend has a better way.
  virtual std::unique_ptr<Pending> do_start_shift(const Tensor& in, const Tensor& out);
  virtual void do_broadcast(const Tensor& x, int root) = 0;
  virtual void do_reduce(const Tensor& x, int root) = 0;
  // Where nothing can overlap, these may be the whole collective.
  virtual std::unique_ptr<Pending> do_start_all_gather(const Tensor& in, const Tensor& out);
  virtual std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor& out);
  virtual std::unique_ptr<Pending> do_start_broadcast(const Tensor& x, int root);
  virtual std::unique_ptr<Pending> do_start_reduce(const Tensor& x, int root);
  virtual std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) = 0;
  virtual std::unique_ptr<Pending> do_start_receive(const Tensor& x, int from, int tag) = 0;
  virtual void do_barrier() = 0;
  virtual double do_host_max(double value) = 0;
  virtual std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int to) = 0;

 private:
  void check_parts(std::string_view what, const Tensor& part, const Tensor& whole) const;
  void check_peer(std::string_view what, int peer) const;
  Rows equal_rows(const Tensor& in, const Tensor& out) const;
  Rows checked_rows(const Tensor& in, const Tensor& out, std::span<const std::int64_t> send_rows,
                    std::span<const std::int64_t> receive_rows) const;
  // And their bytes.
  std::pair<Rows, std::size_t> checked_parcels(const std::vector<Parcel>& parcels,
                                               std::span<const std::int64_t> send_rows,
                                               std::span<const std::int64_t> receive_rows) const;
  void exchange(const Tensor& in, const Tensor& out, const Rows& rows);
  std::unique_ptr<Pending> start_exchange(const Tensor& in, const Tensor& out, const Rows& rows);
  template <class Call>
  void collective(std::string_view what, std::size_t bytes, const Call& call);
  template <class Start>
  std::unique_ptr<Pending> started(std::string_view start, std::string_view wait, std::size_t bytes, const Start& call);

  std::optional<TimePart> exposed(TimePart part) const { return device_waits() ? std::optional(part) : std::nullopt; }

  Device& device_;
  GroupName name_;
  TimePart part_;  // what the time of its collectives counts for
  int rank_, size_;
};

// The ranks of a job, from which groups are made.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The group of `members` (ranks of this world, in order, this rank among them). Every rank of the world calls it in
  // the same order of groups, the group of all ranks first. A rank that is in no group of that name gives no members,
  // and gets null.
  virtual std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) = 0;
};

}  // namespace mbench
