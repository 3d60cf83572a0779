#include "formats/logs/read_log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "engine/base/json_reader.h"
#include "formats/logs/mlperf.h"
#include "formats/logs/reader.h"
#include "formats/logs/trainer_state.h"
#include "formats/megatron/logged_arguments.h"
#include "formats/megatron/megatron.h"

namespace mbench::formats {
namespace {

constexpr int kGzip = 0x1f;  // the first byte of such a file

// Of a file that is one JSON object rather than lines: all of it, where it is small enough to be one.
std::string rest_of(std::istream& in, const std::string& file) {
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostFileBytes)
      fail(ErrorKind::bad_input, file, "has more than {} bytes and begins as JSON, need the lines of a log",
           kMostFileBytes);
  }
  return text;
}

void check_program(const std::string& program) {
  const std::vector<std::string> names = log_programs();
  if (!program.empty() && std::find(names.begin(), names.end(), program) == names.end())
    fail(ErrorKind::bad_input, "--trainer", "no such trainer's log is known, got \"{}\", {}", program,
         nearest_choice(program, names));
}

}  // namespace

std::vector<std::string> log_programs() {
  std::vector<std::string> names;
  for (const LogTable& table : log_tables()) names.push_back(table.program);
  names.insert(names.end(), {"mlperf", "transformers"});
  return names;
}

Log read_log(std::istream& in, const std::string& file, const std::string& program) {
  check_program(program);
  if (in.peek() == kGzip)
    fail(ErrorKind::bad_input, file, "is compressed by gzip, need its lines: zcat {} | mbench ... -", file);
  if (in.peek() == '{' && (program.empty() || program == "transformers")) {
    const std::string text = rest_of(in, file);
    if (!is_trainer_state(text))
      fail(ErrorKind::bad_input, file,
           "is JSON without a log_history, need the log of a trainer or the trainer_state.json of transformers");
    Log log = read_trainer_state(parse_json(text, file), file);
    if (log.steps.empty()) fail(ErrorKind::bad_input, file, "has no steps");
    return log;
  }
  std::vector<LogReader> readers;
  for (const LogTable& table : log_tables())
    if (program.empty() || table.program == program) readers.emplace_back(table);
  MlperfReader mlperf;
  Lines lines(in);
  for (Line line; lines.next(line);) {
    for (LogReader& reader : readers) reader.read(line);
    if (program.empty() || program == "mlperf") mlperf.read(line);
  }
  for (LogReader& reader : readers)
    if (reader.knows()) return reader.take();
  if (mlperf.knows()) return mlperf.take();
  fail(ErrorKind::bad_input, file, "no step of a trainer is in it, need a log of one of {}",
       fmt::join(log_programs(), ", "));
}

nlohmann::ordered_json spec_of(const Log& log, const std::string& file) {
  if (log.arguments.empty())
    fail(ErrorKind::bad_input, file,
         "does not say what was trained, need SPEC: a spec, or the script, TOML or config.json of the run");
  return read_megatron(script_of(log.arguments), file, {}).spec;
}

}  // namespace mbench::formats
