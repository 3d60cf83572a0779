// Communication among the ranks of one mesh axis (or of the whole job).
//
// Every collective (collectives.h) goes through run() or start(): one front checks it, charges the meter and calls the
// backend. Collectives are in stream order with the device's ops. All ranks of a group make the same calls in the same
// order; results are the same bits on every rank and in every run.
//
// A group of one keeps every promise here without a backend. What a collective would bring is copied on the device.
// That costs what Device::copy costs, on simulated devices too, and nothing where the place is the same. No
// communication is charged, and what was started is already finished. A message has no receiver there and is refused.
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
#include "engine/comm/collectives.h"
#include "engine/device/device.h"

namespace mbench::comm {

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
  Member member() const { return {name_.text, rank_, size_}; }
  const std::string& name() const { return name_.text; }
  const GroupName& named() const { return name_; }
  Axes axes() const { return name_.axes; }

  void run(const Collective& c);
  // The same without waiting: it overlaps with what is enqueued until wait(). It begins when `after` has ended, if that is
  // given, which need not be waited for any more. A backend that cannot order the two by itself waits for `after` here.
  std::unique_ptr<Pending> start(const Collective& c, std::unique_ptr<Pending> after = nullptr);
  // How many ranks of the group, one after the other, are on a node; all, where the backend does not know.
  virtual int ranks_on_node() const { return size_; }
  void barrier();

  // Host values, for decisions and metrics; not in stream order.
  double host_max(double value);
  // Every rank's bytes in the order of the ranks, of any length each: on rank `to`, or on every rank; the others get
  // nothing. engine/comm/gather.h has it for typed values.
  std::vector<Bytes> host_gather(std::span<const std::byte> mine, int to = kEveryRank);

 protected:
  Device& device() { return device_; }
  TimePart part() const { return part_; }
  // Whether the device is idle while the host is in a call of the group, so that the call's time is the step's. Where a
  // stream waits, its events measure the time.
  virtual bool device_waits() const { return device_.immediate(); }
  virtual void do_run(const Collective& c) = 0;
  // Where nothing can overlap, this may be the whole collective.
  virtual std::unique_ptr<Pending> do_start(const Collective& c);
  // `before` need not be waited for. Unless a backend has a better way, it is, as a part of this call.
  virtual std::unique_ptr<Pending> do_start_after(Pending& before, const Collective& c);
  virtual void do_barrier() = 0;
  virtual double do_host_max(double value) = 0;
  virtual std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int to) = 0;

 private:
  Device& device_;
  GroupName name_;
  TimePart part_;  // what the time of its collectives counts for
  int rank_, size_;
};

// Several that are waited for one after the other.
std::unique_ptr<Pending> all_of(std::vector<std::unique_ptr<Pending>> each);

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

}  // namespace mbench::comm
