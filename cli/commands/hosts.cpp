// mbench hosts: where the ranks of an MPI job are. A sweep starts it first where its ranks may be on other hosts.
#include "cli/commands/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <numeric>
#include <string_view>

#include "cli/cli.h"
#include "cli/environment.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/comm/gather.h"
#include "sweeps/launch/launcher.h"

namespace mbench::cli {
namespace {

constexpr const char* kHostsHelp =
    "Prints the hosts of this MPI job, their hardware and the ranks on each, and what of them is not alike:\n"
    "  mpirun -np 8 mbench hosts   or   srun -N 2 mbench hosts";

std::map<std::string, std::string> recorded_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && sweeps::is_forwarded(text.substr(0, equals)))
      variables[std::string(text.substr(0, equals))] = printable(text.substr(equals + 1));
  }
  return variables;
}

// This rank's host, as this rank sees it.
Host this_host(const std::string& device) {
  const nlohmann::ordered_json e = describe_environment(device);
  const auto text = [&](const char* key) {
    return e.contains(key) && e.at(key).is_string() ? e.at(key).get<std::string>() : "";
  };
  Host host;
  host.name = text("host");
  host.cpu = text("cpu");
  host.cores = e.at("cores").get<std::int64_t>();
  host.memory_bytes = e.at("memory_bytes").get<std::uint64_t>();
  host.mpi = text("mpi");
  host.revision = text("git_revision");
  host.driver = text("driver");
  if (device == "cuda")
    for (const Gpu& gpu : platform::gpus()) host.gpus.push_back(fmt::format("{} at {}", gpu.name, gpu.pci));
  host.variables = recorded_variables();
  return host;
}

void print_table(const JobHosts& all) {
  for (const Host& h : all.hosts) {
    fmt::print("{}: {}, {} cores, {} memory\n  ranks {}\n", h.name, h.cpu, h.cores, format_bytes(h.memory_bytes),
               fmt::join(h.ranks, " "));
    for (const std::string& gpu : h.gpus) fmt::print("  {}\n", gpu);
    for (const auto& [name, value] : h.variables) fmt::print("  {}={}\n", name, value);
  }
  for (const std::string& line : differences_of(all.hosts)) fmt::print("not alike: {}\n", line);
}

struct HostsOptions {
  std::string device;
  bool json = false;
};

void run(HostsOptions options) {
  const auto job = platform::join_job(300);
  if (options.device.empty()) options.device = platform::gpus().empty() ? "cpu" : "cuda";
  const JobHosts all = gather_hosts(*job, options.device);
  if (job->world().rank() != 0) return;
  if (options.json)
    fmt::print("{}\n",
               reported_hosts(all, options.device).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_table(all);
}

}  // namespace

JobHosts gather_hosts(platform::Job& job, const std::string& device) {
  const auto cpu = platform::open_device("cpu", 0);
  std::vector<int> everyone(static_cast<std::size_t>(job.world().size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto group = job.world().group(*cpu, "hosts of ranks", everyone);
  const Host mine = this_host(device);
  JobHosts all;
  all.variables = mine.variables;
  std::vector<Host> by_rank;
  for (const std::string& text : comm::gather_text(
           *group, hosts_to_json({mine}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 0))
    by_rank.push_back(hosts_from_json(nlohmann::json(parse_json(text, "a rank's host")), "a rank's host: $").at(0));
  all.hosts = merge_hosts(by_rank);
  return all;
}

nlohmann::ordered_json reported_hosts(const JobHosts& all, const std::string& device) {
  return {
      {"hosts", hosts_to_json(all.hosts)}, {"variables", all.variables}, {"environment", describe_environment(device)}};
}

void check_ranks_per_node(const std::vector<Host>& hosts, std::int64_t asked) {
  if (asked == 0) return;
  for (const Host& host : hosts)
    if (static_cast<std::int64_t>(host.ranks.size()) != asked)
      fail(ErrorKind::launch_failed, "ranks_per_node",
           "{} has {} ranks, need {}: the launcher has placed them otherwise", host.name, host.ranks.size(), asked);
}

void add_hosts(CLI::App& app, Exit&) {
  auto options = std::make_shared<HostsOptions>();
  CLI::App* command = app.add_subcommand("hosts", kHostsHelp);
  command
      ->add_option("--on", options->device,
                   "cpu or cuda: the devices that are listed; default cuda where there is a GPU")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_flag("--json", options->json, "A line of JSON, for a program that reads it");
  command->callback([options] { run(*options); });
}

}  // namespace mbench::cli
