#include "engine/comm/nccl/channel.h"

#include <fmt/format.h>

#include <exception>

namespace mbench::comm {
namespace {

// Blocks of a kernel of a line: it is one of many, and each has buffers for every block.
constexpr int kLineBlocks = 4;

ncclConfig_t config_of(bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  return config;
}

// Null where this rank is in no part. The child's address is filled in when the parent has settled: whether the making blocks is the
// parent's, and the child's is whether its operations do (ncclCommSplit launches the work for the parent).
ncclComm_t split(Watch& watch, ncclComm_t parent, const std::string& name, int color, int key) {
  ncclConfig_t config = config_of(true);
  ncclComm_t child = nullptr;
  const std::string what = fmt::format("making group {}", name);
  watch.settle(parent, ncclCommSplit(parent, color, key, &child, &config), what);
  if (!child) return nullptr;
  watch.add(child, name);
  watch.settle(child, ncclInProgress, what);
  return child;
}

}  // namespace

Channel::Channel(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id, int rank, int size)
    : watch_(std::move(watch)) {
  uncounted_ = watch_->uncounted();
  const ncclResult_t code = join(name, id, rank, size);  // first: it sets comm_
  watch_->settle(comm_, code, fmt::format("making group {}", name));
  open_stream(name);
  charge();
}

std::unique_ptr<Channel> Channel::begin(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id,
                                        int rank, int size) {
  std::unique_ptr<Channel> channel(new Channel(std::move(watch)));
  channel->uncounted_ = channel->watch_->uncounted();
  const ncclResult_t code = channel->join(name, id, rank, size, kLineBlocks);
  channel->watch_->done(channel->comm_, code, fmt::format("making group {}", name));
  channel->open_stream(name);
  return channel;
}

ncclResult_t Channel::join(const std::string& name, const ncclUniqueId& id, int rank, int size, int blocks) {
  ncclConfig_t config = config_of(false);
  if (blocks > 0) config.maxCTAs = blocks;
  const ncclResult_t code = ncclCommInitRankConfig(&comm_, size, id, rank, &config);
  if (comm_) watch_->add(comm_, name);
  return code;
}

Channel::Channel(Channel& parent, const std::string& name, int color, int key) : watch_(parent.watch_) {
  uncounted_ = watch_->uncounted();
  comm_ = split(*watch_, parent.comm_, name, color, key);
  open_stream(name);
  charge();
}

bool Channel::made() {
  if (!watch_->done(comm_, ncclInProgress, "making a channel")) return false;
  charge();
  return true;
}

void Channel::charge() {
  watch_->charge(uncounted_, "buffers of NCCL");
}

void Channel::stay_out_of_split(Channel& parent, const std::string& name) {
  split(*parent.watch_, parent.comm_, name, NCCL_SPLIT_NOCOLOR, 0);
}

void Channel::open_stream(const std::string& name) {
  int least = 0, greatest = 0;
  need_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), name);
  need_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), name);
  need_cuda(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), name);
}

Channel::~Channel() {
  // After an error the peers may be gone: an orderly end would wait for them.
  watch_->end(comm_, std::uncaught_exceptions() == 0);
  if (ready_) cudaEventDestroy(ready_);
  if (stream_) cudaStreamDestroy(stream_);
}

}  // namespace mbench::comm
