#include "engine/comm/nccl/caller.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <utility>

namespace mbench::comm {
namespace {

// How long the thread looks for the next call before it sleeps: waking it costs as much as the thread that it spares. Collectives of one
// layer are closer than this.
constexpr std::chrono::microseconds kSpin{500};

}  // namespace

Caller::Caller() : shared_(std::make_shared<Shared>()) {
  int gpu = 0;
  cudaGetDevice(&gpu);
  thread_ = std::thread([shared = shared_, gpu] { serve(*shared, gpu); });
}

Caller::~Caller() {
  int state = shared_->state.exchange(quit);
  shared_->state.notify_one();
  if (state == asked)
    thread_.detach();
  else
    thread_.join();
}

void Caller::start(std::function<ncclResult_t()> call) {
  shared_->call = std::move(call);
  shared_->state.store(asked);
  shared_->state.notify_one();
}

bool Caller::returned() const {
  return shared_->state.load() == answered;
}

ncclResult_t Caller::result() {
  shared_->state.store(idle);
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
  return shared_->result;
}

void Caller::serve(Shared& shared, int gpu) {
  cudaSetDevice(gpu);
  for (;;) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    int state = shared.state.load();
    for (; state != asked && state != quit; state = shared.state.load()) {
      if (std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
      else
        shared.state.wait(state);
    }
    if (state == quit) return;
    try {
      shared.result = shared.call();
    } catch (...) {
      shared.error = std::current_exception();
    }
    shared.call = nullptr;  // and what it holds
    // Not where the other thread has left meanwhile.
    int called = asked;
    shared.state.compare_exchange_strong(called, answered);
  }
}

}  // namespace mbench::comm
