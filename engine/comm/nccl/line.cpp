#include "engine/comm/nccl/line.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "engine/base/error.h"

namespace mbench::comm {
namespace {

// How often the host looks at a message before it sleeps between looks.
constexpr std::uint64_t kSpins = 1000;
constexpr std::chrono::microseconds kNap{100};

}  // namespace

Lines::Lines(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {
  watch_->meanwhile([this] { advance(); });
}

Lines::~Lines() {
  watch_->meanwhile(nullptr);
}

void Lines::advance() {
  if (advancing_ || busy_.empty()) return;
  // A line may fail, and is left busy then.
  struct Flag {
    bool& on;
    explicit Flag(bool& b) : on(b) { on = true; }
    ~Flag() { on = false; }
  } const flag(advancing_);
  std::erase_if(busy_, [](Line* line) { return line->advance(); });
}

void Lines::hand_over(const Message& message) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t looks = 0; !message.end; ++looks) {
    advance();
    if (message.end) return;
    watch_->check_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), message.what);
    if (looks > kSpins) std::this_thread::sleep_for(kNap);
  }
}

// The sender arranges the meeting.
Line::Line(Lines& lines, Mail& mail, std::string name, End end, int peer, int kind)
    : lines_(lines), mail_(mail), name_(std::move(name)), end_(end), peer_(peer), kind_(kind) {
  if (end_ == End::receiver) return;
  ncclUniqueId id{};
  need_nccl(ncclGetUniqueId(&id), name_, "ncclGetUniqueId");
  mail_.post(peer_, kind_, std::as_bytes(std::span(&id, 1)));
  open(id);
}

Line::~Line() {
  std::erase(lines_.busy_, this);
}

void Line::open(const ncclUniqueId& id) {
  channel_ = Channel::begin(lines_.shared_watch(), name_, id, end_ == End::sender ? 0 : 1, 2);
}

std::shared_ptr<Message> Line::start(cudaStream_t compute, std::string what,
                                     std::function<ncclResult_t(ncclComm_t, cudaStream_t)> call) {
  const auto message =
      std::make_shared<Message>(Message{std::move(what), std::move(call), lines_.watch().mark(compute), nullptr});
  waiting_.push_back(message);
  if (!busy_) lines_.busy_.push_back(this);
  busy_ = true;
  lines_.advance();
  return message;
}

bool Line::advance() {
  if (!channel_) {
    const auto letter = mail_.collect(peer_, kind_);
    if (!letter) return false;
    ncclUniqueId id{};
    check(letter->size() == sizeof id, name_, "a letter of {} bytes, need the {} of an id", letter->size(), sizeof id);
    std::memcpy(&id, letter->data(), sizeof id);
    open(id);
  }
  if (!made_ && !channel_->made()) return false;
  made_ = true;
  while (!waiting_.empty()) {
    Message& m = *waiting_.front();
    ncclResult_t code = ncclInProgress;
    if (!given_) {
      need_cuda(cudaStreamWaitEvent(channel_->stream(), m.ready.get(), 0), m.what);
      code = m.call(channel_->comm(), channel_->stream());
      given_ = true;
    }
    if (!lines_.watch().done(channel_->comm(), code, m.what)) return false;
    m.end = lines_.watch().ends(channel_->stream(), m.what);
    m.call = nullptr;  // and the tensor that it holds
    given_ = false;
    waiting_.pop_front();
  }
  busy_ = false;
  return true;
}

}  // namespace mbench::comm
