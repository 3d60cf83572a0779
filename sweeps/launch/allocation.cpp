#include "sweeps/launch/allocation.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench::sweeps {
namespace {

// Batch systems and launchers that place ranks by what only they read.
constexpr const char* kOthers[] = {"PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
                                   "HYDRA_HOST_FILE", "LSB_HOSTS"};

int number_of(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? n : -1;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

Allocation of_hosts(std::string source, const std::vector<NodeSlots>& hosts) {
  Allocation a;
  a.source = std::move(source);
  a.nodes = std::max(1, static_cast<int>(hosts.size()));
  for (const NodeSlots& host : hosts)
    a.ranks_per_node = a.ranks_per_node == 0 ? host.slots : std::min(a.ranks_per_node, host.slots);
  return a;
}

// Open MPI reads "slots = 4" as "slots=4".
std::string without_spaces_at_equals(std::string_view line) {
  std::string text;
  bool after_equals = false;
  for (const char c : line) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    if (c == '=') text.resize(text.find_last_not_of(" \t") + 1);
    if (space && after_equals) continue;
    text += c;
    after_equals = c == '=';
  }
  return text;
}

// Words behind a host: Open MPI's, and Hydra's.
constexpr std::string_view kKeys[] = {"slots", "max_slots", "max-slots", "username",
                                      "user",  "user_name", "binding",   "ifname"};

// A name, or an address.
bool names_host(std::string_view name) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':'; };
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), is_part);
}

}  // namespace

std::vector<NodeSlots> read_hostfile(std::string_view text, const std::string& where) {
  std::vector<NodeSlots> hosts;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    line = line.substr(0, line.find('#'));
    const std::string joined = without_spaces_at_equals(line);
    const auto words = words_of(joined);
    if (words.empty()) continue;
    std::string_view name = words[0];
    int slots = 0;
    bool has_room = true;
    // MPICH; an IPv6 address has several colons.
    if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos && name.find(':') == colon) {
      slots = number_of(name.substr(colon + 1));
      has_room = slots != 0;
      name = name.substr(0, colon);
    }
    const bool grid_engine = words.size() > 1 && number_of(words[1]) > 0;  // "h1 4 all.q@h1 UNDEFINED"
    if (grid_engine) slots = number_of(words[1]);
    bool known_words = true;
    for (std::size_t i = 1; i < words.size() && !grid_engine; ++i) {
      const std::string_view key = words[i].substr(0, words[i].find('='));
      known_words = known_words && key.size() < words[i].size() &&
                    std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
      if (key == "slots" && known_words) slots = number_of(words[i].substr(6)), has_room = slots != 0;
    }
    if (!names_host(name) || slots < 0 || !known_words)
      fail(ErrorKind::bad_input, where,
           "line {} names no host, got \"{}\", need \"HOST slots=N\", \"HOST:N\" or \"HOST\"", number, line);
    if (!has_room)
      fail(ErrorKind::bad_input, where, "line {} leaves no room for a rank, got \"{}\", need slots of 1 or more",
           number, line);
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const NodeSlots& h) { return h.name == name; });
    if (known == hosts.end())
      hosts.push_back({std::string(name), slots});
    else
      known->slots = std::max(1, known->slots) + std::max(1, slots);
  }
  return hosts;
}

std::vector<int> read_tasks_per_node(std::string_view text) {
  std::vector<int> nodes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    int times = 1;
    if (const std::size_t x = part.find("(x"); x != std::string_view::npos && part.ends_with(')')) {
      times = number_of(part.substr(x + 2, part.size() - x - 3));
      part = part.substr(0, x);
    }
    const int tasks = number_of(part);
    if (tasks < 1 || times < 1 || times > 1 << 20) return {};
    nodes.insert(nodes.end(), static_cast<std::size_t>(times), tasks);
  }
  return nodes;
}

Allocation find_allocation(const std::string& hostfile, const std::function<const char*(const char*)>& get) {
  const auto text = [&](const char* name) {
    const char* value = get(name);
    return std::string(value ? value : "");
  };
  if (!hostfile.empty()) {
    const std::vector<NodeSlots> hosts = read_hostfile(read_text_file(hostfile), hostfile);
    if (hosts.empty()) fail(ErrorKind::bad_input, hostfile, "names no host, need \"HOST slots=N\" for each");
    Allocation a = of_hosts("the host file " + hostfile, hosts);
    a.hostfile = hostfile;
    return a;
  }
  if (const std::string nodes = text("SLURM_JOB_NUM_NODES"); !nodes.empty() || !text("SLURM_JOB_ID").empty()) {
    Allocation a;
    a.source = "Slurm";
    a.nodes = std::max(1, number_of(nodes));
    const std::vector<int> tasks = read_tasks_per_node(text("SLURM_TASKS_PER_NODE"));
    if (!tasks.empty()) a.ranks_per_node = *std::min_element(tasks.begin(), tasks.end());
    return a;
  }
  for (const auto& [variable, system] : {std::pair{"PBS_NODEFILE", "PBS"}, {"LSB_DJOB_HOSTFILE", "LSF"}}) {
    const std::string file = text(variable);
    if (file.empty()) continue;
    std::vector<NodeSlots> hosts = read_hostfile(read_text_file(file), fmt::format("{} {}", variable, file));
    for (NodeSlots& host : hosts) host.slots = std::max(1, host.slots);  // a batch system writes a line for each rank
    Allocation a = of_hosts(system, hosts);
    a.hostfile = file;
    return a;
  }
  for (const char* variable : kOthers) {
    const std::string value = text(variable);
    if (value.empty()) continue;
    if (variable == std::string_view("LSB_HOSTS")) {  // the hosts themselves, one for each rank
      std::string lines = value;
      std::replace(lines.begin(), lines.end(), ' ', '\n');
      return of_hosts("LSF", read_hostfile(lines, variable));
    }
    return of_hosts(fmt::format("{} {}", variable, value),
                    read_hostfile(read_text_file(value), fmt::format("{} {}", variable, value)));
  }
  return {};
}

}  // namespace mbench::sweeps
