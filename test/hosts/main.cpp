// Tests on three hosts that this program makes of namespaces: it starts itself again in namespaces of its own for network, mounts and
// processes, in which it may do as it likes, and all that it has made goes with it. Exit code 77 where it may not make them.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {

constexpr int kSkipped = 77;
constexpr const char* kInside = "MBENCH_TEST_HOSTS";

const std::string kNamespaces = std::string("unshare ") + (::geteuid() == 0 ? "" : "--user --map-root-user ") +
                                "--mount --net --pid --fork --kill-child --mount-proc ";

// Why there can be no hosts here; empty if there can.
std::string why_not() {
  for (const char* tool : {"bash", "ip", "mpirun", "nsenter", "timeout", "unshare"})
    if (std::system(fmt::format("command -v {} >/dev/null", tool).c_str()) != 0)
      return fmt::format("there is no {}", tool);
  const std::string attempt = kNamespaces +
                              "sh -c 'ip link add test0 type veth peer name test1 && ip link add test2 type bridge && "
                              "unshare --net --uts --mount true' 2>/dev/null";
  return std::system(attempt.c_str()) == 0 ? "" : "this machine lets nobody make namespaces, virtual links or bridges";
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv(kInside)) return Catch::Session().run(argc, argv);
  if (const std::string why = why_not(); !why.empty()) {
    fmt::print("skipped: {}\n", why);
    return kSkipped;
  }
  ::setenv(kInside, "1", 1);
  std::vector<std::string> words = {"/bin/sh", "-c", "exec " + kNamespaces + "\"$@\"", "sh"};
  words.insert(words.end(), argv, argv + argc);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  fmt::print(stderr, "{} cannot be started\n", words[0]);
  return 1;
}
