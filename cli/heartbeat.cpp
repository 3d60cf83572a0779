#include "cli/heartbeat.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

namespace mbench::cli {
namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

constexpr double kBeats = 6;                     // within the limit
constexpr double kSlowest = 5, kFastest = 0.05;  // seconds between two

// False once it is asked to stop.
bool sleep(const std::stop_token& stop, double seconds) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, Seconds(seconds), [&] { return stop.stop_requested(); });
  return !stop.stop_requested();
}

// Whole lines in one write. A launcher that was stopped does not read: then nothing is said, and nobody waits for it.
void say_alive(const nlohmann::ordered_json& alive) {
  pollfd fd = {STDERR_FILENO, POLLOUT, 0};
  if (::poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLOUT)) return;
  const std::string line =
      nlohmann::ordered_json{{"alive", alive}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const ssize_t reported = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void Heartbeat::start(std::shared_ptr<const comm::Pulse> pulse, int rank, double limit_s) {
  rank_ = rank;
  const double period = std::clamp(limit_s / kBeats, kFastest, kSlowest);
  thread_ = std::jthread([pulse = std::move(pulse), rank, period](const std::stop_token& stop) {
    do {
      const comm::Pulse::Sight sight = pulse->look();
      nlohmann::ordered_json alive = {{"rank", rank}, {"turn", sight.turn}};
      if (!sight.in.empty()) alive["in"] = sight.in;
      say_alive(alive);
    } while (sleep(stop, period));
  });
}

Heartbeat::~Heartbeat() {
  if (rank_ < 0) return;
  thread_.request_stop();
  thread_.join();
  say_alive({{"rank", rank_}, {"ends", true}});
}

void Deadline::start(std::shared_ptr<const comm::Pulse> pulse, double limit_s,
                     std::function<void(const std::string& in)> give_up) {
  thread_ =
      std::jthread([pulse = std::move(pulse), limit_s, give_up = std::move(give_up)](const std::stop_token& stop) {
        comm::Pulse::Sight last;
        double waited = 0;
        const double period = std::clamp(limit_s / kBeats, 0.01, 1.0);
        for (auto before = Clock::now(); sleep(stop, period);) {
          const auto now = Clock::now();
          const comm::Pulse::Sight sight = pulse->look();
          // A machine that slept, or a process that was stopped, has waited no longer than it was awake.
          waited =
              sight == last && !sight.in.empty() ? waited + std::min(Seconds(now - before).count(), 2 * period) : 0;
          before = now;
          last = sight;
          if (waited > limit_s) return give_up(sight.in);
        }
      });
}

}  // namespace mbench::cli
