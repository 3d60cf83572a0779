// The table of faults, at moments that nobody chose: disks that fill up and processes that are killed while points of two ranks run.
// What was finished before is in the resumed sweep, sample for sample.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <random>

#include "engine/point/result.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/faults.h"
#include "test/cli/long_sweep.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

constexpr int kPoints = 6;

// A sweep of short points of two ranks, and shell functions around it.
struct Sweep : LongSweep {
  Sweep() {
    std::string seeds;
    for (int i = 0; i < kPoints; ++i) seeds += fmt::format("{}{}", i ? ", " : "", i);
    put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "tp": 2, "warmup": 0, "iterations": 30,
                      "env": {"OMP_NUM_THREADS": 1}, "sweep": {"seed": [)" +
                      seeds + "]}}");
    put("rounds.sh", R"SH(
finished() { grep -ls '"outcome": "ok"' o/points/*.json | wc -l; }
alive() { kill -0 $sweep 2>/dev/null; }
start() {
  before=$(finished)
  $M sweep s.json --launcher mpirun --out o --resume --quiet >said 2>&1 &
  sweep=$!
}
hit() {  # seconds after there is a rank, whom, signal
  until [ -n "$(ranks)" ] || ! alive; do sleep 0.05; done
  sleep $1
  case $2 in
    rank*) victim=$(ranks ${2#rank} | head -1) ;;
    mpirun) victim=$(mpirun) ;;
    sweep) victim=$sweep ;;
  esac
  [ -n "$victim" ] && kill -$3 $victim 2>/dev/null && echo "met: $2 -$3"
}
until_more() {  # until a point is finished that was not before
  until [ $(finished) -gt $before ] || ! alive; do sleep 0.05; done
}
)SH");
    fs::create_directories(*this / "o");
  }
  Run rounds(const std::string& lines) const { return shell(". ./functions.sh; . ./rounds.sh\n" + lines, 240); }
};

// The samples of every finished point of a sweep's folder, by id: of rows, and of results that no row has yet.
std::map<std::string, std::vector<double>> finished_in(const fs::path& out) {
  std::map<std::string, std::vector<double>> samples;
  const auto add = [&](const PointResult& r) {
    if (r.outcome == Outcome::ok) samples[r.id] = r.iteration_ms.value().samples;
  };
  // A file that is there is whole: it was renamed into its place.
  if (fs::exists(out / "results.json"))
    for (const PointResult& row : read_result_file((out / "results.json").string()).points) add(row);
  if (!fs::exists(out / "points")) return samples;
  for (const auto& entry : fs::directory_iterator(out / "points")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json") || name.ends_with(".point.json")) continue;
    PointResult r = result_from_json(nlohmann::json(parse_json(read_text_file(entry.path().string()), name)), name);
    r.id = entry.path().stem().string();  // a run does not know the id that the sweep gave it
    add(r);
  }
  return samples;
}

// What each of these folders had finished is in the last one as it was.
void check_kept(const Sweep& room, int rounds) {
  const auto last = finished_in(room / "o");
  CHECK(last.size() == kPoints);
  std::size_t most = 0;
  for (int i = 0; i < rounds; ++i) {
    INFO("after fault " << i);
    const auto before = finished_in(room / fmt::format("after-{}", i));
    most = std::max(most, before.size());
    for (const auto& [id, samples] : before) {
      INFO(id);
      REQUIRE(last.contains(id));
      CHECK(last.at(id) == samples);
    }
  }
  CHECK(most > 0);  // else nothing could have been lost
  CHECK(live_descendants(0).empty());
}

}  // namespace

TEST_CASE("faults: kills of ranks, launcher and sweep at random moments lose nothing that was finished") {
  const unsigned seed = seed_of_draws();
  INFO("--rng-seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<>(low, high)(random); };
  const auto one_of = [&](std::initializer_list<const char*> words) {
    return *(words.begin() + random() % words.size());
  };
  // Each round: a rank or the launcher dies, which the sweep survives; another point is finished; the sweep itself dies.
  constexpr int kRounds = 3;
  std::string lines;
  for (int i = 0; i < kRounds; ++i)
    lines += fmt::format(
        "start; hit {:.2f} {} {}; until_more; hit {:.2f} sweep {}; wait $sweep; until_no_rank; cat said; cp -r o "
        "after-{}\n",
        draw(0, 0.8), one_of({"rank0", "rank1", "mpirun"}), one_of({"KILL", "TERM", "SEGV"}), draw(0, 0.8),
        one_of({"KILL", "TERM", "INT"}), i);
  const Sweep room;
  const Run run = room.rounds(lines + "start; wait $sweep; echo end $?; cat said");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("end 0\n") && !Contains("ranks left"));
  CHECK_THAT(run.out, Contains("met: sweep"));
  check_kept(room, kRounds);
}

TEST_CASE("faults: a disk that fills up at random moments loses nothing that was finished") {
  const unsigned seed = seed_of_draws();
  INFO("--rng-seed " << seed);
  std::mt19937 random(seed + 1);
  const Sweep room;
  if (!can_mount(room)) return;
  constexpr int kRounds = 3;
  std::string lines = "mount -t tmpfs -o size=4m none o || exit 9\n";
  for (int i = 0; i < kRounds; ++i)
    // All that is free but for some KiB, of which a point needs about ten and results.json more with every row.
    lines += fmt::format(
        "start; until_more; sleep {:.2f}; cat /dev/zero >o/filler 2>/dev/null; truncate -s -{}K o/filler\n"
        "wait $sweep; echo code $?; cat said; rm o/filler; cp -r o after-{}\n",
        std::uniform_real_distribution<>(0, 1)(random), random() % 48, i);
  room.put("faults.sh",
           ". ./functions.sh; . ./rounds.sh\n" + lines + "start; wait $sweep; echo end $?; cat said; cp -r o last\n");
  const Run run = room.rounds("unshare -m sh faults.sh; rmdir o; mv last o");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("end 0\n") && Contains("code 3\n"));
  check_kept(room, kRounds);
}
