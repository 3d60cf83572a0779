#include "sweeps/launch/host_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench::sweeps {
namespace {

// Removed with its last owner.
std::shared_ptr<const std::string> temporary_file(const std::string& text) {
  std::string path = (std::filesystem::temp_directory_path() / "mbench-hosts-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file < 0) fail(ErrorKind::launch_failed, "--hostfile", "{} cannot be made: {}", path, std::strerror(errno));
  const std::shared_ptr<const std::string> kept(new std::string(path), [](const std::string* name) {
    ::unlink(name->c_str());
    delete name;
  });
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(file) != 0 || !written)
    fail(ErrorKind::launch_failed, "--hostfile", "{} cannot be written: {}", path, std::strerror(errno));
  return kept;
}

}  // namespace

std::string host_lines(const std::vector<NodeSlots>& hosts, MpiFlavour flavour) {
  std::string lines;
  for (const NodeSlots& host : hosts) {
    lines += host.name;
    if (host.slots > 0) lines += (flavour == MpiFlavour::mpich ? ":" : " slots=") + std::to_string(host.slots);
    lines += '\n';
  }
  return lines;
}

bool reads_host_lines(std::string_view text, MpiFlavour flavour) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::size_t name = std::min(line.find_first_of(" \t\r"), line.size());
    const bool colon = line.substr(0, name).find(':') != std::string_view::npos;
    const bool more = line.find_first_not_of(" \t\r", name) != std::string_view::npos;
    const bool open_mpi = line.find('=', name) != std::string_view::npos;
    if (flavour == MpiFlavour::open_mpi ? colon || (more && !open_mpi) : more) return false;
  }
  return true;
}

void put_hosts_in_own_words(Launcher& launcher) {
  if (launcher.hostfile.empty()) return;
  const std::string text = read_text_file(launcher.hostfile);
  if (reads_host_lines(text, launcher.flavour)) return;
  launcher.own_hostfile = temporary_file(host_lines(read_hostfile(text, launcher.hostfile), launcher.flavour));
  launcher.hostfile = *launcher.own_hostfile;
}

}  // namespace mbench::sweeps
