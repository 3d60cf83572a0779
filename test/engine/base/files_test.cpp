// Paths tried before work begins, and folders that one program has at a time.
#include <filesystem>
#include <fstream>

#include "engine/base/atomic_file.h"
#include "engine/base/error.h"
#include "engine/base/folder_lock.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("a path that cannot be written is known beforehand, and trying leaves nothing") {
  const test::TemporaryFolder folder;
  const auto why = [](const std::string& path) -> std::string {
    try {
      check_writable(path);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  CHECK(why(folder / "new.json").empty());
  std::ofstream(folder / "old.json") << "kept";
  CHECK(why(folder / "old.json").empty());
  CHECK(fs::file_size(folder / "old.json") == 4);
  CHECK_THAT(why(folder / "none/x.json"), Contains("cannot be written: No such file or directory, need a folder"));
  CHECK_THAT(why(folder.path.string()), Contains("not a plain file"));
  CHECK_THAT(why("/dev/full"), Contains("not a plain file"));
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("a folder is locked for one at a time, and leaves no file behind") {
  const test::TemporaryFolder folder;
  {
    std::optional<FolderLock> mine = FolderLock::try_for(folder.path.string());
    REQUIRE(mine);
    CHECK_FALSE(FolderLock::try_for(folder.path.string()));
    const FolderLock moved = std::move(*mine);
    mine.reset();
    CHECK_FALSE(FolderLock::try_for(folder.path.string()));
  }
  const FolderLock again = FolderLock::wait_for(folder.path.string());
  CHECK(fs::is_empty(folder.path));
  CHECK_THROWS_AS(FolderLock::try_for(folder / "none"), Error);
}
