#include "test/fake_cuda/communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/base/half.h"
#include "test/fake_cuda/capture.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

struct Arrival {
  int size, device;
};

template <class T>
Bytes bytes_of(const T& value, const void* more = nullptr, std::size_t count = 0) {
  Bytes all(sizeof value + count);
  std::memcpy(all.data(), &value, sizeof value);
  if (count > 0) std::memcpy(all.data() + sizeof value, more, count);
  return all;
}

template <class T, class Wide>
void reduce(const std::vector<const std::byte*>& from, void* to, std::size_t count, bool max) {
  using mbench::from_float;
  using mbench::to_float;
  for (std::size_t i = 0; i < count; ++i) {
    Wide result{};
    for (std::size_t r = 0; r < from.size(); ++r) {
      const T stored = reinterpret_cast<const T*>(from[r])[i];
      Wide x;
      if constexpr (std::is_arithmetic_v<T>)
        x = stored;
      else
        x = to_float(stored);
      result = r == 0 ? x : max ? std::max(result, x) : static_cast<Wide>(result + x);
    }
    if constexpr (std::is_arithmetic_v<T>)
      static_cast<T*>(to)[i] = static_cast<T>(result);
    else
      static_cast<T*>(to)[i] = from_float<T>(result);
  }
}

void reduce(ncclDataType_t type, const std::vector<const std::byte*>& from, void* to, std::size_t count, bool max) {
  switch (type) {
    case ncclFloat32:
      return reduce<float, float>(from, to, count, max);
    case ncclBfloat16:
      return reduce<mbench::bf16, float>(from, to, count, max);
    case ncclFloat16:
      return reduce<mbench::f16, float>(from, to, count, max);
    case ncclInt64:
      return reduce<std::int64_t, std::int64_t>(from, to, count, max);
    default:
      return reduce<std::uint8_t, std::uint8_t>(from, to, count, max);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return 4;
    case ncclBfloat16:
    case ncclFloat16:
      return 2;
    case ncclInt64:
      return 8;
    default:
      return 1;
  }
}

Communicator::Communicator(std::string name, int rank, int size, int device, bool blocking)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      device_(device),
      blocking_(blocking),
      meeting_(name_),
      sent_(static_cast<std::size_t>(size)),
      received_(static_cast<std::size_t>(size)) {}

Communicator::~Communicator() {
  Memory::get().give(buffers_);
}

ncclResult_t Communicator::meet() {
  if (met_) return ncclSuccess;
  if (settings().init_hangs && rank_ == 0 && size_ > 1) return ncclInProgress;
  if (!announced_) meeting_.leave("come." + std::to_string(rank_), bytes_of(Arrival{size_, device_}));
  announced_ = true;
  std::vector<int> devices;
  for (int r = 0; r < size_; ++r) {
    const auto other = meeting_.find("come." + std::to_string(r));
    if (!other) return ncclInProgress;
    Arrival theirs;
    std::memcpy(&theirs, other->data(), sizeof theirs);
    if (theirs.size != size_) {
      complain("ncclCommInitRank", "ranks disagree about how many they are");
      return ncclInvalidArgument;
    }
    if (std::count(devices.begin(), devices.end(), theirs.device) > 0) {
      complain("ncclCommInitRank", "two ranks are on one GPU");
      return ncclInvalidUsage;
    }
    devices.push_back(theirs.device);
  }
  if (size_ > 1) {
    if (!Memory::get().take(settings().communicator)) {
      complain("ncclCommInitRank", "the GPU has no room for its buffers");
      return ncclUnhandledCudaError;
    }
    buffers_ = settings().communicator;
  }
  met_ = true;
  return ncclSuccess;
}

bool Communicator::connect() {
  if (connected_) return true;
  if (settings().connect_hangs && rank_ == 0 && size_ > 1) return false;
  if (!reached_) meeting_.leave("connect." + std::to_string(rank_), {});
  reached_ = true;
  for (int r = 0; r < size_; ++r)
    if (!meeting_.has("connect." + std::to_string(r))) return false;
  return connected_ = true;
}

void Communicator::give(const std::shared_ptr<Communicator>& self, const std::shared_ptr<Queue>& queue,
                        std::vector<Operation> operations) {
  if (const auto capture = queue->capture)  // its place among the others is that of each launch
    return capture->add(queue, [self, operations = std::move(operations)](const std::shared_ptr<Queue>& lane) {
      self->give(self, lane, operations);
    });
  for (Operation& o : operations) {
    const auto peer = static_cast<std::size_t>(std::max(0, o.peer));
    o.number = o.terms.call == Call::send      ? sent_[peer]++
               : o.terms.call == Call::receive ? received_[peer]++
                                               : ++collectives_;
  }
  Engine::get().enqueue(queue, [self, ticket = given_++, operations = std::move(operations)]() mutable {
    return self->look(ticket, operations);
  });
}

Step Communicator::look(std::uint64_t ticket, std::vector<Operation>& operations) {
  if (aborted_) return Step::done;
  if (ended_ != ticket || failed_ != ncclSuccess) return Step::blocked;
  for (Operation& o : operations)
    if (!o.done && failed_ == ncclSuccess) advance(o);
  if (!std::all_of(operations.begin(), operations.end(), [](const Operation& o) { return o.done; }))
    return Step::blocked;
  ++ended_;
  return Step::done;
}

std::string Communicator::file(const Operation& o, int rank) const {
  if (o.terms.call == Call::send) return fmt::format("message.{}.{}.{}", rank_, o.peer, o.number);
  if (o.terms.call == Call::receive) return fmt::format("message.{}.{}.{}", o.peer, rank_, o.number);
  return fmt::format("collective.{}.{}", o.number, rank);
}

bool Communicator::same_terms(const Operation& o, const Bytes& other) {
  Terms theirs;
  std::memcpy(&theirs, other.data(), sizeof theirs);
  const bool pair = o.terms.call == Call::receive && theirs.call == Call::send;
  if ((pair || theirs.call == o.terms.call) && theirs.type == o.terms.type && theirs.op == o.terms.op &&
      theirs.root == o.terms.root && theirs.count == o.terms.count)
    return true;
  complain(name_,
           fmt::format("ranks disagree in operation {}: call {} of {} elements here, call {} of {} there", o.number,
                       static_cast<int>(o.terms.call), o.terms.count, static_cast<int>(theirs.call), theirs.count));
  failed_ = ncclInvalidUsage;
  return false;
}

void Communicator::advance(Operation& o) {
  const Settings& s = settings();
  const bool message = o.terms.call == Call::send || o.terms.call == Call::receive;
  if (!message && rank_ == s.absent_rank && size_ > 1 && o.number >= s.absent_from) return;
  if (!message && s.failing_collective != 0 && size_ > 1 && o.number >= s.failing_collective) {
    complain(name_, "this collective was chosen to fail");
    failed_ = ncclRemoteError;
    return;
  }
  const std::size_t bytes = o.terms.count * size_of(static_cast<ncclDataType_t>(o.terms.type));
  const std::string own = file(o, rank_);
  if (o.terms.call == Call::receive) {
    const auto found = meeting_.find(own);
    if (!found || !same_terms(o, *found)) return;
    std::memcpy(o.receive, found->data() + sizeof(Terms), bytes);
    meeting_.remove(own);  // the sender sees that it has been taken
    o.done = true;
    return;
  }
  if (!o.left) {
    const bool gives = o.terms.call != Call::broadcast || rank_ == o.terms.root;
    const std::size_t whole = o.terms.call == Call::reduce_scatter ? bytes * static_cast<std::size_t>(size_) : bytes;
    meeting_.leave(own, bytes_of(o.terms, o.send, gives ? whole : 0));
    o.left = true;
  }
  if (o.terms.call == Call::send) {
    o.done = !meeting_.has(own);
    return;
  }
  for (int r = 0; r < size_; ++r)
    if (!meeting_.has(file(o, r))) return;
  std::vector<Bytes> all;
  for (int r = 0; r < size_; ++r) {
    all.push_back(meeting_.find(file(o, r)).value());
    if (!same_terms(o, all.back())) return;
  }
  collect(o, all);
  // All have come to this one, so all have read what was left for the one before.
  if (o.number > 1) {
    Operation before = o;
    --before.number;
    meeting_.remove(file(before, rank_));
  }
  o.done = true;
}

void Communicator::collect(Operation& o, const std::vector<Bytes>& all) {
  const auto type = static_cast<ncclDataType_t>(o.terms.type);
  const std::size_t count = o.terms.count, bytes = count * size_of(type);
  const bool scatter = o.terms.call == Call::reduce_scatter;
  std::vector<const std::byte*> data;
  for (const Bytes& b : all)
    data.push_back(b.data() + sizeof(Terms) + (scatter ? bytes * static_cast<std::size_t>(rank_) : 0));
  switch (o.terms.call) {
    case Call::all_reduce:
    case Call::reduce_scatter:
      reduce(type, data, o.receive, count, o.terms.op == ncclMax);
      break;
    case Call::reduce:
      if (rank_ == o.terms.root) reduce(type, data, o.receive, count, false);
      break;
    case Call::all_gather:
      for (std::size_t r = 0; r < data.size(); ++r)
        std::memcpy(static_cast<std::byte*>(o.receive) + r * bytes, data[r], bytes);
      break;
    default:
      std::memcpy(o.receive, data[static_cast<std::size_t>(o.terms.root)], bytes);
  }
}

ncclResult_t Communicator::state() {
  if (const ncclResult_t failed = failed_; failed != ncclSuccess) return failed;
  const ncclResult_t met = meet();
  if (met != ncclSuccess) return met;
  while (!deferred_.empty()) {
    if (!deferred_.front()()) return ncclInProgress;
    deferred_.pop_front();
  }
  return failed_;
}

bool Communicator::part() {
  const auto all_left = [&](const char* file) {
    for (int r = 0; r < size_; ++r)
      if (!meeting_.has(file + std::to_string(r))) return false;
    return true;
  };
  if (aborted_ || Engine::get().fault() != cudaSuccess) parting_ = 3;
  if (parting_ == 0 && ended_ == given_) {
    meeting_.leave("gone." + std::to_string(rank_), {});
    parting_ = 1;
  }
  // Each rank must see that all are here before the folder goes.
  if (parting_ == 1 && all_left("gone.")) {
    meeting_.leave("saw." + std::to_string(rank_), {});
    parting_ = rank_ == 0 ? 2 : 3;
  }
  if (parting_ == 2 && all_left("saw.")) {
    meeting_.end();
    parting_ = 3;
  }
  return parting_ == 3;
}

}  // namespace fake_cuda
