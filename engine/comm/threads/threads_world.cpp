#include "engine/comm/threads/threads_world.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>

#include "engine/base/half.h"

namespace mbench::comm {
namespace {

// Thrown where another rank has failed.
struct Stopped {};

// What one rank shows the others in a meeting.
struct Shown {
  std::byte* data = nullptr;
  const Group::Bytes* bytes = nullptr;
  const std::vector<std::int64_t>* rows = nullptr;
};

// The ranks of a process, or of a group of them.
struct MeetingPoint {
  std::vector<Shown> shown;
  int came = 0;
  std::uint64_t round = 0;
};

class Room {
 public:
  explicit Room(int size) : size_(size) {}
  int size() const { return size_; }

  // Waits until all of a group have come so far.
  void meet(MeetingPoint& place) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = place.round;
    if (++place.came == static_cast<int>(place.shown.size())) {
      place.came = 0;
      ++place.round;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return stopped_ || place.round != round; });
    if (stopped_) throw Stopped();
  }
  // The place of a group, made by whoever comes first. `number`: among those that every rank makes.
  std::shared_ptr<MeetingPoint> place(int number, const std::vector<int>& members) {
    const std::lock_guard lock(mutex_);
    auto& place = places_[{number, members}];
    if (!place) {
      place = std::make_shared<MeetingPoint>();
      place->shown.resize(members.size());
    }
    return place;
  }
  using Way = std::tuple<const MeetingPoint*, int, int, int>;  // from, to, tag
  void send(const Way& way, Group::Bytes message) {
    const std::lock_guard lock(mutex_);
    messages_[way].push_back(std::move(message));
    changed_.notify_all();
  }
  Group::Bytes receive(const Way& way) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[way];
    changed_.wait(lock, [&] { return stopped_ || !waiting.empty(); });
    if (stopped_) throw Stopped();
    Group::Bytes message = std::move(waiting.front());
    waiting.pop_front();
    return message;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::map<std::pair<int, std::vector<int>>, std::shared_ptr<MeetingPoint>> places_;
  std::map<Way, std::deque<Group::Bytes>> messages_;
};

// Of elements [begin, end) of all ranks' tensors, to each of `targets`.
template <class T>
void reduce_part(const std::vector<Shown>& ranks, std::int64_t begin, std::int64_t end, ReduceOp op,
                 const std::vector<std::byte*>& targets) {
  for (std::int64_t i = begin; i < end; ++i) {
    float result = to_float(reinterpret_cast<const T*>(ranks[0].data)[i]);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const float next = to_float(reinterpret_cast<const T*>(ranks[r].data)[i]);
      result = op == ReduceOp::sum ? result + next : std::max(result, next);
    }
    for (std::byte* to : targets) reinterpret_cast<T*>(to)[i] = from_float<T>(result);
  }
}

void reduce_part(DType type, const std::vector<Shown>& ranks, std::int64_t begin, std::int64_t end, ReduceOp op,
                 const std::vector<std::byte*>& targets) {
  switch (type) {
    case DType::f32:
      return reduce_part<float>(ranks, begin, end, op, targets);
    case DType::bf16:
      return reduce_part<bf16>(ranks, begin, end, op, targets);
    case DType::f16:
      return reduce_part<f16>(ranks, begin, end, op, targets);
    default:
      fail(ErrorKind::internal, "threads", "a reduction of {}, need a floating-point type", name_of(type));
  }
}

class ThreadGroup final : public Group {
 public:
  ThreadGroup(Device& device, const GroupName& name, int rank, int size, Room& room,
              std::shared_ptr<MeetingPoint> place)
      : Group(device, name, rank, size), room_(room), place_(std::move(place)) {}

 protected:
  void do_run(const Collective& c) override {
    std::visit([this](const auto& each) { perform(each); }, c);
  }
  // All but a receive have ended with their call.
  std::unique_ptr<Pending> do_start(const Collective& c) override {
    if (const auto* receive = std::get_if<Receive>(&c)) return started(*receive);
    return Group::do_start(c);
  }
  void do_barrier() override { room_.meet(*place_); }
  double do_host_max(double value) override {
    double largest = value;
    const auto* mine = reinterpret_cast<const std::byte*>(&value);
    for (const Bytes& bytes : do_host_gather({mine, sizeof value}, kEveryRank)) {
      double theirs = 0;
      std::memcpy(&theirs, bytes.data(), sizeof theirs);
      largest = std::max(largest, theirs);
    }
    return largest;
  }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int) override {
    const Bytes own(mine.begin(), mine.end());
    std::vector<Bytes> all;
    meeting({nullptr, &own, nullptr}, [&](const std::vector<Shown>& shown) {
      for (const Shown& s : shown) all.push_back(*s.bytes);
    });
    return all;
  }

 private:
  void perform(const AllReduce& c) {
    meeting({c.x.data(), nullptr, nullptr}, [&](const std::vector<Shown>& all) {
      std::vector<std::byte*> everybody;
      for (const Shown& s : all) everybody.push_back(s.data);
      const auto [begin, end] = share(c.x.numel());
      reduce_part(c.x.dtype(), all, begin, end, c.op, everybody);
    });
  }
  void perform(const AllGather& c) {
    meeting({c.in.data(), nullptr, nullptr}, [&](const std::vector<Shown>& all) {
      for (std::size_t r = 0; r < all.size(); ++r) copy(all[r].data, c.out.data() + r * c.in.bytes(), c.in.bytes());
    });
  }
  void perform(const ReduceScatter& c) {
    // What is written may lie in what others read.
    Bytes sum(c.out.bytes());
    meeting({c.in.data(), nullptr, nullptr}, [&](const std::vector<Shown>& all) {
      std::vector<Shown> parts = all;
      for (Shown& s : parts) s.data += static_cast<std::size_t>(rank()) * c.out.bytes();
      reduce_part(c.in.dtype(), parts, 0, c.out.numel(), ReduceOp::sum, {sum.data()});
    });
    copy(sum.data(), c.out.data(), sum.size());
  }
  void perform(const AllToAll& c) {
    const Rows rows = c.rows(size());
    meeting({c.in.data(), nullptr, &rows.send}, [&](const std::vector<Shown>& all) {
      const std::int64_t n = c.out.shape().rank() == 0 ? 1 : c.out.shape()[0];
      const std::size_t row = n == 0 ? 0 : c.out.bytes() / static_cast<std::size_t>(n);
      std::byte* to = c.out.data();
      for (std::size_t r = 0; r < all.size(); ++r) {
        std::size_t before = 0;
        for (int i = 0; i < rank(); ++i)
          before += static_cast<std::size_t>((*all[r].rows)[static_cast<std::size_t>(i)]);
        const std::size_t bytes = static_cast<std::size_t>(rows.receive[r]) * row;
        if (bytes > 0) copy(all[r].data + before * row, to, bytes);
        to += bytes;
      }
    });
  }
  void perform(const Broadcast& c) {
    meeting({c.x.data(), nullptr, nullptr}, [&](const std::vector<Shown>& all) {
      copy(all[static_cast<std::size_t>(c.root)].data, c.x.data(), c.x.bytes());
    });
  }
  void perform(const Reduce& c) {
    meeting({c.x.data(), nullptr, nullptr}, [&](const std::vector<Shown>& all) {
      const auto [begin, end] = share(c.x.numel());
      reduce_part(c.x.dtype(), all, begin, end, ReduceOp::sum, {all[static_cast<std::size_t>(c.root)].data});
    });
  }
  void perform(const ForwardedAllToAll& c) {
    for (const AllToAll& each : c.each()) perform(each);
  }
  void perform(const Shift& c) { perform(c.exchange(member())); }
  void perform(const Send& c) {
    room_.send({place_.get(), rank(), c.to, c.tag}, Bytes(c.x.data(), c.x.data() + c.x.bytes()));
  }
  void perform(const Receive& c) { started(c)->wait(); }
  std::unique_ptr<Pending> started(const Receive& c) {
    // Received when it is waited for; those of one tag are waited for in the order in which they were started.
    class Receive final : public Pending {
     public:
      Receive(Room& room, Room::Way way, Tensor to) : room_(room), way_(std::move(way)), to_(std::move(to)) {}
      void wait() override {
        const Bytes message = room_.receive(way_);
        check(message.size() == to_.bytes(), "threads", "a message of {} bytes, need {}", message.size(), to_.bytes());
        copy(message.data(), to_.data(), message.size());
      }

     private:
      Room& room_;
      Room::Way way_;
      Tensor to_;
    };
    return std::make_unique<Receive>(room_, Room::Way{place_.get(), c.from, rank(), c.tag}, c.x);
  }

  static void copy(const std::byte* from, std::byte* to, std::size_t bytes) {
    if (from != to && bytes > 0) std::memmove(to, from, bytes);
  }
  // This rank's elements of n, for work that all share.
  std::pair<std::int64_t, std::int64_t> share(std::int64_t n) const {
    return {n * rank() / size(), n * (rank() + 1) / size()};
  }
  template <class Work>
  void meeting(const Shown& mine, const Work& work) {
    place_->shown[static_cast<std::size_t>(rank())] = mine;
    room_.meet(*place_);
    work(place_->shown);
    room_.meet(*place_);
  }

  Room& room_;
  std::shared_ptr<MeetingPoint> place_;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Room& room, int rank) : room_(room), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return room_.size(); }
  std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) override {
    const int number = made_++;
    if (members.empty()) return nullptr;
    const auto me = std::find(members.begin(), members.end(), rank_);
    check(me != members.end(), "threads", "rank {} is not a member of group {}", rank_, name.text);
    return std::make_unique<ThreadGroup>(device, name, static_cast<int>(me - members.begin()),
                                         static_cast<int>(members.size()), room_, room_.place(number, members));
  }

 private:
  Room& room_;
  int rank_;
  int made_ = 0;  // groups, those of other ranks too
};

}  // namespace

void run_on_threads(int ranks, const std::function<void(World&)>& rank) {
  Room room(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto run = [&](int r) {
    ThreadWorld world(room, r);
    try {
      rank(world);
    } catch (const Stopped&) {
    } catch (...) {
      errors[static_cast<std::size_t>(r)] = std::current_exception();
      room.stop();
    }
  };
  std::vector<std::thread> threads;
  std::string no_thread;
  for (int r = 1; r < ranks && no_thread.empty(); ++r) {
    try {
      threads.emplace_back(run, r);
    } catch (const std::system_error& e) {
      no_thread = e.what();
      room.stop();
    }
  }
  if (no_thread.empty()) run(0);
  for (std::thread& t : threads) t.join();
  if (!no_thread.empty())
    fail(ErrorKind::launch_failed, "threads", "no thread for rank {} of {}: {}, need fewer or a higher limit",
         threads.size() + 1, ranks, no_thread);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace mbench::comm
