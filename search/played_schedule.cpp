#include "search/played_schedule.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "strategies/schedule.h"

namespace mbench::search {
namespace {

using Kind = Action::Kind;
constexpr double kNotYet = std::numeric_limits<double>::infinity();
// Rounds of as many micro batches as there are stages that are played: by then what a pipeline does repeats.
constexpr std::int64_t kRounds = 5;

// All stages of a pipeline, each as far as it has come.
class Play {
 public:
  Play(const PlayedPipeline& pipeline, const std::vector<Schedule>& schedules, std::int64_t micro_batches)
      : pipeline_(pipeline), schedules_(schedules), micro_batches_(micro_batches), now_(schedules.size(), 0) {
    now_[0] = pipeline.lead;
    std::size_t chunks = 0;
    for (const auto& stage : pipeline.chunks) chunks += stage.size();
    stage_at_.resize(chunks);
    for (const auto& stage : pipeline.chunks)
      for (const ChunkPlan& c : stage) stage_at_[static_cast<std::size_t>(c.position)] = c.stage;
    for (auto* left : {&activation_left_, &gradient_left_})
      left->assign(chunks * static_cast<std::size_t>(micro_batches), kNotYet);
  }

  std::vector<double> run() {
    std::vector<std::size_t> next(schedules_.size(), 0);
    for (std::size_t left = schedules_.size(); left > 0;) {
      bool moved = false;
      for (std::size_t s = 0; s < schedules_.size(); ++s) {
        const Schedule& mine = schedules_[s];
        while (next[s] < mine.size() && act(s, mine[next[s]])) {
          moved = true;
          if (++next[s] == mine.size()) --left;
        }
      }
      check(moved || left == 0, "search", "every stage waits for another");
    }
    return now_;
  }

 private:
  // False where the stage must wait for a message that has not been sent.
  bool act(std::size_t stage, const Action& a) {
    const auto chunk = static_cast<std::size_t>(a.chunk);
    const ActionSeconds& seconds = pipeline_.seconds[stage][chunk];
    const int position = pipeline_.chunks[stage][chunk].position;
    double& now = now_[stage];
    switch (a.kind) {
      case Kind::forward:
        now += seconds.forward;
        return true;
      case Kind::backward:
        now += seconds.backward;
        return true;
      case Kind::weight_gradient:
        now += seconds.weight_gradient;
        return true;
      case Kind::send_activation:
        left(activation_left_, position + 1, a.micro) = now;
        return true;
      case Kind::send_gradient:
        left(gradient_left_, position - 1, a.micro) = now;
        return true;
      case Kind::receive_activation:
        return receive(now, left(activation_left_, position, a.micro), position - 1, stage);
      case Kind::receive_gradient:
        return receive(now, left(gradient_left_, position, a.micro), position + 1, stage);
    }
    return true;
  }
  bool receive(double& now, double left_at, int from, std::size_t to) const {
    if (left_at == kNotYet) return false;
    const double message = pipeline_.message(stage_at_[static_cast<std::size_t>(from)], static_cast<std::int64_t>(to));
    now = pipeline_.receives_ahead ? std::max(now, left_at + message) : std::max(now, left_at) + message;
    return true;
  }
  double& left(std::vector<double>& all, int position, int micro) const {
    return all[static_cast<std::size_t>(position * micro_batches_ + micro)];
  }

  const PlayedPipeline& pipeline_;
  const std::vector<Schedule>& schedules_;
  std::int64_t micro_batches_;
  std::vector<int> stage_at_;                            // [position]
  std::vector<double> activation_left_, gradient_left_;  // [position, micro batch]: when the message to it left
  std::vector<double> now_;                              // [stage]
};

}  // namespace

const std::vector<Schedule>& PlayedSchedules::schedules_of(const PlayedPipeline& p, std::int64_t micro_batches) const {
  const Key key{p.schedule, p.chunks.size(), p.chunks[0].size(), micro_batches, p.group};
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = known_.try_emplace(key);
  if (fresh)
    at->second =
        strategies::make_schedules(p.schedule, static_cast<int>(p.chunks.size()), static_cast<int>(p.chunks[0].size()),
                                   static_cast<int>(micro_batches), static_cast<int>(p.group));
  return at->second;
}

std::vector<double> PlayedSchedules::played(const PlayedPipeline& p, std::int64_t micro_batches) const {
  return Play(p, schedules_of(p, micro_batches), micro_batches).run();
}

std::vector<double> PlayedSchedules::ends_of(const PlayedPipeline& p) const {
  const std::int64_t round = std::max(static_cast<std::int64_t>(p.chunks.size()), p.group);
  const std::int64_t more = std::max<std::int64_t>(0, p.micro_batches / round - kRounds);
  std::vector<double> ends = played(p, p.micro_batches - more * round);
  if (more == 0) return ends;
  const auto fewer = [&](std::int64_t rounds) { return played(p, p.micro_batches - (more + rounds) * round); };
  const std::vector<double> before = fewer(1), first = fewer(2);
  for (std::size_t s = 0; s < ends.size(); ++s)
    ends[s] += static_cast<double>(more) * std::min(ends[s] - before[s], before[s] - first[s]);
  return ends;
}

}  // namespace mbench::search
