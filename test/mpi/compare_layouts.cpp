#include "test/mpi/compare_layouts.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>

#include "test/mpi/layout_run.h"
#include "test/mpi/memory_forecast.h"
#include "test/support/machine_for.h"

namespace mbench::test {
namespace {

// Ends the job where ranks wait for each other for ever, and says in which layout.
class Watch {
 public:
  explicit Watch(std::string layout) {
    text() = "[test_mpi] still not done after 300 s: " + std::move(layout) + "\n";
    std::signal(SIGALRM, [](int) {
      if (::write(STDERR_FILENO, text().data(), text().size()) >= 0) ::_exit(1);
    });
    ::alarm(300);
  }
  ~Watch() { ::alarm(0); }

 private:
  static std::string& text() {
    static std::string kept;
    return kept;
  }
};

// Serial runs, which many layouts share, and forecasts: each is made by one rank while the others make theirs.
class Expectations {
 public:
  Expectations(const std::vector<Layout>& layouts, const Comparison& comparison) {
    for (const Layout& layout : layouts) {
      const Point point = serial_point_of(layout);
      const auto [at, fresh] = numbers_.try_emplace(point_id(point), serial_.size());
      if (fresh) serial_.emplace_back(), points_.push_back(point);
      of_layout_.push_back(at->second);
    }
    for (std::size_t i = rank_; i < serial_.size(); i += kRanks) try {
        serial_[i] = train_alone(points_[i]);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "[test_mpi] serial run of %s: %s\n", point_id(points_[i]).c_str(), e.what());
      }
    for (std::size_t i = rank_; i < layouts.size(); i += kRanks) try {
        const Point& point = layouts[i].point;
        if (!sizes_follow_data(point))
          forecasts_[i] = forecast_layout(point, machine_for(point, machine_), comparison.framework(i, point));
      } catch (const std::exception& e) {
        failed_[i] = e.what();
      }
    meet_asleep();
    for (std::size_t i = 0; i < serial_.size(); ++i)
      MPI_Bcast(&serial_[i], sizeof serial_[i], MPI_BYTE, static_cast<int>(i % kRanks), MPI_COMM_WORLD);
  }

  // The differences of a layout that this rank looks at.
  std::string wrong(std::size_t i, const Layout& layout, const Trained& mine, const Comparison& comparison) const {
    if (i % kRanks != rank_) return "";
    const Trained& serial = serial_[of_layout_[i]];
    if (serial.steps == 0) return "\n  no serial run";
    std::string wrong = comparison.training(layout, serial, mine);
    if (const auto failed = failed_.find(i); failed != failed_.end()) return wrong + "\n  simulated: " + failed->second;
    const auto found = forecasts_.find(i);
    if (found == forecasts_.end()) return wrong;
    wrong += wrong_memory(found->second, mine);
    return comparison.sent ? wrong + wrong_sent(found->second, mine) : wrong;
  }

 private:
  std::size_t rank_ = static_cast<std::size_t>(rank_of_job());
  sim::Machine machine_ = sim::find_machine("H100-SXM5-80GB", "test");
  std::map<std::string, std::size_t> numbers_;
  std::vector<Trained> serial_;
  std::vector<Point> points_;
  std::vector<std::size_t> of_layout_;
  std::map<std::size_t, LayoutForecast> forecasts_;
  std::map<std::size_t, std::string> failed_;
};

}  // namespace

std::string joined(const std::string& mine) {
  int length = static_cast<int>(mine.size()), size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> lengths(static_cast<std::size_t>(size)), starts(static_cast<std::size_t>(size));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] = starts[i - 1] + lengths[i - 1];
  std::string all(first_rank() ? static_cast<std::size_t>(starts.back() + lengths.back()) : 0, ' ');
  MPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  return all;
}

std::string wrong_layouts(const std::vector<Layout>& layouts, const Comparison& comparison) {
  const Expectations expectations(layouts, comparison);
  const bool first = first_rank();
  std::string wrong;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    Trained mine;
    std::optional<Trained> again;
    try {
      const Watch watch(fmt::format("layout {}: {}", i, layouts[i].name));
      mine = train_together(layouts[i].point);
      if (comparison.again(layouts[i])) again = train_together(layouts[i].point);
    } catch (const std::exception& e) {  // the other ranks wait for this one
      std::fprintf(stderr, "[test_mpi] a rank left layout %zu: %s\n  %s\n", i, layouts[i].name.c_str(), e.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::string what = expectations.wrong(i, layouts[i], mine, comparison);
    if (again && first && (again->losses != mine.losses || again->norms != mine.norms))
      what += "\n  not the same bits in a second run";
    if (!what.empty()) wrong += fmt::format("layout {}: {}{}\n", i, describe(layouts[i]), what);
  }
  return joined(wrong);
}

}  // namespace mbench::test
