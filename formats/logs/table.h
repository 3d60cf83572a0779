// A trainer's log as a table: the words that identify its lines, and the words before their figures. There is one JSON file each
// (formats/logs/trainers/*.json), so a trainer whose log has lines needs only a file.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/logs/log.h"

namespace mbench::formats {

enum class LineKind { step, memory, settings, argument, device, evaluation, checkpoint };

enum class Figure { step, pace, loss, gradient_norm, global_batch, world, rank, max_allocated, max_reserved };
struct NamedFigure {
  std::string label;  // "elapsed time per iteration (ms):"
  Figure figure;
  double scale = 1;  // to ms, samples/s, tokens/s or MiB
  Pace pace = Pace::none;
};

struct LogRow {
  LineKind kind = LineKind::step;
  std::string has, unless;  // what such a line has, and has not
  std::string begins;       // the label at which a record of it begins: two ranks may have written into one line
  std::string from, to;     // of a device's name: between these
  std::vector<NamedFigure> figures;
};

struct LogTable {
  std::string program, source;
  bool each_step = false;  // a time is of one step, not the mean since the one before
  std::vector<LogRow> rows;
};

// The built-in tables. The first one that knows a log's steps is taken.
const std::vector<LogTable>& log_tables();

// The number behind a label in `text`; false where there is none, or where the line is cut within it.
bool number_behind(std::string_view text, std::string_view label, bool whole, double& number);

}  // namespace mbench::formats
