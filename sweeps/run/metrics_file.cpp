#include "sweeps/run/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/atomic_file.h"

namespace mbench::sweeps {
namespace {

constexpr std::chrono::seconds kPeriod{1};

using Labels = std::vector<std::pair<std::string, std::string>>;

// A label's value: backslash, quote and line feed are escaped, and that is all (OpenMetrics 1.0, "Text format").
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// One family after the other, each with its type, its unit where it has one, and its samples together.
class Text {
 public:
  // The unit is the end of the name, as the format wants it.
  void family(const std::string& name, const char* type, const char* unit, const char* help) {
    name_ = name;
    suffix_ = type == std::string_view("info") ? "_info" : type == std::string_view("counter") ? "_total" : "";
    head_ = fmt::format("# TYPE {} {}\n", name, type);
    if (*unit) head_ += fmt::format("# UNIT {} {}\n", name, unit);
    head_ += fmt::format("# HELP {} {}\n", name, help);
  }
  void sample(const Labels& labels, double value) {
    if (!std::isfinite(value)) return;
    out_ += std::exchange(head_, "");  // a family without samples is left out
    std::string list;
    for (const auto& [key, text] : labels)
      list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", key, escaped(text));
    out_ += fmt::format("{}{}{} {}\n", name_, suffix_, list.empty() ? "" : "{" + list + "}", value);
  }
  void sample(const Labels& labels, const std::optional<double>& value) {
    if (value) sample(labels, *value);
  }
  std::string done() { return out_ + "# EOF\n"; }

 private:
  std::string out_, head_, name_, suffix_;
};

Labels labels_of(const std::map<std::string, std::string>& values) {
  return {values.begin(), values.end()};
}

std::string host_of(std::int64_t rank, const std::vector<Host>& hosts) {
  for (const Host& host : hosts)
    if (std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end()) return host.name;
  return "";
}

}  // namespace

MetricsFile::MetricsFile(std::string path, std::string sweep, std::string device,
                         const nlohmann::ordered_json& environment, std::size_t points)
    : path_(std::move(path)), points_(points) {
  const auto text = [&](const char* key) {
    const auto found = environment.find(key);
    return found != environment.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  build_ = {{"version", text("mbench_version")}, {"revision", text("git_revision")}};
  sweep_ = {{"name", std::move(sweep)},
            {"device", std::move(device)},
            {"launcher", text("launcher")},
            {"host", text("host")}};
}

void MetricsFile::begin(const SpecPoint& point) {
  id_ = point.id;
  label_ = point.label;
  global_batch_ = static_cast<double>(point.point.global_batch);
  steps_ = 0;
  step_s_ = loss_ = samples_per_s_ = std::nullopt;
  window_.reset();
  silence_.clear();
}

void MetricsFile::take(const ProgressMessage& message) {
  if (message.phase != "warmup") steps_ = message.iteration;
  loss_ = message.loss;
  if (message.ms && *message.ms > 0) {
    step_s_ = *message.ms * 1e-3;
    if (!window_) samples_per_s_ = global_batch_ / *step_s_;
  }
}

void MetricsFile::take(const SoakWindow& window) {
  window_ = window;
  samples_per_s_ = window.samples_per_s;
}

void MetricsFile::take(const std::map<std::int64_t, double>& silence, const std::vector<Host>& hosts) {
  silence_ = silence;
  hosts_ = hosts;
}

void MetricsFile::end(const PointResult& result) {
  failed_ += is_failure(result.outcome) ? 1 : 0;
  done_.push_back({result.id, label_, result});
  done_.back().result.losses.clear();  // what is not told is not kept
  id_.clear();
}

void MetricsFile::write_if_due() {
  if (!path_.empty() && std::chrono::steady_clock::now() - written_ >= kPeriod) write();
}

void MetricsFile::write() {
  if (path_.empty()) return;
  written_ = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  replace_file(path_, text(since.count()));
}

std::string MetricsFile::text(double updated) const {
  Text text;
  text.family("mbench_build", "info", "", "The program.");
  text.sample(labels_of(build_), 1);
  text.family("mbench_sweep", "info", "", "The sweep.");
  text.sample(labels_of(sweep_), 1);
  text.family("mbench_points", "gauge", "", "Points of the sweep.");
  text.sample({{"state", "all"}}, static_cast<double>(points_));
  text.sample({{"state", "done"}}, static_cast<double>(done_.size()));
  text.sample({{"state", "failed"}}, static_cast<double>(failed_));
  text.family("mbench_updated_timestamp_seconds", "gauge", "seconds", "When this file was written.");
  text.sample({}, std::round(updated * 1e3) * 1e-3);
  if (!id_.empty()) {
    const Labels point = {{"point", id_}};
    text.family("mbench_running", "info", "", "The point that runs.");
    text.sample({{"point", id_}, {"label", label_}}, 1);
    text.family("mbench_steps", "counter", "", "Steps that the point has measured.");
    text.sample(point, static_cast<double>(steps_));
    text.family("mbench_step_seconds", "gauge", "seconds", "The last step reported, on rank 0.");
    text.sample(point, step_s_);
    text.family("mbench_loss", "gauge", "", "The loss of that step.");
    text.sample(point, loss_);
    text.family("mbench_samples_per_second", "gauge", "",
                "Samples trained in a second, by that step or a soak's last window.");
    text.sample(point, samples_per_s_);
    if (window_) {
      text.family("mbench_clock_hertz", "gauge", "hertz", "Clocks of the ranks' devices in a soak's last window.");
      text.sample({{"point", id_}, {"of", "mean"}}, window_->clock_mhz * 1e6);
      text.sample({{"point", id_}, {"of", "least"}}, window_->least_clock_mhz * 1e6);
      text.family("mbench_power_watts", "gauge", "watts",
                  "Power of a rank's device in that window, the mean of the ranks.");
      text.sample(point, window_->power_w);
      text.family("mbench_temperature_celsius", "gauge", "celsius",
                  "The hottest of the ranks' devices in that window.");
      text.sample(point, window_->hottest_c);
      if (!window_->throttle.empty()) {
        text.family("mbench_throttle", "info", "", "What held a device's clock down in that window, or none.");
        text.sample({{"point", id_}, {"by", window_->throttle}}, 1);
      }
    }
    text.family("mbench_rank_silence_seconds", "gauge", "seconds", "Since a rank's last sign of life.");
    for (const auto& [rank, seconds] : silence_)
      text.sample({{"point", id_}, {"rank", std::to_string(rank)}, {"host", host_of(rank, hosts_)}},
                  std::round(seconds * 10) / 10);
  }
  text.family("mbench_outcome", "info", "", "What came of a point.");
  for (const Done& d : done_)
    text.sample({{"point", d.id}, {"label", d.label}, {"outcome", std::string(name_of(d.result.outcome))}}, 1);
  const auto results = [&](const char* name, const char* unit, const char* help, const auto& figure) {
    text.family(name, "gauge", unit, help);
    for (const Done& d : done_) text.sample({{"point", d.id}}, figure(d.result));
  };
  results("mbench_result_step_seconds", "seconds", "The mean step of a point.", [](const PointResult& r) {
    return r.iteration_ms ? std::optional(r.iteration_ms->mean * 1e-3) : std::nullopt;
  });
  results("mbench_result_samples_per_second", "", "Samples that a point trained in a second.",
          [](const PointResult& r) { return r.samples_per_s; });
  results("mbench_result_peak_memory_bytes", "bytes", "Peak memory of a point, on its fullest rank.",
          [](const PointResult& r) {
            return r.peak_memory_mib ? std::optional(*r.peak_memory_mib * 1048576) : std::nullopt;
          });
  return text.done();
}

}  // namespace mbench::sweeps
