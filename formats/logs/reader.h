// Reads a log by one trainer's table, line by line: ranks that write at the same time, records glued into one line, restarts.
#pragma once
#include <map>

#include "formats/logs/lines.h"
#include "formats/logs/log.h"
#include "formats/logs/table.h"

namespace mbench::formats {

// At most so many steps are read: a row of a result holds each.
inline constexpr std::size_t kMostSteps = 1'000'000;
inline constexpr std::size_t kMostArguments = 10'000;

class LogReader {
 public:
  explicit LogReader(const LogTable& table) : table_(table) {}
  void read(const Line& line);
  bool knows() const { return !log_.steps.empty(); }
  Log take();

 private:
  struct Record {
    std::map<Figure, double> figures;
    Pace unit = Pace::none;
  };
  bool read_figures(const LogRow& row, std::string_view text, bool whole, Record& record) const;
  void read_records(const LogRow& row, const Line& line);
  void add_step(const Record& record, int rank);
  void add_memory(const Record& record, int rank);
  void add_argument(std::string_view text);
  void start_again(std::int64_t step, int rank);

  const LogTable& table_;
  Log log_;
  std::map<int, std::int64_t> last_;  // the last step that each rank said
  Aside pending_ = Aside::none;  // what came since the last step, of any rank: one may save and another print steps
  bool restarted_ = false;
  std::size_t cut_ = 0, restarts_ = 0;
};

}  // namespace mbench::formats
