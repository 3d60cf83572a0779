#include "sweeps/run/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/process/process.h"
#include "engine/process/turns.h"
#include "sweeps/launch/lost_hosts.h"
#include "sweeps/run/consistency.h"
#include "sweeps/run/metrics_file.h"
#include "sweeps/run/point_run.h"
#include "sweeps/run/progress.h"
#include "sweeps/store/store.h"

namespace mbench::sweeps {
namespace {

namespace fs = std::filesystem;

// "1 infeasible, 2 oom"; empty if all can run.
std::string count_outcomes(const std::vector<Forecast>& forecasts) {
  std::map<std::string, int> counts;
  for (const Forecast& f : forecasts)
    if (f.outcome) ++counts[std::string(name_of(*f.outcome))];
  std::string text;
  for (const auto& [name, n] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name);
  return text;
}

std::optional<double> total_seconds(const std::vector<Forecast>& forecasts) {
  double sum = 0;
  for (const Forecast& f : forecasts) {
    if (f.outcome) continue;
    if (!f.seconds) return std::nullopt;
    sum += *f.seconds;
  }
  return sum;
}

// What is said before the start.
std::string heading(const Spec& spec, const RunnerOptions& options, const std::vector<Forecast>& forecasts,
                    std::size_t kept) {
  const auto text_of = [&](const char* key) {
    const auto found = options.environment.find(key);
    return found != options.environment.end() && found->is_string() ? found->get<std::string>() : std::string("n/a");
  };
  const Point& first = spec.points.front().point;
  std::string text = fmt::format("{}: {} point{} on {}", spec.name, spec.points.size(),
                                 spec.points.size() == 1 ? "" : "s", first.device);
  if (first.simulated()) return text + ", simulated";
  text +=
      fmt::format(" of {} ({}, {} cores), launched by {}",
                  options.launcher.nodes > 1 ? fmt::format("{} nodes as {}", options.launcher.nodes, text_of("host"))
                                             : text_of("host"),
                  text_of("cpu"), options.launcher.cores, options.launcher.describe());
  if (kept > 0) text += fmt::format("\n  {} of them are done already", kept);
  const std::string cannot = count_outcomes(forecasts);
  if (!cannot.empty()) text += "\n  cannot run, and are recorded as such: " + cannot;
  const auto seconds = total_seconds(forecasts);
  const bool idle = std::all_of(forecasts.begin(), forecasts.end(), [](const Forecast& f) { return f.outcome; });
  text += idle      ? "\n  nothing to run"
          : seconds ? fmt::format("\n  about {}", format_duration(*seconds))
                    : "\n  for an unknown time";
  return text;
}

// What is thrown on the way is the row of this point, not the end of the others.
PointResult simulate_point(const Point& point, const RunnerOptions& options) {
  try {
    return options.simulate(point);
  } catch (const Error& e) {
    return not_run(point, outcome_of(e.kind()).value_or(Outcome::crashed), e.what());
  } catch (const std::exception& e) {
    return not_run(point, Outcome::crashed, fmt::format("the simulation failed: {}", e.what()));
  }
}

class Sweep {
 public:
  Sweep(const Spec& spec, const RunnerOptions& options)
      : spec_(spec),
        options_(options),
        launcher_(options.launcher),
        interrupt_(options.interrupt ? *options.interrupt : own_interrupt_.emplace()),
        progress_(*options.progress, options.columns, options.quiet),
        store_(options.out, spec, options.environment, options.resume, options.render_tables),
        metrics_(options.metrics, spec.name, spec.points.front().point.device, options.environment,
                 spec.points.size()) {}

  SweepEnd run() {
    announce();
    std::error_code ignored;
    try {
      run_points();
    } catch (const Error& e) {  // the results cannot be written: nothing that follows could be kept
      progress_.message(e.what());
      progress_.message("The sweep ends here; " +
                        (fs::exists(store_.results_path(), ignored)
                             ? store_.results_path() + " keeps what was written before."
                             : "what was measured is only in the tables on standard output."));
      end_.failed = true;
      cut_off_ = true;
    } catch (...) {  // rows that are in memory alone until now must not be lost with it
      store_.write();
      throw;
    }
    end_.file = store_.file();
    finish();
    return end_;
  }

 private:
  void announce() {
    tell_notes();
    for (const SpecPoint& p : spec_.points) {
      if (store_.has(p.id)) continue;
      if (interrupt_.pending()) break;  // nothing runs then
      todo_.push_back(&p);
      forecasts_.push_back(forecast_of(p.point, options_));
      if (!forecasts_.back().outcome) time_left_.expect(forecasts_.back().seconds);
    }
    progress_.line(heading(spec_, options_, forecasts_, spec_.points.size() - todo_.size()));
    progress_.line(fmt::format("  results in {}", options_.out));
  }

  void tell_notes() {
    for (const std::string& note : store_.take_notes()) progress_.message(note);
  }

  void run_points() {
    store_.write();  // a folder that cannot be written shows before the first point has run
    const auto interrupted = [&] { return interrupt_.pending(); };
    if (options_.turns) {
      turns_.emplace(options_.turns->folder, options_.turns->number);
      turns_->join(std::chrono::seconds(60), interrupted);
    }
    const std::size_t kept = spec_.points.size() - todo_.size();
    for (std::size_t i = 0; i < todo_.size(); ++i) {
      if (interrupt_.pending()) end_.interrupted = true;
      if (end_.interrupted) break;
      const SpecPoint& p = *todo_[i];
      progress_.start(kept + i + 1, spec_.points.size(), p.label);
      metrics_.begin(p);
      tell_metrics(true);
      std::optional<PointResult> result;
      double seconds = 0;
      if (p.point.simulated()) {
        result = simulate_point(p.point, options_);
        seconds = progress_.elapsed();
      } else if (forecasts_[i].outcome) {
        result = not_run(p.point, *forecasts_[i].outcome, forecasts_[i].reason);
      } else {
        if (turns_) turns_->wait(interrupted);  // ranks start in their own turn too
        PointEnd end = store_.in_folder([&] { return run_one(p, forecasts_[i]); });
        if (turns_) turns_->pass();
        result = std::move(end.result);
        end_.failed = end_.failed || end.unwritten;
        if (end.reported) store_.learn(end.reported->environment);
        end_.interrupted = !result || result->outcome == Outcome::partial;
        if (!result) break;
        seconds = progress_.elapsed();
        if (result->outcome == Outcome::launch_failed && !lost_.empty())
          result->reason += fmt::format("; without {}, lost before", fmt::join(lost_, ", "));
        if (!end.lost_hosts.empty() && !interrupt_.pending()) go_on_without(end.lost_hosts, p.point.device);
        time_left_.done(seconds);
        check_losses(*result, store_.file().points);
      }
      end_.failed = end_.failed || is_failure(result->outcome);
      progress_.finish(*result, seconds);
      metrics_.end(*result);
      if (p.point.simulated())
        store_.keep_simulated(*result);
      else
        store_.keep(*result);
      tell_notes();
    }
    store_.write();
    tell_metrics(true);
  }

  // A file of metrics that cannot be written ends nothing: it is said once.
  void tell_metrics(bool now) {
    if (metrics_failed_) return;
    try {
      if (now)
        metrics_.write();
      else
        metrics_.write_if_due();
    } catch (const Error& e) {
      progress_.message(e.what());
      metrics_failed_ = end_.failed = true;
    }
  }

  // The points that follow run on the hosts that still answer.
  void go_on_without(const std::vector<std::string>& reported, const std::string& device) {
    const auto remaining = without_lost_hosts(launcher_, reported, options_.program, device, options_.out);
    if (!remaining) return;
    launcher_ = remaining->launcher;
    lost_.insert(lost_.end(), remaining->lost.begin(), remaining->lost.end());
    progress_.message(fmt::format("{} {} not answer: the points that follow run on the {} other host{} ({})",
                                  fmt::join(remaining->lost, ", "), remaining->lost.size() > 1 ? "do" : "does",
                                  launcher_.nodes, launcher_.nodes > 1 ? "s" : "", launcher_.hostfile));
  }

  PointEnd run_one(const SpecPoint& p, const Forecast& forecast) {
    if (!session_ && keeps_session_here(launcher_)) session_ = SessionFolder::make();
    PointRun run;
    run.program = options_.program;
    run.out = options_.out;
    run.launcher = launcher_;
    if (session_) run.session = &*session_;
    if (options_.trace) run.trace = options_.trace(p.point);
    // A soak takes its time, and what lies around it may take as long as of any other point.
    run.timeout_s = options_.timeout_s > 0 ? options_.timeout_s
                                           : options_.soak_s * 1.1 + std::max(600.0, 20 * forecast.seconds.value_or(0));
    run.soak_s = options_.soak_s;
    run.turns = options_.turns;
    run.collective_timeout_s = options_.collective_timeout_s;
    run.interrupt = &interrupt_;
    run.on_progress = [&](const ProgressMessage& message) {
      progress_.update(message, time_left_.left(progress_.elapsed()));
      metrics_.take(message);
    };
    run.on_window = [&](const SoakWindow& window) { metrics_.take(window); };
    run.on_silence = [&](const std::map<std::int64_t, double>& silence, const std::vector<Host>& hosts) {
      metrics_.take(silence, hosts);
      tell_metrics(false);
    };
    return run_point(p, run);
  }

  std::ptrdiff_t ended_points() {
    const auto& points = end_.file.points;
    return std::count_if(points.begin(), points.end(),
                         [&](const PointResult& r) { return r.outcome != Outcome::partial && store_.has(r.id); });
  }

  // What is kept of the point that was interrupted: "; 3 windows of the one that was cut off are kept too, and it runs again".
  std::string kept_partly() const {
    const auto& points = end_.file.points;
    const auto cut =
        std::find_if(points.begin(), points.end(), [](const PointResult& r) { return r.outcome == Outcome::partial; });
    if (cut == points.end()) return "";
    const std::size_t n = cut->soak ? cut->soak->windows.size() : cut->partial_ms.size();
    return fmt::format("; {} {}{} of the point that was cut off {} kept too, and it runs again", n,
                       cut->soak ? "window" : "step", n == 1 ? "" : "s", n == 1 ? "is" : "are");
  }

  void finish() {
    if (options_.render_tables && !end_.file.points.empty()) {
      try {
        *options_.tables << options_.render_tables(end_.file) << std::flush;
      } catch (const Error& e) {
        progress_.message(e.what());
        end_.failed = true;
      }
    }
    if (end_.interrupted)
      progress_.message(fmt::format("Interrupted: {} of {} points are done and kept{}. To go on: {}", ended_points(),
                                    spec_.all_ids.size(), kept_partly(), options_.resume_command));
    else if (!end_.failed || (!cut_off_ && !any_point_failed()))
      progress_.line(fmt::format("results: {}", store_.results_path()));
    else if (!cut_off_)
      progress_.message(
          fmt::format("Some points failed: see {}, and the logs in {}/points", store_.results_path(), options_.out));
  }

  // What failed beside them has been said.
  bool any_point_failed() const {
    const auto& points = end_.file.points;
    return std::any_of(points.begin(), points.end(), [](const PointResult& r) { return is_failure(r.outcome); });
  }

  const Spec& spec_;
  const RunnerOptions& options_;
  Launcher launcher_;              // with the hosts that still answer
  std::vector<std::string> lost_;  // those that do not
  std::optional<process::Interrupt> own_interrupt_;
  process::Interrupt& interrupt_;
  ProgressLine progress_;
  ResultStore store_;
  MetricsFile metrics_;
  bool metrics_failed_ = false;
  std::optional<process::Turns> turns_;
  std::optional<SessionFolder> session_;  // from the first point that is started on
  TimeLeft time_left_;
  std::vector<const SpecPoint*> todo_;
  std::vector<Forecast> forecasts_;
  SweepEnd end_;
  bool cut_off_ = false;  // the results could not be written
};

}  // namespace

Forecast forecast_of(const Point& point, const RunnerOptions& options) {
  if (point.simulated()) return {};  // the simulation itself finds out, as fast
  try {
    return options.preflight ? options.preflight(point) : Forecast{};
  } catch (const Error& e) {
    return {outcome_of(e.kind()).value_or(Outcome::crashed), e.what(), {}};
  } catch (const std::exception& e) {
    return {Outcome::crashed, fmt::format("what it needs could not be counted: {}", e.what()), {}};
  }
}

SweepEnd run_sweep(const Spec& spec, const RunnerOptions& options) {
  return Sweep(spec, options).run();
}

std::string describe_sweep(const Spec& spec, const RunnerOptions& options) {
  std::vector<Forecast> forecasts;
  for (const SpecPoint& p : spec.points) forecasts.push_back(forecast_of(p.point, options));
  std::string text = heading(spec, options, forecasts, 0) + "\n";
  PointRun run;
  run.program = options.program;
  run.out = options.out;
  run.launcher = options.launcher;
  run.soak_s = options.soak_s;
  run.turns = options.turns;
  run.collective_timeout_s = options.collective_timeout_s;
  for (std::size_t i = 0; i < spec.points.size(); ++i) {
    const SpecPoint& p = spec.points[i];
    const Forecast& f = forecasts[i];
    text += fmt::format("[{}/{}] {}  {} ranks  {}\n", i + 1, spec.points.size(), p.label, p.point.world(), p.id);
    if (f.outcome) {
      text += fmt::format("    {}: {}\n", name_of(*f.outcome), f.reason);
      continue;
    }
    if (p.point.simulated()) {
      text += fmt::format("    simulated: {}\n", one_line(simulate_point(p.point, options)));
      continue;
    }
    try {
      text += "    " + shell_text(command_for(options.launcher, p.point, run_arguments(run, p))) + "\n";
    } catch (const Error& e) {
      text += fmt::format("    launch_failed: {}\n", e.what());
    }
  }
  return text;
}

}  // namespace mbench::sweeps
