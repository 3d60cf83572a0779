#include "engine/comm/nccl/nccl_world.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>

#include "engine/base/text.h"
#include "engine/comm/nccl/channel.h"

namespace mbench {
namespace {

constexpr int kAgreeTag = 0;  // of messages between hosts, which agree on communicators and on nothing else

ncclDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::u8:
      return ncclUint8;
    case DType::i64:
      return ncclInt64;
  }
  return ncclUint8;
}

class NcclPending final : public Pending {
 public:
  NcclPending(StreamDevice& device, SharedEvent end, std::string what, double& seconds)
      : device_(device), end_(std::move(end)), what_(std::move(what)), seconds_(seconds) {}
  void wait() override {
    if (!end_) return;
    const int interval = device_.begin_interval();
    need_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(device_.stream()), end_.get(), 0), what_);
    device_.end_interval(interval, Track::communication, what_, seconds_);
    end_.reset();
  }

 private:
  StreamDevice& device_;
  SharedEvent end_;
  std::string what_;
  double& seconds_;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(StreamDevice& device, Device& host_device, std::shared_ptr<Watch> watch,
            std::unique_ptr<Group> host, std::shared_ptr<Channel> all)
      : Group(device, host->name(), host->rank(), host->size()),
        device_(device),
        host_device_(host_device),
        watch_(std::move(watch)),
        host_(std::move(host)),
        all_(std::move(all)) {}
  // The end of a communicator waits for its other ranks: all end theirs in one order.
  ~NcclGroup() override {
    while (!channels_.empty()) channels_.erase(channels_.begin());
  }

  double host_max(double value) override { return host_->host_max(value); }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    return host_->host_gather(values);
  }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp op) override { reduce(x, op)->wait(); }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override { return reduce(x, ReduceOp::sum); }
  void do_all_gather(const Tensor& in, const Tensor& out) override { do_start_all_gather(in, out)->wait(); }
  void do_reduce_scatter(const Tensor& in, const Tensor& out) override {
    do_start_reduce_scatter(in, out)->wait();
  }
  std::unique_ptr<Pending> do_start_all_gather(const Tensor& in, const Tensor& out) override {
    return collective("all_gather", out, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(in.data(), out.data(), count(in), type_of(in.dtype()), comm, stream);
    });
  }
  std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor& out) override {
    return collective("reduce_scatter", in, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(in.data(), out.data(), count(out), type_of(in.dtype()), ncclSum, comm, stream);
    });
  }
  void do_broadcast(const Tensor& x, int root) override {
    collective("broadcast", x, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(x.data(), x.data(), count(x), type_of(x.dtype()), root, comm, stream);
    })->wait();
  }
  std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) override {
    const std::string what = describe(fmt::format("send to rank {}", to), x);
    SharedEvent end =
        channel(to, true, tag).start(compute(), what, [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclSend(x.data(), count(x), type_of(x.dtype()), 1, comm, stream);
        });
    return std::make_unique<NcclPending>(device_, std::move(end), what, device_.meter().bubble_seconds);
  }
  void do_receive(const Tensor& x, int from, int tag) override {
    const std::string what = describe(fmt::format("receive from rank {}", from), x);
    SharedEvent end =
        channel(from, false, tag).start(compute(), what, [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclRecv(x.data(), count(x), type_of(x.dtype()), 0, comm, stream);
        });
    NcclPending(device_, std::move(end), what, device_.meter().bubble_seconds).wait();
  }
  void do_barrier() override {
    device_.synchronize();
    host_->barrier();
  }

 private:
  static std::size_t count(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }
  cudaStream_t compute() const { return static_cast<cudaStream_t>(device_.stream()); }
  std::string describe(std::string_view call, const Tensor& x) const {
    return fmt::format("{} of {} in group {} (rank {} of {})", call, format_bytes(x.bytes()), name(), rank(),
                       size());
  }

  std::unique_ptr<Pending> reduce(const Tensor& x, ReduceOp op) {
    return collective(op == ReduceOp::max ? "max all_reduce" : "all_reduce", x,
                      [&](ncclComm_t comm, cudaStream_t stream) {
                        return ncclAllReduce(x.data(), x.data(), count(x), type_of(x.dtype()),
                                             op == ReduceOp::max ? ncclMax : ncclSum, comm, stream);
                      });
  }

  template <class Call>
  std::unique_ptr<Pending> collective(std::string_view call_name, const Tensor& x, const Call& call) {
    const std::string what = describe(call_name, x);
    SharedEvent end = all_->start(compute(), what, call);
    return std::make_unique<NcclPending>(device_, std::move(end), what,
                                         device_.meter().communication_seconds);
  }

  // Between this rank and a peer, one way: made when first used, by both, the sender as its rank 0.
  Channel& channel(int peer, bool sending, int tag) {
    const int low = std::min(rank(), peer), high = std::max(rank(), peer);
    std::unique_ptr<Channel>& made = channels_[{low, high, sending == (rank() == low), tag % 2}];
    if (!made) {
      ncclUniqueId id{};
      const Tensor message = host_device_.empty({static_cast<std::int64_t>(sizeof id)}, DType::u8,
                                                Category::other, "id of a communicator");
      if (sending) {
        need_nccl(ncclGetUniqueId(&id), name(), "ncclGetUniqueId");
        std::memcpy(message.data(), &id, sizeof id);
        host_->start_send(message, peer, kAgreeTag + tag % 2)->wait();
      } else {
        host_->receive(message, peer, kAgreeTag + tag % 2);
        std::memcpy(&id, message.data(), sizeof id);
      }
      const std::string label = fmt::format("{}, messages {} rank {}", name(), sending ? "to" : "from", peer);
      made = std::make_unique<Channel>(watch_, label, id, sending ? 0 : 1, 2);
    }
    return *made;
  }

  StreamDevice& device_;
  Device& host_device_;
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<Group> host_;
  std::shared_ptr<Channel> all_;  // null in a group of one, which has nobody to talk to
  // By lower rank, higher rank, whether messages go from the lower to the higher, and tag: one order on all
  // ranks.
  std::map<std::tuple<int, int, bool, int>, std::unique_ptr<Channel>> channels_;
};

class NcclWorld final : public World {
 public:
  NcclWorld(World& host, Device& host_device, StreamDevice& device, double deadline)
      : host_(host), host_device_(host_device), device_(device), watch_(std::make_shared<Watch>(deadline)) {
    device.while_waiting([watch = watch_](double waited) { watch->check(waited); });
  }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::unique_ptr<Group> group(Device& device, const std::string& name,
                               const std::vector<int>& members) override {
    check(&device == &device_, "nccl", "group {} is of another device than its world", name);
    auto host = host_.group(host_device_, name, members);
    std::shared_ptr<Channel> channel;
    if (static_cast<int>(members.size()) == size()) {
      channel = everyone(*host);
    } else if (!everyone_) {
      fail(ErrorKind::internal, "nccl", "group {} is made before one of all ranks", name);
    } else if (members.size() > 1) {
      channel = std::make_shared<Channel>(*everyone_, name, members.front(), host->rank());
    } else {
      Channel::stay_out_of_split(*everyone_, name);
    }
    if (!host) return nullptr;
    return std::make_unique<NcclGroup>(device_, host_device_, watch_, std::move(host), std::move(channel));
  }

 private:
  // The communicator of all ranks, from which the others are split.
  std::shared_ptr<Channel> everyone(Group& host) {
    if (everyone_ || size() == 1) return everyone_;
    // The id of rank 0, as the numbers that hosts exchange.
    ncclUniqueId id{};
    if (rank() == 0) need_nccl(ncclGetUniqueId(&id), "nccl", "ncclGetUniqueId");
    static_assert(sizeof id % sizeof(double) == 0);
    std::vector<double> words(sizeof id / sizeof(double));
    std::memcpy(words.data(), &id, sizeof id);
    const std::vector<double> all = host.host_gather(words);
    std::memcpy(&id, all.data(), sizeof id);
    everyone_ = std::make_shared<Channel>(watch_, host.name(), id, rank(), size());
    return everyone_;
  }

  World& host_;
  Device& host_device_;
  StreamDevice& device_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<Channel> everyone_;
};

}  // namespace

std::string nccl_library() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "NCCL, of unknown version";
  return fmt::format("NCCL {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::unique_ptr<World> open_nccl_world(World& host, Device& host_device, StreamDevice& device,
                                       double deadline) {
  return std::make_unique<NcclWorld>(host, host_device, device, deadline);
}

}  // namespace mbench
