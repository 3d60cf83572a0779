// A communicator of the fake GPUs' NCCL. Its operations run in the order of their calls, each when its stream comes to it. Sums are
// taken in the order of the ranks, in f32 for 16-bit types, and rounded once.
#pragma once
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "test/fake_cuda/engine.h"
#include "test/fake_cuda/meeting.h"

namespace fake_cuda {

enum class Call : int { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive };

// The arguments in which all ranks must agree.
struct Terms {
  Call call;
  int type = 0, op = 0, root = 0;
  std::uint64_t count = 0;
};

struct Operation {
  Terms terms;
  const void* send = nullptr;
  void* receive = nullptr;
  int peer = -1;
  bool left = false, done = false;  // its contribution
  std::uint64_t number = 0;         // among the collectives, or the messages between these two this way
};

std::size_t size_of(ncclDataType_t type);

class Communicator {
 public:
  Communicator(std::string name, int rank, int size, int device, bool blocking);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }
  const Meeting& meeting() const { return meeting_; }

  // One look at whether all ranks have come: success, in progress, or what is wrong.
  ncclResult_t meet();
  // One look at whether all ranks have come to the first collective.
  bool connect();
  // To be run on a stream, all of these as one operation.
  void give(const std::shared_ptr<Communicator>& self, const std::shared_ptr<Queue>& queue,
            std::vector<Operation> operations);
  // Calls of a nonblocking communicator progress when it is asked for errors, one after the other, until they report that they are
  // done.
  void defer(std::function<bool()> call) { deferred_.push_back(std::move(call)); }

  ncclResult_t state();
  void fail(ncclResult_t code) { failed_ = code; }
  void abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }
  // One look at whether everything is done and all ranks have come to their end.
  bool part();
  std::uint64_t next_split() { return splits_++; }

 private:
  Step look(std::uint64_t ticket, std::vector<Operation>& operations);
  void advance(Operation& o);
  void collect(Operation& o, const std::vector<Bytes>& all);
  bool same_terms(const Operation& o, const Bytes& other);
  std::string file(const Operation& o, int rank) const;

  std::string name_;
  int rank_, size_, device_;
  bool blocking_;
  Meeting meeting_;
  bool met_ = false, announced_ = false;
  bool connected_ = false, reached_ = false;
  std::size_t buffers_ = 0;  // bytes of the GPU
  std::atomic<bool> aborted_{false};
  std::atomic<ncclResult_t> failed_{ncclSuccess};
  std::atomic<std::uint64_t> given_{0}, ended_{0};
  std::uint64_t collectives_ = 0, splits_ = 0;
  std::vector<std::uint64_t> sent_, received_;  // messages to and from each rank
  std::deque<std::function<bool()>> deferred_;
  int parting_ = 0;  // how far it has come
};

}  // namespace fake_cuda
