#include "engine/comm/group.h"

#include <fmt/format.h>

#include <optional>

namespace mbench::comm {
namespace {

// What a call's time is added to: one of the meter's, and a part of the step where the device has nothing to do meanwhile
// (Group::device_waits).
struct Charged {
  double Meter::*seconds;
  std::optional<TimePart> part;
};

// Adds the time between construction and destruction, on the device's clock, to what is charged, and to the trace if an op has
// ended when its call returns.
class Stopwatch {
 public:
  Stopwatch(Device& device, const Charged& charged, const std::string& group, const char* doing, const char* what)
      : device_(device), charged_(charged), group_(group), doing_(doing), what_(what), start_(device.now()) {}
  ~Stopwatch() {
    const double end = device_.now();
    device_.meter().*charged_.seconds += end - start_;
    if (charged_.part) at(device_.meter().seconds, *charged_.part) += end - start_;
    if (!device_.immediate()) return;
    if (Timeline* t = device_.timeline())
      t->add({Track::communication, group_}, fmt::format("{}{} {}", doing_, what_, group_), start_, end);
  }

 private:
  Device& device_;
  Charged charged_;
  const std::string& group_;
  const char *doing_, *what_;
  double start_;
};

class TimedPending final : public Pending {
 public:
  TimedPending(std::unique_ptr<Pending> inner, Device& device, const Charged& charged, const std::string& group,
               const char* what)
      : inner_(std::move(inner)), device_(device), charged_(charged), group_(group), what_(what) {}
  void wait() override {
    Stopwatch watch(device_, charged_, group_, "wait ", what_);
    inner_->wait();
  }
  Pending& made() override { return inner_->made(); }

 private:
  std::unique_ptr<Pending> inner_;
  Device& device_;
  Charged charged_;
  const std::string& group_;
  const char* what_;
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

// In a group of one: what it brings is copied.
void run_alone(Device& device, const Collective& c) {
  const auto copy = [&](const auto& each) {
    if constexpr (requires { each.parcels; })
      for (const Parcel& p : each.parcels) device.copy(p.in, p.out);
    else if constexpr (requires { each.in; })
      device.copy(each.in, each.out);
  };
  std::visit(copy, c);
}

std::unique_ptr<Pending> start_alone(Device& device, const Collective& c, std::unique_ptr<Pending> after) {
  const bool copies = std::visit(
      [](const auto& e) {
        return requires {
          e.parcels;
        }
        || requires {
          e.in;
        };
      },
      c);
  if (after && !copies) return after;
  if (after) after->wait();
  run_alone(device, c);
  return std::make_unique<NothingPending>();
}

void check_fits(const Collective& c, const Member& me) {
  std::visit([&](const auto& each) { each.check(me); }, c);
}

void charge_bytes(Meter& meter, TimePart part, const Collective& c) {
  const std::size_t bytes = std::visit([](const auto& each) { return each.bytes(); }, c);
  at(meter.communication_bytes, part) += static_cast<double>(bytes);
}

// A call is communication, and counts for `part`. A wait for a message is a bubble. `exposed`: the device has nothing to do
// meanwhile.
Charged charged_for_call(const Collective& c, TimePart part, bool exposed) {
  const bool receives = std::holds_alternative<Receive>(c);
  return {receives ? &Meter::bubble_seconds : &Meter::communication_seconds,
          exposed ? std::optional(receives ? TimePart::bubble : part) : std::nullopt};
}

Charged charged_for_wait(const Collective& c, TimePart part, bool exposed) {
  if (std::holds_alternative<Receive>(c)) return {&Meter::bubble_seconds, TimePart::bubble};
  if (std::holds_alternative<Send>(c))
    return {&Meter::bubble_seconds, exposed ? std::optional(TimePart::bubble) : std::nullopt};
  return charged_for_call(c, part, exposed);
}

}  // namespace

std::unique_ptr<Pending> all_of(std::vector<std::unique_ptr<Pending>> each) {
  return std::make_unique<AllPending>(std::move(each));
}

// What is enqueued holds the collective: a step that is recorded does it again.
void Group::run(const Collective& c) {
  check_fits(c, member());
  if (size_ == 1) return run_alone(device_, c);
  enqueue(device_, [this, c] {
    charge_bytes(device_.meter(), part_, c);
    Stopwatch watch(device_, charged_for_call(c, part_, device_waits()), name_.text, "", name_of(c));
    do_run(c);
  });
}

std::unique_ptr<Pending> Group::start(const Collective& c, std::unique_ptr<Pending> after) {
  check_fits(c, member());
  if (size_ == 1) return start_alone(device_, c, std::move(after));
  const Cell cell = after ? cell_of(std::move(after)) : nullptr;
  return begin(device_, [this, c, cell]() -> std::unique_ptr<Pending> {
    charge_bytes(device_.meter(), part_, c);
    Stopwatch watch(device_, charged_for_call(c, part_, device_waits()), name_.text, "start ", name_of(c));
    // What was no communication is nothing to wait for in a replay either.
    const auto before = cell ? std::exchange(*cell, nullptr) : nullptr;
    auto pending = before ? do_start_after(*before, c) : do_start(c);
    return std::make_unique<TimedPending>(std::move(pending), device_, charged_for_wait(c, part_, device_waits()),
                                          name_.text, name_of(c));
  });
}

std::unique_ptr<Pending> Group::do_start(const Collective& c) {
  do_run(c);
  return std::make_unique<NothingPending>();
}

std::unique_ptr<Pending> Group::do_start_after(Pending& before, const Collective& c) {
  before.made().wait();  // as a part of this call, which is timed
  return do_start(c);
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

}  // namespace mbench::comm
