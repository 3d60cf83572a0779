#include "sweeps/run/point_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "sweeps/launch/hopeless_launch.h"
#include "sweeps/run/failure.h"
#include "sweeps/run/rank_watch.h"

namespace mbench::sweeps {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// What the run wrote. If there is nothing, `trouble` stays empty; if it cannot be read, it says why.
std::optional<PointResult> read_result(const std::string& path, std::string& trouble) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    return result_from_json(json(parse_json(read_text_file(path), path)), path + ": $");
  } catch (const Error& e) {
    trouble = e.what();
    return std::nullopt;
  }
}

void add_reason(PointResult& result, const std::string& reason) {
  if (!reason.empty()) result.reason += (result.reason.empty() ? "" : "; ") + reason;
}

// Of a run that ended before its ranks came up: what may have kept them from it.
std::string early_end(const Point& point, bool silent) {
  // Those that loaders and launchers go by.
  constexpr std::string_view kObeyed[] = {"PATH",  "LD_",  "HOME",   "TMPDIR", "OMPI_",  "OPAL_", "PRTE_",
                                          "PMIX_", "PMI_", "HYDRA_", "MPI",    "SLURM_", "UCX_",  "FI_"};
  std::string names;
  for (const auto& [name, value] : point.env)
    if (std::any_of(std::begin(kObeyed), std::end(kObeyed),
                    [&](std::string_view begin) { return name.starts_with(begin); }))
      names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return silent ? "nothing was printed" : "";
  return (silent ? "nothing was printed, and " : "") + ("the point's env sets " + names);
}

Point as_run(const SpecPoint& p) {
  Point point = p.point;
  point.data = p.data;
  return point;
}

double collective_timeout(const PointRun& run) {
  if (run.collective_timeout_s > 0) return run.collective_timeout_s;
  return run.timeout_s > 0 ? std::min(300.0, run.timeout_s / 2) : 300.0;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the lines of a run tell: how far it came, whether its ranks are alive, and its record and trace where these have no file.
class Reported {
 public:
  explicit Reported(const PointRun& run) : run_(run), watch_(collective_timeout(run)) {}

  bool take(std::string_view line) {
    if (!take_reported(line)) return take_error(line);  // a launcher may join what ranks print
    watch_.on_rank();
    return true;
  }
  bool take_error(std::string_view line) {
    if (watch_.take(line)) return true;
    if (reached_.empty()) launch_.take(line);
    return false;
  }
  // Why the ranks are not waited for any longer; usually empty.
  std::string give_up() {
    std::string why = launch_.look();
    if (why.empty()) why = watch_.look(now());
    if (run_.on_silence) run_.on_silence(watch_.silence(), hosts());
    return why;
  }

  const std::string& reached() const { return reached_; }
  const std::optional<ReportedRecord>& record() const { return record_; }
  // What of the run's files could not be written, by it or here.
  std::string unwritten() const {
    std::string text = record_ ? record_->unwritten : "";
    if (!trace_trouble_.empty()) text += (text.empty() ? "" : "; ") + trace_trouble_;
    return text;
  }
  const std::optional<ReportedHosts>& where() const { return hosts_; }
  std::vector<Host> hosts() const { return hosts_ ? hosts_->hosts : std::vector<Host>(); }
  const RankWatch& watch() const { return watch_; }
  // A point whose record has no samples keeps those that were told.
  void add_partial(PointResult& result) const {
    if (result.iteration_ms || result.outcome == Outcome::ok) return;
    result.partial_ms = ms_;
    result.partial_losses = losses_;
    if (!soak_.windows.empty()) result.soak = soak_;
  }
  // The row of a point that was interrupted; nothing where no measured step was told.
  std::optional<PointResult> interrupted(const Point& point) const {
    PointResult result = not_run(point, Outcome::partial, "interrupted, after " + reached_);
    add_partial(result);
    if (result.partial_ms.empty() && !result.soak) return std::nullopt;
    return result;
  }

 private:
  bool take_reported(std::string_view line) {
    if (const auto message = read_progress(line)) {
      reached_ = message->str();
      constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
      if (message->of > 0) losses_.push_back(message->loss.value_or(unknown));
      if (message->phase == "iteration" && message->ms) ms_.push_back(*message->ms);
      if (run_.on_progress) run_.on_progress(*message);
      return true;
    }
    if (const auto window = read_window(line)) {
      soak_.windows.push_back(*window);
      soak_.steps += window->steps;
      soak_.seconds = window->end_s;
      if (run_.on_window) run_.on_window(*window);
      return true;
    }
    if (auto hosts = read_reported_hosts(line)) {
      hosts_ = std::move(hosts);
      watch_.on_hosts(hosts_->hosts);
      return true;
    }
    if (auto trace = read_trace(line)) {
      trace_ += trace->text;
      if (!trace->more) keep_trace();
      return true;
    }
    auto record = read_record(line);
    if (record) record_ = std::move(record);
    return record.has_value();
  }
  void keep_trace() {
    try {
      if (!run_.trace.empty()) write_file_atomically(run_.trace, trace_);
    } catch (const Error& e) {
      trace_trouble_ = e.what();
    }
    trace_.clear();
  }

  const PointRun& run_;
  RankWatch watch_;
  HopelessLaunch launch_;
  std::string reached_, trace_, trace_trouble_;
  std::vector<double> ms_, losses_;
  Soak soak_;  // the windows that were told
  std::optional<ReportedRecord> record_;
  std::optional<ReportedHosts> hosts_;
};

}  // namespace

std::string ProgressMessage::str() const {
  if (of > 0) return fmt::format("{} {} of {}", phase, iteration, of);
  return iteration > 0 ? fmt::format("{} step {}", phase, iteration) : phase;
}

std::optional<ProgressMessage> read_progress(std::string_view line) {
  if (!line.starts_with("{\"progress\"")) return std::nullopt;
  const json root = json::parse(line.begin(), line.end(), nullptr, false);
  if (root.is_discarded() || !root.is_object() || !root.at("progress").is_object()) return std::nullopt;
  const json& p = root.at("progress");
  ProgressMessage message;
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto found = p.find(key);
    return found != p.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
  };
  const auto phase = p.find("phase");
  if (phase == p.end() || !phase->is_string()) return std::nullopt;
  message.phase = *phase;
  const auto count = [&](const char* key) -> std::int64_t {
    const double x = number(key).value_or(0);
    return x >= 0 && x < 1e15 ? static_cast<std::int64_t>(x) : 0;  // another program's line may say anything
  };
  message.iteration = count("iteration");
  message.of = count("of");
  message.ms = number("ms");
  message.loss = number("loss");
  return message;
}

std::optional<SoakWindow> read_window(std::string_view line) {
  if (!line.starts_with("{\"window\"")) return std::nullopt;
  try {
    const Soak soak =
        soak_from_json(json(parse_json(line, "standard output").at("window")), "standard output: $.window");
    return soak.windows.size() == 1 ? std::optional(soak.windows.front()) : std::nullopt;
  } catch (const std::exception&) {  // some program prints something like it: it goes to the log
    return std::nullopt;
  }
}

std::optional<ReportedRecord> read_record(std::string_view line) {
  if (!line.starts_with("{\"record\"")) return std::nullopt;
  try {
    const json root(parse_json(line, "standard output"));
    return ReportedRecord{result_from_json(root.at("record"), "standard output: $.record"),
                          root.value("unwritten", "")};
  } catch (const std::exception&) {  // some program prints something like it: it goes to the log
    return std::nullopt;
  }
}

std::optional<ReportedTrace> read_trace(std::string_view line) {
  if (!line.starts_with("{\"trace\"")) return std::nullopt;
  const json root = json::parse(line.begin(), line.end(), nullptr, false);
  if (!root.is_object() || !root.at("trace").is_string()) return std::nullopt;
  return ReportedTrace{root.at("trace").get<std::string>(), root.contains("more")};
}

std::string point_file(const std::string& out, const std::string& id, const std::string& suffix) {
  return (fs::path(out) / "points" / (id + suffix)).string();
}

std::vector<std::string> run_arguments(const PointRun& run, const SpecPoint& p) {
  std::vector<std::string> arguments = {run.program, "run"};
  const bool elsewhere = run.launcher.allocated;
  if (elsewhere)
    arguments.insert(arguments.end(), {point_to_json(as_run(p)).dump(), "--result", "-"});
  else
    arguments.insert(arguments.end(),
                     {point_file(run.out, p.id, ".point.json"), "--result", point_file(run.out, p.id, ".json")});
  arguments.push_back("--progress");
  // The ranks tell that they are alive so often that this is seen in time, and a collective between GPUs that hangs is named by the
  // run itself.
  if (run.timeout_s > 0 || run.collective_timeout_s > 0)
    arguments.insert(arguments.end(), {"--collective-timeout", fmt::format("{:g}", collective_timeout(run))});
  if (run.soak_s > 0) arguments.insert(arguments.end(), {"--soak", fmt::format("{:g}", run.soak_s)});
  if (run.turns) arguments.insert(arguments.end(), {"--take-turns", run.turns->text()});
  if (run.session) arguments.insert(arguments.end(), {"--end-with", run.session->path()});
  if (!run.trace.empty()) arguments.insert(arguments.end(), {"--trace", elsewhere ? "-" : run.trace});
  return arguments;
}

PointEnd run_point(const SpecPoint& p, const PointRun& run) {
  Command command;
  try {
    command = command_for(run.launcher, p.point, run_arguments(run, p));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::launch_failed) throw;
    return {not_run(p.point, Outcome::launch_failed, e.what()), false, {}, {}};
  }
  const std::string result_path = point_file(run.out, p.id, ".json");
  write_file_atomically(point_file(run.out, p.id, ".point.json"), dump_json(point_to_json(as_run(p))));
  std::error_code ignored;
  fs::remove(result_path, ignored);  // of an earlier attempt

  Reported reported(run);
  process::ProcessRequest request;
  request.argv = command.argv;
  request.env = command.env;
  if (run.session) request.env.merge(session_variables(run.session->path(), p.point.env));
  request.log = point_file(run.out, p.id, ".log");
  request.timeout_s = run.timeout_s;
  request.interrupt = run.interrupt;
  request.on_line = [&](std::string_view line) { return reported.take(line); };
  request.on_error_line = [&](std::string_view line) { return reported.take_error(line); };
  request.give_up = [&] { return reported.give_up(); };
  const process::ProcessEnd end = process::run_process(request);
  if (run.session) run.session->clear();
  std::string trouble;
  std::optional<PointResult> result = read_result(result_path, trouble);
  const bool unwritten = !reported.unwritten().empty();
  if (reported.record()) result = reported.record()->result;
  // A batch system tells the ranks to end when it tells this program: what its end makes of them is no crash.
  const bool cut_off =
      end.how == process::ProcessEnd::How::signalled || (end.how == process::ProcessEnd::How::exited && end.code != 0);
  const bool interrupted =
      end.how == process::ProcessEnd::How::interrupted || (cut_off && run.interrupt && run.interrupt->pending());
  if (interrupted && (!result || !is_done(result->outcome))) {
    result = reported.interrupted(p.point);
    if (!result) return {};
  }
  constexpr int kSaidSo = 3;  // how `mbench run` ends after it has said what it could not write
  const bool exited = end.how == process::ProcessEnd::How::exited;
  const bool clean = interrupted || (exited && (end.code == 0 || (unwritten && end.code == kSaidSo)));
  if (!result || (!clean && result->outcome == Outcome::ok)) {
    // A run that wrote "ok" and then failed to end is no success: its other ranks may never have got that
    // far.
    const Failure failure = explain_failure(end, run.launcher, reported.reached(), run.timeout_s, reported.hosts());
    const bool had_result = result.has_value();
    result = not_run(p.point, failure.outcome, failure.reason);
    if (had_result) result->reason += "; its result was written, but it did not end well";
    add_reason(*result, trouble);
    if (reported.reached().empty() &&
        (end.how == process::ProcessEnd::How::exited || end.how == process::ProcessEnd::How::not_started))
      add_reason(*result, early_end(p.point, end.tail.empty() && end.how == process::ProcessEnd::How::exited));
  }
  reported.add_partial(*result);
  if (reported.where() && result->hosts.empty()) {
    result->hosts = reported.where()->hosts;
    result->variables = reported.where()->variables;
  }
  // The run knew the data by where it was found; the row knows it as the spec has it.
  result->point = p.point;
  result->id = p.id;
  add_reason(*result, reported.unwritten());
  add_reason(*result, end.trouble);
  PointEnd done{std::move(result), unwritten, reported.where(), {}};
  if (is_failure(done.result->outcome)) {
    done.lost_hosts =
        end.how == process::ProcessEnd::How::given_up ? reported.watch().lost_hosts() : std::vector<std::string>();
    for (const std::string& line : end.tail)
      if (names_lost_host(line)) done.lost_hosts.push_back(line);
  }
  return done;
}

}  // namespace mbench::sweeps
