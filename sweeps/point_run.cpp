#include "sweeps/point_run.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "engine/base/json_reader.h"
#include "sweeps/failure.h"

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

// What the lines of a run tell: how far it came, and its record where that has no file.
class Told {
 public:
  explicit Told(const PointRun& run) : run_(run) {}

  bool take(std::string_view line) {
    if (const auto message = read_progress(line)) {
      reached_ = message->str();
      constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
      if (message->of > 0) losses_.push_back(message->loss.value_or(unknown));
      if (message->phase == "iteration" && message->ms) ms_.push_back(*message->ms);
      if (run_.on_progress) run_.on_progress(*message);
      return true;
    }
    if (auto hosts = read_told_hosts(line)) {
      hosts_ = std::move(hosts);
      return true;
    }
    auto record = read_unwritten(line);
    if (record) unwritten_ = std::move(record);
    return record.has_value();
  }

  const std::string& reached() const { return reached_; }
  const std::optional<UnwrittenRecord>& unwritten() const { return unwritten_; }
  const std::optional<ToldHosts>& where() const { return hosts_; }
  std::vector<Host> hosts() const { return hosts_ ? hosts_->hosts : std::vector<Host>(); }
  // A point whose record has no samples keeps those that were told.
  void add_partial(PointResult& result) const {
    if (result.iteration_ms || result.outcome == Outcome::ok) return;
    result.partial_ms = ms_;
    result.partial_losses = losses_;
  }

 private:
  const PointRun& run_;
  std::string reached_;
  std::vector<double> ms_, losses_;
  std::optional<UnwrittenRecord> unwritten_;
  std::optional<ToldHosts> hosts_;
};

}  // namespace

std::string ProgressMessage::str() const {
  return of > 0 ? fmt::format("{} {} of {}", phase, iteration, of) : phase;
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
  message.iteration = static_cast<std::int64_t>(number("iteration").value_or(0));
  message.of = static_cast<std::int64_t>(number("of").value_or(0));
  message.ms = number("ms");
  message.loss = number("loss");
  return message;
}

std::optional<UnwrittenRecord> read_unwritten(std::string_view line) {
  if (!line.starts_with("{\"record\"")) return std::nullopt;
  try {
    const json root(parse_json(line, "standard output"));
    return UnwrittenRecord{result_from_json(root.at("record"), "standard output: $.record"),
                           root.at("unwritten").get<std::string>()};
  } catch (const std::exception&) {  // some program prints something like it: it goes to the log
    return std::nullopt;
  }
}

std::string point_file(const std::string& out, const std::string& id, const std::string& suffix) {
  return (fs::path(out) / "points" / (id + suffix)).string();
}

std::vector<std::string> run_arguments(const PointRun& run, const std::string& id) {
  std::vector<std::string> arguments = {run.program,
                                        "run",
                                        point_file(run.out, id, ".point.json"),
                                        "--result",
                                        point_file(run.out, id, ".json"),
                                        "--progress"};
  // A collective that hangs is named by the run itself, if that gives up before it is killed.
  if (run.timeout_s > 0)
    arguments.insert(arguments.end(),
                     {"--collective-timeout", fmt::format("{:g}", std::min(300.0, run.timeout_s / 2))});
  if (run.session) arguments.insert(arguments.end(), {"--end-with", run.session->path()});
  if (!run.trace.empty()) arguments.insert(arguments.end(), {"--trace", run.trace});
  return arguments;
}

PointEnd run_point(const SpecPoint& p, const PointRun& run) {
  Command command;
  try {
    command = command_for(run.launcher, p.point, run_arguments(run, p.id));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::launch_failed) throw;
    return {not_run(p.point, Outcome::launch_failed, e.what()), false, {}};
  }
  Point as_run = p.point;
  as_run.data = p.data;
  const std::string result_path = point_file(run.out, p.id, ".json");
  write_file_atomically(point_file(run.out, p.id, ".point.json"), dump_json(point_to_json(as_run)));
  std::error_code ignored;
  fs::remove(result_path, ignored);  // of an earlier attempt

  Told told(run);
  ProcessRequest request;
  request.argv = command.argv;
  request.env = command.env;
  if (run.session) request.env.merge(session_variables(run.session->path(), p.point.env));
  request.log = point_file(run.out, p.id, ".log");
  request.timeout_s = run.timeout_s;
  request.interrupt = run.interrupt;
  request.on_line = [&](std::string_view line) { return told.take(line); };
  const ProcessEnd end = run_process(request);
  if (run.session) run.session->clear();
  std::string trouble;
  std::optional<PointResult> result = read_result(result_path, trouble);
  const bool unwritten = told.unwritten().has_value();
  if (unwritten) result = told.unwritten()->result;
  const bool interrupted = end.how == ProcessEnd::How::interrupted;
  if (interrupted && (!result || !is_done(result->outcome))) return {};
  constexpr int kSaidSo = 3;  // how `mbench run` ends after it has said what it could not write
  const bool exited = end.how == ProcessEnd::How::exited;
  const bool clean = interrupted || (exited && (end.code == 0 || (unwritten && end.code == kSaidSo)));
  if (!result || (!clean && result->outcome == Outcome::ok)) {
    // A run that wrote "ok" and then failed to end is no success: its other ranks may never have got that
    // far.
    const Failure failure = explain_failure(end, run.launcher, told.reached(), run.timeout_s, told.hosts());
    const bool had_result = result.has_value();
    result = not_run(p.point, failure.outcome, failure.reason);
    if (had_result) result->reason += "; its result was written, but it did not end well";
    add_reason(*result, trouble);
  }
  told.add_partial(*result);
  if (told.where() && result->hosts.empty()) {
    result->hosts = told.where()->hosts;
    result->variables = told.where()->variables;
  }
  // The run knew the data by where it was found; the row knows it as the spec has it.
  result->point = p.point;
  result->id = p.id;
  if (unwritten) add_reason(*result, told.unwritten()->why);
  add_reason(*result, end.trouble);
  return {std::move(result), unwritten, told.where()};
}

}  // namespace mbench::sweeps
