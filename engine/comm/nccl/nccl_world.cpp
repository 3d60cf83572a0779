#include "engine/comm/nccl/nccl_world.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>

#include "engine/base/text.h"
#include "engine/comm/gather.h"
#include "engine/comm/nccl/line.h"

namespace mbench::comm {
namespace {

ncclDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return ncclUint8;
    case DType::i64:
      return ncclInt64;
  }
  return ncclUint8;
}

class NcclPending final : public Pending {
 public:
  // What the compute stream waits for it is that part of a step, and added to `seconds`.
  NcclPending(StreamDevice& device, SharedEvent end, std::string what, TimePart part, double& seconds)
      : device_(device), end_(std::move(end)), what_(std::move(what)), part_(part), seconds_(seconds) {}
  void wait() override {
    if (!end_) return;
    const int interval = device_.begin_interval();
    need_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(device_.stream()), end_.get(), 0), what_);
    device_.end_interval(interval, Track::communication, what_, part_, &seconds_);
    end_.reset();
  }
  const SharedEvent& end() const { return end_; }

 private:
  StreamDevice& device_;
  SharedEvent end_;
  std::string what_;
  TimePart part_;
  double& seconds_;
};

class MessagePending final : public Pending {
 public:
  MessagePending(StreamDevice& device, Lines& lines, std::shared_ptr<Message> message, Tensor x)
      : device_(device), lines_(lines), message_(std::move(message)), x_(std::move(x)) {}
  void wait() override {
    lines_.hand_over(*message_);
    NcclPending(device_, message_->end, message_->what, TimePart::bubble, device_.meter().bubble_seconds).wait();
    x_.reset();
  }

 private:
  StreamDevice& device_;
  Lines& lines_;
  std::shared_ptr<Message> message_;
  Tensor x_;
};

class NcclGroup final : public Group {
 public:
  // `serial` is another for every group of the world, and the same on all ranks.
  NcclGroup(StreamDevice& device, Mail& mail, Lines& lines, std::unique_ptr<Group> host, std::shared_ptr<Channel> all,
            std::vector<int> members, int serial)
      : Group(device, host->named(), host->rank(), host->size()),
        device_(device),
        mail_(mail),
        lines_(lines),
        host_(std::move(host)),
        all_(std::move(all)),
        members_(std::move(members)),
        serial_(serial) {}
  // The end of a communicator waits for its other ranks: all end theirs in one order.
  ~NcclGroup() override {
    while (!messages_.empty()) messages_.erase(messages_.begin());
  }

 protected:
  void do_run(const Collective& c) override { do_start(c)->wait(); }
  std::unique_ptr<Pending> do_start(const Collective& c) override {
    return std::visit([this](const auto& each) { return started(each); }, c);
  }
  // The group's stream waits for the other's operation, and the compute stream for neither.
  std::unique_ptr<Pending> do_start_after(Pending& before, const Collective& c) override {
    const auto* first = dynamic_cast<const NcclPending*>(&before.made());
    const auto* reduction = std::get_if<AllReduce>(&c);
    if (!first || !first->end() || !reduction) return Group::do_start_after(before, c);
    return started(*reduction, first->end());
  }
  void do_barrier() override {
    device_.synchronize();
    host_->barrier();
  }
  double do_host_max(double value) override { return host_->host_max(value); }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int to) override {
    return host_->host_gather(mine, to);
  }

 private:
  static std::size_t count(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }
  cudaStream_t compute() const { return static_cast<cudaStream_t>(device_.stream()); }
  std::string describe(std::string_view call, const Tensor& x) const {
    return fmt::format("{} of {} in group {} (rank {} of {})", call, format_bytes(x.bytes()), name(), rank(), size());
  }

  std::unique_ptr<Pending> started(const AllReduce& c, const SharedEvent& after = {}) {
    const bool max = c.op == ReduceOp::max;
    return collective(max ? "max all_reduce" : "all_reduce", c.x, [&](ncclComm_t comm, cudaStream_t stream) {
      if (after) need_cuda(cudaStreamWaitEvent(stream, after.get(), 0), name());
      return ncclAllReduce(c.x.data(), c.x.data(), count(c.x), type_of(c.x.dtype()), max ? ncclMax : ncclSum, comm,
                           stream);
    });
  }
  std::unique_ptr<Pending> started(const AllGather& c) {
    return collective(c.name, c.out, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(c.in.data(), c.out.data(), count(c.in), type_of(c.in.dtype()), comm, stream);
    });
  }
  std::unique_ptr<Pending> started(const ReduceScatter& c) {
    return collective(c.name, c.in, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(c.in.data(), c.out.data(), count(c.out), type_of(c.in.dtype()), ncclSum, comm, stream);
    });
  }
  std::unique_ptr<Pending> started(const AllToAll& c) {
    return collective(c.name, c.in, [&](ncclComm_t comm, cudaStream_t stream) {
      return exchange(c.in, c.out, c.rows(size()), comm, stream);
    });
  }
  std::unique_ptr<Pending> started(const ForwardedAllToAll& c) {
    std::vector<std::unique_ptr<Pending>> all;
    for (const AllToAll& each : c.each()) all.push_back(started(each));
    return all_of(std::move(all));
  }
  std::unique_ptr<Pending> started(const Shift& c) { return started(c.exchange(member())); }
  std::unique_ptr<Pending> started(const Broadcast& c) {
    return collective(c.name, c.x, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(c.x.data(), c.x.data(), count(c.x), type_of(c.x.dtype()), c.root, comm, stream);
    });
  }
  std::unique_ptr<Pending> started(const Reduce& c) {
    return collective(c.name, c.x, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduce(c.x.data(), c.x.data(), count(c.x), type_of(c.x.dtype()), ncclSum, c.root, comm, stream);
    });
  }
  std::unique_ptr<Pending> started(const Send& c) {
    return message(line(c.to, Line::End::sender, c.tag), fmt::format("send to rank {}", c.to), c.x,
                   [x = c.x](ncclComm_t comm, cudaStream_t stream) {
                     return ncclSend(x.data(), count(x), type_of(x.dtype()), 1, comm, stream);
                   });
  }
  std::unique_ptr<Pending> started(const Receive& c) {
    return message(line(c.from, Line::End::receiver, c.tag), fmt::format("receive from rank {}", c.from), c.x,
                   [x = c.x](ncclComm_t comm, cudaStream_t stream) {
                     return ncclRecv(x.data(), count(x), type_of(x.dtype()), 0, comm, stream);
                   });
  }

  // The parts to and from all others as one operation; this rank's own is copied before it.
  ncclResult_t exchange(const Tensor& in, const Tensor& out, const Rows& rows, ncclComm_t comm, cudaStream_t stream) {
    struct Part {
      Tensor to, from;
    };
    std::vector<Part> parts;
    std::int64_t sent = 0, received = 0;
    for (std::size_t r = 0; r < rows.send.size(); ++r) {
      parts.push_back({in.slice(sent, rows.send[r]), out.slice(received, rows.receive[r])});
      sent += rows.send[r], received += rows.receive[r];
    }
    const Part& own = parts[static_cast<std::size_t>(rank())];
    if (own.to.bytes() > 0)
      need_cuda(cudaMemcpyAsync(own.from.data(), own.to.data(), own.to.bytes(), cudaMemcpyDeviceToDevice, stream),
                name());
    ncclResult_t worst = ncclGroupStart();
    const auto note = [&](ncclResult_t code) {
      if (code != ncclSuccess && code != ncclInProgress && worst == ncclSuccess) worst = code;
    };
    for (int r = 0; r < size(); ++r) {
      const auto& [to, from] = parts[static_cast<std::size_t>(r)];
      if (r == rank()) continue;
      if (to.bytes() > 0) note(ncclSend(to.data(), count(to), type_of(to.dtype()), r, comm, stream));
      if (from.bytes() > 0) note(ncclRecv(from.data(), count(from), type_of(from.dtype()), r, comm, stream));
    }
    const ncclResult_t code = ncclGroupEnd();
    return worst == ncclSuccess ? code : worst;
  }

  template <class Call>
  std::unique_ptr<Pending> collective(std::string_view call_name, const Tensor& x, const Call& call) {
    const std::string what = describe(call_name, x);
    SharedEvent end = all_->start(compute(), what, call);
    return std::make_unique<NcclPending>(device_, std::move(end), what, part(), device_.meter().communication_seconds);
  }

  template <class Call>
  std::unique_ptr<Pending> message(Line& line, std::string_view call_name, const Tensor& x, const Call& call) {
    return std::make_unique<MessagePending>(device_, lines_, line.start(compute(), describe(call_name, x), call), x);
  }

  // Between this rank and a peer, one way: made when first used, by both, the sender as its rank 0.
  Line& line(int peer, Line::End end, int tag) {
    const bool sending = end == Line::End::sender;
    const int low = std::min(rank(), peer), high = std::max(rank(), peer);
    std::unique_ptr<Line>& line = messages_[{low, high, sending == (rank() == low), tag % 2}];
    if (!line)
      line = std::make_unique<Line>(lines_, mail_,
                                    fmt::format("{}, messages {} rank {}", name(), sending ? "to" : "from", peer), end,
                                    members_[static_cast<std::size_t>(peer)], 2 * serial_ + tag % 2);
    return *line;
  }

  StreamDevice& device_;
  Mail& mail_;
  Lines& lines_;
  std::unique_ptr<Group> host_;
  std::shared_ptr<Channel> all_;  // null in a group of one, which has nobody to talk to
  std::vector<int> members_;
  int serial_;
  // By lower rank, higher rank, whether messages go from the lower to the higher, and tag: one order on all
  // ranks.
  std::map<std::tuple<int, int, bool, int>, std::unique_ptr<Line>> messages_;
};

class NcclWorld final : public World {
 public:
  NcclWorld(World& host, Mail& mail, Device& host_device, StreamDevice& device, double deadline)
      : host_(host),
        mail_(mail),
        host_device_(host_device),
        device_(device),
        watch_(std::make_shared<Watch>(deadline, device.memory())),
        lines_(watch_) {
    device.while_waiting([watch = watch_](double waited) { watch->check(waited); });
    device.after_replay([watch = watch_, &device] {
      watch->ends(static_cast<cudaStream_t>(device.stream()), "a replayed step with all its collectives");
    });
  }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) override {
    check(&device == &device_, "nccl", "group {} is of another device than its world", name.text);
    auto host = host_.group(host_device_, name, members);
    std::shared_ptr<Channel> channel;
    if (static_cast<int>(members.size()) == size()) {
      channel = everyone(*host);
    } else if (!parent_) {
      fail(ErrorKind::internal, "nccl", "group {} is made before one of all ranks", name.text);
    } else if (members.size() > 1) {
      channel = std::make_shared<Channel>(*parent_, name.text, members.front(), host->rank());
    } else {
      Channel::stay_out_of_split(*parent_, name.text);
    }
    const int serial = groups_++;
    if (!host) return nullptr;
    return std::make_unique<NcclGroup>(device_, mail_, lines_, std::move(host), std::move(channel), members, serial);
  }

 private:
  // All ranks' groups have one communicator, split as the others are from one that is for nothing else.
  std::shared_ptr<Channel> everyone(Group& host) {
    if (everyone_ || size() == 1) return everyone_;
    ncclUniqueId id{};
    if (rank() == 0) need_nccl(ncclGetUniqueId(&id), "nccl", "ncclGetUniqueId");
    id = gather_all(host, id).front();
    parent_ = std::make_unique<Channel>(watch_, host.name(), id, rank(), size());
    everyone_ = std::make_shared<Channel>(*parent_, host.name(), 0, rank());
    return everyone_;
  }

  World& host_;
  Mail& mail_;
  Device& host_device_;
  StreamDevice& device_;
  std::shared_ptr<Watch> watch_;
  Lines lines_;
  int groups_ = 0;
  std::unique_ptr<Channel> parent_;
  std::shared_ptr<Channel> everyone_;
};

}  // namespace

std::string nccl_library() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "NCCL, of unknown version";
  return fmt::format("NCCL {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::unique_ptr<World> open_nccl_world(World& host, Mail& mail, Device& host_device, StreamDevice& device,
                                       double deadline) {
  return std::make_unique<NcclWorld>(host, mail, host_device, device, deadline);
}

}  // namespace mbench::comm
