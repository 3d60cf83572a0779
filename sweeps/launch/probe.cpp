#include "sweeps/launch/probe.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/process/process.h"
#include "sweeps/run/failure.h"

namespace mbench::sweeps {

std::optional<ReportedHosts> read_reported_hosts(std::string_view line) {
  if (!line.starts_with("{\"hosts\"")) return std::nullopt;
  try {
    const nlohmann::ordered_json root = parse_json(line, "standard output");
    ReportedHosts reported;
    reported.hosts = hosts_from_json(nlohmann::json(root.at("hosts")), "standard output: $.hosts");
    reported.variables = root.at("variables").get<std::map<std::string, std::string>>();
    reported.environment = root.at("environment");
    if (!reported.environment.is_object()) return std::nullopt;
    return reported;
  } catch (const std::exception&) {  // some program prints something like it: it goes to the log
    return std::nullopt;
  }
}

ReportedHosts probe_hosts(const Launcher& launcher, const std::string& program, const std::string& device,
                          double patience_s) {
  const Command command = command_on_nodes(launcher, {program, "hosts", "--json", "--on", device});
  std::optional<ReportedHosts> reported;
  process::ProcessRequest request;
  request.argv = command.argv;
  request.env = command.env;
  request.timeout_s = patience_s;
  request.on_line = [&](std::string_view line) {
    auto hosts = read_reported_hosts(line);
    const bool taken = hosts.has_value();
    if (taken) reported = std::move(hosts);
    return taken;
  };
  const process::ProcessEnd end = process::run_process(request);
  if (reported && end.how == process::ProcessEnd::How::exited && end.code == 0) {
    std::size_t ranks = 0;
    for (const Host& host : reported->hosts) ranks += host.ranks.size();
    if (ranks == static_cast<std::size_t>(launcher.nodes)) return *reported;
    fail(ErrorKind::launch_failed, launcher.program,
         "starts jobs of {} rank{}, need one of {}: it is another MPI's, or speaks another PMI than this program; got "
         "it from: {}",
         ranks, ranks == 1 ? "" : "s", launcher.nodes, shell_text(command));
  }
  const Failure failure = explain_failure(end, launcher, "", patience_s);
  fail(ErrorKind::launch_failed, launcher.program, "cannot start one rank on each of {} node{}: {}; got it from: {}",
       launcher.nodes, launcher.nodes == 1 ? "" : "s", failure.reason, shell_text(command));
}

Launcher on_hosts(Launcher launcher, const std::vector<Host>& hosts) {
  if (hosts.empty()) return launcher;
  const auto least = [&](const auto& of) {
    return of(
        *std::min_element(hosts.begin(), hosts.end(), [&](const Host& a, const Host& b) { return of(a) < of(b); }));
  };
  launcher.nodes = static_cast<int>(hosts.size());
  launcher.cores = static_cast<int>(std::max<std::int64_t>(1, least([](const Host& h) { return h.cores; })));
  launcher.gpus = static_cast<int>(least([](const Host& h) { return h.gpus.size(); }));
  launcher.memory_bytes = least([](const Host& h) { return h.memory_bytes; });
  return launcher;
}

}  // namespace mbench::sweeps
