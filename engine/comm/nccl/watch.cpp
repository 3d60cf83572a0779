#include "engine/comm/nccl/watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "engine/base/error.h"

namespace mbench::comm {
namespace {

// How often the host looks at a call at once before it sleeps between looks.
constexpr std::uint64_t kSpins = 1000;
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::seconds kAbortTime{10};
// NCCL does not tell a GPU that is full from other errors of CUDA: it is one where less than this is free.
constexpr std::size_t kFull = std::size_t{256} << 20;

bool is_full() {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess && free < kFull;
}

}  // namespace

void need_cuda(cudaError_t code, std::string_view where) {
  if (code != cudaSuccess)
    fail(code == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::internal, where,
         "CUDA call failed, got {} ({})", cudaGetErrorName(code), cudaGetErrorString(code));
}

void need_nccl(ncclResult_t code, std::string_view where, std::string_view call) {
  if (code != ncclSuccess)
    fail(ErrorKind::internal, where, "{} failed, got {}: {}", call, ncclGetErrorString(code),
         ncclGetLastError(nullptr));
}

Watch::Watch(double deadline, Allocator& memory) : deadline_(deadline), memory_(memory) {}

Watch::~Watch() {
  under_way_.clear();
  for (const cudaEvent_t e : spare_) cudaEventDestroy(e);
}

void Watch::add(ncclComm_t comm, std::string name) {
  comms_.push_back({comm, std::move(name)});
}

void Watch::end(ncclComm_t comm, bool orderly) noexcept {
  const auto found = std::find_if(comms_.begin(), comms_.end(), [&](const Comm& c) { return c.comm == comm; });
  if (found == comms_.end()) return;  // aborted with all others, or never made
  try {
    if (orderly)
      call(
          comm, [comm] { return ncclCommFinalize(comm); }, "the end of group " + found->name);
  } catch (const std::exception&) {  // a peer has not come to its end; the error that matters is told there
    orderly = false;
  }
  if (aborted_) return;
  std::erase_if(comms_, [&](const Comm& c) { return c.comm == comm; });
  if (orderly)
    ncclCommDestroy(comm);
  else
    ncclCommAbort(comm);
}

void Watch::settle(ncclComm_t comm, ncclResult_t code, std::string_view what) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t looks = 0; code == ncclInProgress && comm; ++looks) {
    check_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), what);
    if (meanwhile_) meanwhile_();
    if (looks > kSpins) std::this_thread::sleep_for(kNap);
    if (done(comm, code, what)) return;
  }
  if (code != ncclSuccess) failed(comm, code, what);
}

void Watch::call(ncclComm_t comm, std::function<ncclResult_t()> call, std::string_view what) {
  mbench::check(!caller_.busy(), what, "a call of NCCL before this one has not returned");
  const auto begin = std::chrono::steady_clock::now();
  caller_.start(std::move(call));
  try {
    for (std::uint64_t looks = 0; !caller_.returned(); ++looks) {
      check_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), what);
      if (meanwhile_) meanwhile_();
      if (looks > kSpins)
        std::this_thread::sleep_for(kNap);
      else
        std::this_thread::yield();
    }
  } catch (const std::exception&) {
    if (!aborted_) abort();  // so that it returns
    throw;
  }
  settle(comm, caller_.result(), what);  // a communicator that does not block has only begun
}

bool Watch::done(ncclComm_t comm, ncclResult_t code, std::string_view what) {
  if (code == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &code);
    if (asked != ncclSuccess) code = asked;
  }
  if (code != ncclSuccess && code != ncclInProgress) failed(comm, code, what);
  return code == ncclSuccess;
}

void Watch::failed(ncclComm_t comm, ncclResult_t code, std::string_view what) {
  const std::string reported = ncclGetLastError(comm);
  const bool full = code == ncclUnhandledCudaError && is_full();
  // An abort may hang or crash: then this line is all that is told.
  std::fprintf(stderr, "[%s] NCCL failed, got %s: %s\n", std::string(what).c_str(), ncclGetErrorString(code),
               reported.c_str());
  abort();
  fail(full ? ErrorKind::out_of_memory : ErrorKind::internal, what, "NCCL failed{}, got {}: {}",
       full ? " on a GPU that is full" : "", ncclGetErrorString(code), reported);
}

std::size_t Watch::uncounted() const {
  std::size_t free = 0, total = 0;
  need_cuda(cudaMemGetInfo(&free, &total), "nccl");
  const std::size_t counted = memory_.reserved() + memory_.library(), used = total - free;
  return used > counted ? used - counted : 0;
}

void Watch::charge(std::size_t before, std::string_view what) {
  const std::size_t now = uncounted();
  if (now <= before) return;
  memory_.change_library(buffers_, buffers_ + now - before, what);
  buffers_ += now - before;
}

void Watch::check_wait(double waited, std::string_view what) {
  if (waited > deadline_) give_up(what, waited);
}

void Watch::give_up(std::string_view what, double waited) {
  abort();
  fail(ErrorKind::timed_out, "nccl", "no end of {} after {:.0f} s: a rank has not come to it, or a link is down", what,
       waited);
}

SharedEvent Watch::mark(cudaStream_t stream) {
  cudaEvent_t e = nullptr;
  if (spare_.empty()) {
    need_cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "nccl");
  } else {
    e = spare_.back();
    spare_.pop_back();
  }
  // Owners (what is pending) never outlive their group, nor does a group the watch.
  SharedEvent event(e, [this](cudaEvent_t done) { spare_.push_back(done); });
  need_cuda(cudaEventRecord(e, stream), "nccl");
  return event;
}

SharedEvent Watch::ends(cudaStream_t stream, std::string what) {
  // An event of a graph passes in every replay, and nobody may ask it.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  need_cuda(cudaStreamIsCapturing(stream, &capture), what);
  if (capture != cudaStreamCaptureStatusNone) return mark(stream);
  forget_ended();
  SharedEvent event = mark(stream);
  under_way_.push_back({std::move(what), event});
  return event;
}

void Watch::forget_ended() {
  while (!under_way_.empty() && cudaEventQuery(under_way_.front().end.get()) == cudaSuccess) under_way_.pop_front();
}

// Each in a thread of its own, and not waited for longer than kAbortTime: ncclCommAbort may itself wait for a
// peer of this machine that will never come, and then the error that brought us here would never be told.
void Watch::abort() {
  aborted_ = true;
  const auto left = std::make_shared<std::atomic<std::size_t>>(comms_.size());
  for (const Comm& c : comms_)
    std::thread([comm = c.comm, left] {
      ncclCommAbort(comm);
      --*left;
    }).detach();
  const auto begin = std::chrono::steady_clock::now();
  // A call that was under way returns as well, with an error.
  while ((*left > 0 || caller_.busy()) && std::chrono::steady_clock::now() - begin < kAbortTime)
    std::this_thread::sleep_for(kNap);
  comms_.clear();
}

void Watch::check(double waited) {
  if (aborted_) return;
  if (meanwhile_) meanwhile_();
  for (const Comm& c : comms_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(c.comm, &state);
    if (asked == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) continue;
    const std::string name = c.name;
    abort();
    need_nccl(asked == ncclSuccess ? state : asked, name, "NCCL");
  }
  if (waited < deadline_) return;
  const auto stuck = std::find_if(under_way_.begin(), under_way_.end(),
                                  [](const UnderWay& u) { return cudaEventQuery(u.end.get()) == cudaErrorNotReady; });
  if (stuck == under_way_.end()) return;  // a kernel that takes long
  give_up(std::string(stuck->what), waited);
}

}  // namespace mbench::comm
