// Several programs in one folder of baselines at once, as CI jobs are.
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "engine/base/error.h"
#include "reports/baselines/baseline_store.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;

namespace {

ResultFile result_of(const std::string& revision) {
  ResultFile file = sample::strategies();
  file.environment["started"] = "2026-01-02T03:04:05Z";
  file.environment["git_revision"] = revision;
  return file;
}

}  // namespace

TEST_CASE("ten that add at once keep ten entries of each point") {
  const test::TemporaryFolder folder;
  const std::string place = folder / "baselines";  // made by the first of them
  std::vector<pid_t> children;
  for (int i = 0; i < 10; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int code = 1;
    try {
      add_baselines(place, result_of(std::to_string(i)), {});
      code = 0;
    } catch (const Error& e) {
      fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(code);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  const std::vector<StoredBaseline> stored = read_baselines(place);
  REQUIRE(stored.size() == 19);
  for (const StoredBaseline& s : stored) CHECK(s.file.history.size() == 10);
}

TEST_CASE("removing takes entries out of the file as it stands, not as it was when it was listed") {
  const test::TemporaryFolder folder;
  const std::string place = folder.path.string();
  add_baselines(place, result_of("old"), {});
  const std::vector<StoredBaseline> listed = read_baselines(place);
  add_baselines(place, result_of("new"), {});
  const auto of_old = [](const BaselineEntry& entry) { return entry.revision == "old"; };
  CHECK(remove_entries(listed, of_old) == 19);
  for (const StoredBaseline& s : read_baselines(place)) {
    REQUIRE(s.file.history.size() == 1);
    CHECK(s.file.newest().revision == "new");
  }
  const std::vector<StoredBaseline> all = read_baselines(place);
  CHECK(remove_entries(all, [](const BaselineEntry&) { return true; }) == 19);
  CHECK(remove_entries(all, [](const BaselineEntry&) { return true; }) == 0);  // they are gone already
}
