// Communication among the ranks of one mesh axis (or of the whole job).
//
// Group is the one front: it returns at once where there is nobody to talk to (a group of one), charges the
// meter and calls the backend. Collectives are in stream order with the device's ops. All ranks of a group
// make the same calls in the same order; results are the same bits on every rank and in every run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"

namespace mbench {

enum class ReduceOp { sum, max };

// Communication under way. wait() completes it in stream order; the tensors it works on must live until then.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class Group {
 public:
  Group(Device& device, std::string name, int rank, int size)
      : device_(device), name_(std::move(name)), rank_(rank), size_(size) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

  // x = op over ranks of x.
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum);
  // The same, not waited for: overlaps with what is enqueued until wait().
  std::unique_ptr<Pending> start_all_reduce(const Tensor& x);
  // out = the ranks' `in`, one after the other along dim 0.
  void all_gather(const Tensor& in, const Tensor& out);
  std::unique_ptr<Pending> start_all_gather(const Tensor& in, const Tensor& out);
  // out = this rank's part along dim 0 of the sum of the ranks' `in`.
  void reduce_scatter(const Tensor& in, const Tensor& out);
  std::unique_ptr<Pending> start_reduce_scatter(const Tensor& in, const Tensor& out);
  void broadcast(const Tensor& x, int root);
  // Messages between two ranks of the group arrive in the order sent (per tag).
  std::unique_ptr<Pending> start_send(const Tensor& x, int to, int tag);
  void receive(const Tensor& x, int from, int tag);
  void barrier();

  // Host values, for decisions and metrics; not in stream order.
  virtual double host_max(double value) = 0;
  virtual std::vector<double> host_gather(
      const std::vector<double>& values) = 0;  // all ranks' values, on every rank

 protected:
  Device& device() { return device_; }
  virtual void do_all_reduce(const Tensor& x, ReduceOp op) = 0;
  virtual std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) = 0;
  virtual void do_all_gather(const Tensor& in, const Tensor& out) = 0;
  virtual void do_reduce_scatter(const Tensor& in, const Tensor& out) = 0;
  // Where nothing can overlap, these may be the whole collective.
  virtual std::unique_ptr<Pending> do_start_all_gather(const Tensor& in, const Tensor& out);
  virtual std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor& out);
  virtual void do_broadcast(const Tensor& x, int root) = 0;
  virtual std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) = 0;
  virtual void do_receive(const Tensor& x, int from, int tag) = 0;
  virtual void do_barrier() = 0;

 private:
  void check_parts(std::string_view what, const Tensor& part, const Tensor& whole) const;
  Device& device_;
  std::string name_;
  int rank_, size_;
};

// The ranks of a job, from which groups are made.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The group of `members` (ranks of this world, in order, this rank among them). Every rank of the world
  // calls it in the same order of groups, that of all ranks first; one that is in no group of that name gives
  // no members, and gets null.
  virtual std::unique_ptr<Group> group(Device& device, const std::string& name,
                                       const std::vector<int>& members) = 0;
};

}  // namespace mbench
