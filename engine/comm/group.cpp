#include "engine/comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace mbench {
namespace {

// Adds the time between construction and destruction, on the device's clock, to one of the meter's, to a part of the step where
// the device has nothing to do meanwhile (Group::device_waits), and to the trace if an op has ended when its call returns.
class Stopwatch {
 public:
  Stopwatch(Device& device, double& seconds, std::optional<TimePart> part, const std::string& group,
            std::string_view what)
      : device_(device), seconds_(seconds), part_(part), group_(group), what_(what), start_(device.now()) {}
  ~Stopwatch() {
    const double end = device_.now();
    seconds_ += end - start_;
    if (part_) at(device_.meter().seconds, *part_) += end - start_;
    if (!device_.immediate()) return;
    if (Timeline* t = device_.timeline())
      t->add({Track::communication, group_}, fmt::format("{} {}", what_, group_), start_, end);
  }

 private:
  Device& device_;
  double& seconds_;
  std::optional<TimePart> part_;
  const std::string& group_;
  std::string_view what_;
  double start_;
};

class TimedPending final : public Pending {
 public:
  TimedPending(std::unique_ptr<Pending> inner, Device& device, double& seconds, std::optional<TimePart> part,
               const std::string& group, std::string_view what)
      : inner_(std::move(inner)), device_(device), seconds_(seconds), part_(part), group_(group), what_(what) {}
  void wait() override {
    Stopwatch watch(device_, seconds_, part_, group_, what_);
    inner_->wait();
  }
  Pending& made() override { return inner_->made(); }

 private:
  std::unique_ptr<Pending> inner_;
  Device& device_;
  double& seconds_;
  std::optional<TimePart> part_;
  const std::string& group_;
  std::string_view what_;
};

class NothingPending final : public Pending {
 public:
  void wait() override {}
};

// Does it, and adds it to a step that is recorded.
template <class Call>
void enqueue(Device& device, const Call& call) {
  if (!device.enqueues()) return;
  if (CallList* list = device.recording()) list->add(call);
  call();
}

using Cell = std::shared_ptr<std::unique_ptr<Pending>>;

// What is under way in a step that is recorded: what starts it anew in a replay leaves it here for what waits for it.
class RecordedPending final : public Pending {
 public:
  template <class Start>
  RecordedPending(Device& device, const Start& start) : device_(device) {
    enqueue(device, [start, cell = cell_] { *cell = start(); });
  }
  void wait() override {
    enqueue(device_, [cell = cell_] { std::exchange(*cell, nullptr)->wait(); });
  }
  const Cell& cell() const { return cell_; }

 private:
  Device& device_;
  Cell cell_ = std::make_shared<std::unique_ptr<Pending>>();
};

// Where a replay finds anew what it has started.
Cell cell_of(std::unique_ptr<Pending> pending) {
  if (const auto* recorded = dynamic_cast<const RecordedPending*>(pending.get())) return recorded->cell();
  return std::make_shared<std::unique_ptr<Pending>>(std::move(pending));
}

template <class Start>
std::unique_ptr<Pending> begin(Device& device, const Start& start) {
  if (!device.enqueues()) return std::make_unique<NothingPending>();
  if (!device.recording()) return start();
  return std::make_unique<RecordedPending>(device, start);
}

}  // namespace

// The whole of a collective, charged and timed. What is called holds its arguments: it may be called again.
template <class Call>
void Group::collective(std::string_view what, std::size_t bytes, const Call& call) {
  enqueue(device_, [this, what, bytes, call] {
    Meter& meter = device_.meter();
    at(meter.communication_bytes, part_) += static_cast<double>(bytes);
    Stopwatch watch(device_, meter.communication_seconds, exposed(part_), name_.text, what);
    call();
  });
}

// Its start, as what is waited for later. Both names outlive it.
template <class Start>
std::unique_ptr<Pending> Group::started(std::string_view start, std::string_view wait, std::size_t bytes,
                                        const Start& call) {
  return begin(device_, [this, start, wait, bytes, call]() -> std::unique_ptr<Pending> {
    Meter& meter = device_.meter();
    at(meter.communication_bytes, part_) += static_cast<double>(bytes);
    Stopwatch watch(device_, meter.communication_seconds, exposed(part_), name_.text, start);
    return std::make_unique<TimedPending>(call(), device_, meter.communication_seconds, exposed(part_), name_.text,
                                          wait);
  });
}

void Group::all_reduce(const Tensor& x, ReduceOp op) {
  if (size_ == 1) return;
  collective("all_reduce", x.bytes(), [this, x, op] { do_all_reduce(x, op); });
}

std::unique_ptr<Pending> Group::start_all_reduce(const Tensor& x) {
  if (size_ == 1) return std::make_unique<NothingPending>();
  return started("start all_reduce", "wait all_reduce", x.bytes(), [this, x] { return do_start_all_reduce(x); });
}

std::unique_ptr<Pending> Group::start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x) {
  if (size_ == 1) return before;
  return started("start all_reduce", "wait all_reduce", x.bytes(), [this, x, cell = cell_of(std::move(before))] {
    // What was no communication is nothing to wait for in a replay either.
    auto first = std::exchange(*cell, nullptr);
    return first ? do_start_all_reduce_after(std::move(first), x) : do_start_all_reduce(x);
  });
}

std::unique_ptr<Pending> Group::do_start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x) {
  before->made().wait();  // as a part of this call, which is timed
  return do_start_all_reduce(x);
}

// `part` is apart from `whole`, or this rank's place in it.
void Group::check_parts(std::string_view what, const Tensor& part, const Tensor& whole) const {
  if (whole.numel() != part.numel() * size_ || whole.dtype() != part.dtype())
    fail(ErrorKind::internal, fmt::format("{} {}", name_.text, what), "sizes, got {} and {} over {} ranks",
         part.shape().str(), whole.shape().str(), size_);
  if (overlap(part, whole) && part.data() != whole.data() + static_cast<std::size_t>(rank_) * part.bytes())
    fail(ErrorKind::internal, fmt::format("{} {}", name_.text, what),
         "{} lies within {} but not where the part of rank {} of {} does", part.shape().str(), whole.shape().str(),
         rank_, size_);
}

void Group::all_gather(const Tensor& in, const Tensor& out) {
  check_parts("all_gather", in, out);
  if (size_ == 1) return device_.copy(in, out);
  collective("all_gather", out.bytes(), [this, in, out] { do_all_gather(in, out); });
}

std::unique_ptr<Pending> Group::start_all_gather(const Tensor& in, const Tensor& out) {
  check_parts("all_gather", in, out);
  if (size_ == 1) {
    device_.copy(in, out);
    return std::make_unique<NothingPending>();
  }
  return started("start all_gather", "wait all_gather", out.bytes(),
                 [this, in, out] { return do_start_all_gather(in, out); });
}

void Group::reduce_scatter(const Tensor& in, const Tensor& out) {
  check_parts("reduce_scatter", out, in);
  if (size_ == 1) return device_.copy(in, out);
  collective("reduce_scatter", in.bytes(), [this, in, out] { do_reduce_scatter(in, out); });
}

std::unique_ptr<Pending> Group::start_reduce_scatter(const Tensor& in, const Tensor& out) {
  check_parts("reduce_scatter", out, in);
  if (size_ == 1) {
    device_.copy(in, out);
    return std::make_unique<NothingPending>();
  }
  return started("start reduce_scatter", "wait reduce_scatter", in.bytes(),
                 [this, in, out] { return do_start_reduce_scatter(in, out); });
}

std::unique_ptr<Pending> Group::do_start_all_gather(const Tensor& in, const Tensor& out) {
  do_all_gather(in, out);
  return std::make_unique<NothingPending>();
}

std::unique_ptr<Pending> Group::do_start_reduce_scatter(const Tensor& in, const Tensor& out) {
  do_reduce_scatter(in, out);
  return std::make_unique<NothingPending>();
}

std::unique_ptr<Pending> Group::do_start_broadcast(const Tensor& x, int root) {
  do_broadcast(x, root);
  return std::make_unique<NothingPending>();
}

std::unique_ptr<Pending> Group::do_start_reduce(const Tensor& x, int root) {
  do_reduce(x, root);
  return std::make_unique<NothingPending>();
}

Group::Rows Group::equal_rows(const Tensor& in, const Tensor& out) const {
  const std::int64_t rows = in.shape().rank() == 0 ? 1 : in.shape()[0];
  if (in.shape() == out.shape() && in.dtype() == out.dtype() && rows % size_ == 0 && !overlap(in, out)) {
    const std::vector<std::int64_t> part(static_cast<std::size_t>(size_), rows / size_);
    return {part, part, true};
  }
  fail(ErrorKind::internal, fmt::format("{} all_to_all", name_.text),
       "got {} and {}, need two tensors of one shape and dtype without overlap, of equal parts for {} ranks",
       in.shape().str(), out.shape().str(), size_);
}

Group::Rows Group::checked_rows(const Tensor& in, const Tensor& out, std::span<const std::int64_t> send_rows,
                                std::span<const std::int64_t> receive_rows) const {
  const auto fits = [&](const Tensor& x, std::span<const std::int64_t> rows) {
    return x.shape().rank() > 0 && rows.size() == static_cast<std::size_t>(size_) &&
           std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == x.shape()[0] &&
           *std::min_element(rows.begin(), rows.end()) >= 0;
  };
  Shape row = in.shape();  // in and out are alike but for how many rows they have
  if (row.rank() > 0 && out.shape().rank() > 0) row[0] = out.shape()[0];
  const std::size_t me = static_cast<std::size_t>(rank_);
  if (!fits(in, send_rows) || !fits(out, receive_rows) || row != out.shape() || in.dtype() != out.dtype() ||
      overlap(in, out) || send_rows[me] != receive_rows[me])
    fail(ErrorKind::internal, fmt::format("{} all_to_all", name_.text),
         "got {} in rows {} and {} in rows {} on rank {}, need rows of one shape, a count for each of {} ranks, as "
         "many to itself as from itself, and no overlap",
         in.shape().str(), fmt::join(send_rows, "+"), out.shape().str(), fmt::join(receive_rows, "+"), rank_, size_);
  return {{send_rows.begin(), send_rows.end()}, {receive_rows.begin(), receive_rows.end()}, false};
}

void Group::exchange(const Tensor& in, const Tensor& out, const Rows& rows) {
  if (size_ == 1) return device_.copy(in, out);
  collective("all_to_all", in.bytes(), [this, in, out, rows] { do_all_to_all(in, out, rows); });
}

std::unique_ptr<Pending> Group::start_exchange(const Tensor& in, const Tensor& out, const Rows& rows) {
  if (size_ == 1) {
    device_.copy(in, out);
    return std::make_unique<NothingPending>();
  }
  return started("start all_to_all", "wait all_to_all", in.bytes(),
                 [this, in, out, rows] { return do_start_all_to_all(in, out, rows); });
}

void Group::all_to_all(const Tensor& in, const Tensor& out) {
  exchange(in, out, equal_rows(in, out));
}
std::unique_ptr<Pending> Group::start_all_to_all(const Tensor& in, const Tensor& out) {
  return start_exchange(in, out, equal_rows(in, out));
}
void Group::all_to_all(const Tensor& in, const Tensor& out, std::span<const std::int64_t> send_rows,
                       std::span<const std::int64_t> receive_rows) {
  exchange(in, out, checked_rows(in, out, send_rows, receive_rows));
}
std::unique_ptr<Pending> Group::start_all_to_all(const Tensor& in, const Tensor& out,
                                                 std::span<const std::int64_t> send_rows,
                                                 std::span<const std::int64_t> receive_rows) {
  return start_exchange(in, out, checked_rows(in, out, send_rows, receive_rows));
}

std::pair<Group::Rows, std::size_t> Group::checked_parcels(const std::vector<Parcel>& parcels,
                                                           std::span<const std::int64_t> send_rows,
                                                           std::span<const std::int64_t> receive_rows) const {
  Rows rows;
  std::size_t bytes = 0;
  for (const Parcel& p : parcels) {
    rows = checked_rows(p.in, p.out, send_rows, receive_rows);
    bytes += p.in.bytes();
  }
  return {rows, bytes};
}

void Group::forwarded_all_to_all(const std::vector<Parcel>& parcels, std::span<const std::int64_t> send_rows,
                                 std::span<const std::int64_t> receive_rows, std::int64_t node_rows) {
  const auto [rows, bytes] = checked_parcels(parcels, send_rows, receive_rows);
  if (size_ == 1) {
    for (const Parcel& p : parcels) device_.copy(p.in, p.out);
    return;
  }
  collective("all_to_all", bytes,
             [this, parcels, rows = rows, node_rows] { do_forwarded_all_to_all(parcels, rows, node_rows); });
}

std::unique_ptr<Pending> Group::start_forwarded_all_to_all(const std::vector<Parcel>& parcels,
                                                           std::span<const std::int64_t> send_rows,
                                                           std::span<const std::int64_t> receive_rows,
                                                           std::int64_t node_rows) {
  const auto [rows, bytes] = checked_parcels(parcels, send_rows, receive_rows);
  if (size_ == 1) {
    for (const Parcel& p : parcels) device_.copy(p.in, p.out);
    return std::make_unique<NothingPending>();
  }
  return started("start all_to_all", "wait all_to_all", bytes, [this, parcels, rows = rows, node_rows] {
    return do_start_forwarded_all_to_all(parcels, rows, node_rows);
  });
}

namespace {

// Several that are waited for one after the other.
class AllPending final : public Pending {
 public:
  explicit AllPending(std::vector<std::unique_ptr<Pending>> all) : all_(std::move(all)) {}
  void wait() override {
    for (const auto& each : all_) each->wait();
  }

 private:
  std::vector<std::unique_ptr<Pending>> all_;
};

}  // namespace

std::unique_ptr<Pending> Group::do_start_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows,
                                                              std::int64_t) {
  std::vector<std::unique_ptr<Pending>> all;
  for (const Parcel& p : parcels) all.push_back(do_start_all_to_all(p.in, p.out, rows));
  return std::make_unique<AllPending>(std::move(all));
}

void Group::do_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows, std::int64_t) {
  for (const Parcel& p : parcels) do_all_to_all(p.in, p.out, rows);
}

std::unique_ptr<Pending> Group::start_shift(const Tensor& in, const Tensor& out) {
  if (in.shape() != out.shape() || in.shape().rank() == 0 || in.dtype() != out.dtype() || overlap(in, out))
    fail(ErrorKind::internal, fmt::format("{} shift", name_.text),
         "got {} and {}, need two tensors of one shape and dtype without overlap", in.shape().str(), out.shape().str());
  if (size_ == 1) {
    device_.copy(in, out);
    return std::make_unique<NothingPending>();
  }
  return started("start shift", "wait shift", in.bytes(), [this, in, out] { return do_start_shift(in, out); });
}

std::unique_ptr<Pending> Group::do_start_shift(const Tensor& in, const Tensor& out) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(size_), 0);
  Rows rows{none, none, false};
  rows.send[static_cast<std::size_t>((rank_ + 1) % size_)] = in.shape()[0];
  rows.receive[static_cast<std::size_t>((rank_ + size_ - 1) % size_)] = in.shape()[0];
  return do_start_all_to_all(in, out, rows);
}

void Group::broadcast(const Tensor& x, int root) {
  if (size_ == 1) return;
  collective("broadcast", x.bytes(), [this, x, root] { do_broadcast(x, root); });
}

std::unique_ptr<Pending> Group::start_broadcast(const Tensor& x, int root) {
  if (size_ == 1) return std::make_unique<NothingPending>();
  return started("start broadcast", "wait broadcast", x.bytes(),
                 [this, x, root] { return do_start_broadcast(x, root); });
}

void Group::reduce(const Tensor& x, int root) {
  if (size_ == 1) return;
  collective("reduce", x.bytes(), [this, x, root] { do_reduce(x, root); });
}

std::unique_ptr<Pending> Group::start_reduce(const Tensor& x, int root) {
  if (size_ == 1) return std::make_unique<NothingPending>();
  return started("start reduce", "wait reduce", x.bytes(), [this, x, root] { return do_start_reduce(x, root); });
}

void Group::check_peer(std::string_view what, int peer) const {
  if (peer < 0 || peer >= size_ || peer == rank_)
    fail(ErrorKind::internal, fmt::format("{} {}", name_.text, what), "rank, got {}, need another of {} than {}", peer,
         size_, rank_);
}

std::unique_ptr<Pending> Group::start_send(const Tensor& x, int to, int tag) {
  check_peer("send", to);
  return begin(device_, [this, x, to, tag]() -> std::unique_ptr<Pending> {
    Meter& meter = device_.meter();
    at(meter.communication_bytes, part_) += static_cast<double>(x.bytes());
    Stopwatch watch(device_, meter.communication_seconds, exposed(part_), name_.text, "start send");
    return std::make_unique<TimedPending>(do_start_send(x, to, tag), device_, meter.bubble_seconds,
                                          exposed(TimePart::bubble), name_.text, "wait send");
  });
}

std::unique_ptr<Pending> Group::start_receive(const Tensor& x, int from, int tag) {
  check_peer("receive", from);
  return begin(device_, [this, x, from, tag]() -> std::unique_ptr<Pending> {
    double& seconds = device_.meter().bubble_seconds;
    Stopwatch watch(device_, seconds, exposed(TimePart::bubble), name_.text, "start receive");
    return std::make_unique<TimedPending>(do_start_receive(x, from, tag), device_, seconds, TimePart::bubble,
                                          name_.text, "wait receive");
  });
}

void Group::receive(const Tensor& x, int from, int tag) {
  check_peer("receive", from);
  enqueue(device_, [this, x, from, tag] {
    Stopwatch watch(device_, device_.meter().bubble_seconds, exposed(TimePart::bubble), name_.text, "receive");
    do_start_receive(x, from, tag)->wait();
  });
}

void Group::barrier() {
  check(!device_.recording(), name_.text, "a barrier of hosts within a step that is recorded");
  if (size_ > 1) do_barrier();
}

double Group::host_max(double value) {
  return size_ == 1 ? value : do_host_max(value);
}

std::vector<Group::Bytes> Group::host_gather(std::span<const std::byte> mine, int to) {
  if (size_ == 1) return {Bytes(mine.begin(), mine.end())};
  std::vector<Bytes> all = do_host_gather(mine, to);
  if (to != kEveryRank && to != rank_) all.clear();
  return all;
}

}  // namespace mbench
