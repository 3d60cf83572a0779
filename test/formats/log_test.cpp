#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>

#include "engine/base/error.h"
#include "engine/point/result.h"
#include "formats/logs/read_log.h"
#include "formats/logs/table.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

Log log_of(const std::string& text, const std::string& program = "") {
  std::istringstream in(text);
  return read_log(in, "a.log", program);
}

Point point_of(std::int64_t global_batch, int dp = 1, std::int64_t seq = 128) {
  Point point;
  point.model = find_preset("gpt-bytes-tiny", "model");
  point.seq = seq;
  point.dp = dp;
  point.global_batch = global_batch;
  return point;
}

std::string megatron_line(int iteration, double ms, double loss = 5, const std::string& prefix = "") {
  return fmt::format(
      "{} [2025-05-27 15:23:07] iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): "
      "{:.1f} | throughput per GPU (TFLOP/s/GPU): 40.4 | "
      "learning rate: 1.500000E-06 | global batch size:    16 | lm loss: {:.6E} | loss scale: 1.0 | grad norm: 1.250 | "
      "number of skipped iterations:   0 | number of nan iterations:   0 |\n",
      prefix, iteration, iteration * 16, ms, loss);
}

std::vector<double> samples_of(const PointResult& result) {
  return result.iteration_ms ? result.iteration_ms->samples : std::vector<double>();
}

using Steps = std::vector<double>;

// Resident memory of this process.
std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  return 0;
}

// A log of so many bytes that is nowhere as a whole: lines of a data loader, and a record of a step in every MiB.
class LongLog : public std::streambuf {
 public:
  explicit LongLog(std::int64_t bytes) : left_(bytes) {}
  std::int64_t most_kib() const { return most_; }
  int records() const { return records_; }

 protected:
  int_type underflow() override {
    if (left_ <= 0) return traits_type::eof();
    text_ = megatron_line(++records_, 100);
    const std::string noise =
        fmt::format("[rank{}] \033[32mloaded shard {} of the data\033[0m\n", records_ % 8, records_);
    while (text_.size() < std::size_t{1} << 20) text_ += noise;
    left_ -= static_cast<std::int64_t>(text_.size());
    most_ = std::max(most_, resident_kib());
    setg(text_.data(), text_.data(), text_.data() + text_.size());
    return traits_type::to_int_type(text_.front());
  }

 private:
  std::int64_t left_, most_ = 0;
  int records_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("logs: Megatron-LM's steps, losses, norms and memory by rank") {
  std::string text = "using world size: 2, data-parallel size: 2, context-parallel size: 1\n" +
                     megatron_line(1, 9000, 11) +
                     "[Rank 0] (after 1 iterations) memory (MB) | allocated: 100.5 | max allocated: 2000.25 | "
                     "reserved: 2500.0 | max reserved: 3000.0\n"
                     "[Rank 1] (after 1 iterations) memory (MB) | allocated: 100.5 | max allocated: 2100.25 | "
                     "reserved: 2500.0 | max reserved: 2900.0\n";
  for (int i = 2; i <= 6; ++i) text += megatron_line(i, 100 + i, 11 - i);
  text += "validation loss at iteration 6 | lm loss value: 5.0E+00 | lm loss PPL: 1.0E+02 |\n" + megatron_line(7, 150) +
          "  saving checkpoint at iteration       7 to /checkpoints\n" + megatron_line(8, 900) + megatron_line(9, 109);
  const Log log = log_of(text);
  CHECK(log.program == "megatron-lm");
  CHECK(log.global_batch == 16);
  CHECK(log.world == 2);
  const PointResult r = result_of(log, point_of(16, 2), "a.log", {});
  CHECK(samples_of(r) == Steps{102, 103, 104, 105, 106, 109});
  CHECK(r.measured_by == "megatron-lm");
  CHECK(r.log->warmup_ms == Steps{9000});
  CHECK(r.log->evaluation_ms == Steps{150});
  CHECK(r.log->checkpoint_ms == Steps{900});
  CHECK(r.log->first_step == 2);
  CHECK(r.losses.size() == 9);
  CHECK(r.losses.front() == 11);
  CHECK(r.gradient_norms.front() == 1.25);
  CHECK(r.peak_memory_mib == 2100.25);
  CHECK(r.reserved_memory_mib == 3000);
  CHECK(r.log->memory == std::vector<LoggedMemory>{{"max_allocated", 0, 2000.25},
                                                   {"max_reserved", 0, 3000},
                                                   {"max_allocated", 1, 2100.25},
                                                   {"max_reserved", 1, 2900}});
  CHECK_THAT(r.reason, Contains("measured by megatron-lm") && Contains("1 of a warm-up left out") &&
                           Contains("1 of a checkpoint left out"));
}

TEST_CASE("logs: what a log and a spec do not agree on is refused with what would be right") {
  const Log log =
      log_of("using world size: 2, data-parallel size: 2\n" + megatron_line(1, 9000) + megatron_line(2, 100));
  CHECK_THROWS_WITH(
      result_of(log, point_of(8, 2), "a.log", {}),
      Contains("[a.log] a step of the log has 16 samples, got global_batch 8") && Contains("--set global_batch=16"));
  CHECK_THROWS_WITH(result_of(log, point_of(16, 4), "a.log", {}), Contains("the log is of 2 ranks, got 4"));
  CHECK_THROWS_WITH(log_of("hello\nworld\n"),
                    Contains("no step of a trainer is in it") &&
                        Contains("megatron-lm, nemo, torchtitan, deepspeed, mlperf, transformers"));
  CHECK_THROWS_WITH(log_of(megatron_line(1, 1), "torchtitan"), Contains("no step of a trainer"));
  CHECK_THROWS_WITH(log_of("", "megatron"), Contains("no such trainer's log is known") && Contains("megatron-lm"));
  CHECK_FALSE(result_of(log, point_of(16, 2), "a.log", {.warmup = 9, .device = ""})
                  .iteration_ms.has_value());  // its losses are a row
}

TEST_CASE("logs: torchtitan's colours, means of several steps, and rates of tokens") {
  const std::string red = "\x1b[31m", green = "\x1b[32m", reset = "\x1b[39m";
  std::string text =
      "[rank0]:[titan] 2025-02-01 12:00:00,123 - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB "
      "memory\n";
  const auto line = [&](int step, const std::string& tps, const std::string& more = "") {
    return fmt::format(
        "[rank0]:[titan] 2025-02-01 12:00:01,123 - root - INFO - {}step: {:2}  {}loss:  7.{}  grad_norm:  1.5000  "
        "memory: {}{:5.2f}GiB(11.00%)  tps: {}  tflops: 1,012.34  mfu: 40.00%{}\n",
        red, step, green, step, more, 8.0 + step / 100.0, tps, reset);
  };
  text += line(1, "12") + line(10, "2,048") + line(20, "1,024") +
          "[rank0]:[titan] 2025-02-01 12:00:01,123 - root - INFO - Saving the checkpoint (or staging if async is "
          "enabled).\n" +
          line(30, "512") + line(40, "2,048") +
          "[rank0]:[titan] x - root - INFO - validate step: 40  loss:  6.5  memory:  9.00GiB(1.00%)  tps: 99\n" +
          line(50, "1,000") + line(60, "2,048");
  const Log log = log_of(text);
  CHECK(log.program == "torchtitan");
  CHECK(log.device == "NVIDIA H100 80GB HBM3");
  const PointResult r = result_of(log, point_of(16, 2, 128), "a.log", {});  // 2048 tokens a step over 2 devices
  CHECK(samples_of(r) == Steps{500, 1000, 500, 500});
  CHECK(r.log->checkpoint_ms == Steps{2000});
  CHECK(r.log->evaluation_ms == Steps{1024});
  CHECK(r.log->steps_per_sample == 10);
  CHECK(r.log->first_step == 10);
  CHECK(r.device == "NVIDIA H100 80GB HBM3");
  CHECK_FALSE(r.peak_memory_mib.has_value());  // what it prints is reserved
  CHECK(*r.reserved_memory_mib == Approx(8.6 * 1024));
  CHECK_THAT(r.reason, Contains("a sample is the mean of 10 steps"));
}

TEST_CASE("logs: DeepSpeed's rates are of single steps; losses of its pipelines") {
  std::string text =
      "[2024-04-21 02:45:40,722] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1.5e-07], mom=[(0.9, "
      "0.999)]\n";
  for (const int step : {10, 20, 30})
    text += fmt::format(
        "[2024-04-21 02:45:40,722] [INFO] [timer.py:260:stop] epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec=74.6, CurrSamplesPerSec={}, MemAllocated=4.75GB, MaxMemAllocated=15.5GB\n",
        step * 4, step, step == 10 ? 8.0 : 16.0);
  const Log log = log_of(text);
  const PointResult r = result_of(log, point_of(8), "a.log", {});
  CHECK(log.program == "deepspeed");
  CHECK(samples_of(r) == Steps{500, 500});
  CHECK(r.log->steps_per_sample == 1);
  CHECK(r.peak_memory_mib == 15.5 * 1024);
  const Log pipeline = log_of(
      "steps: 1 loss: 10.5 iter time (s): 2.000 samples/sec: 8.0\nsteps: 2 loss: 10.25 iter time (s): 0.500 "
      "samples/sec: 32.0\n");
  CHECK(result_of(pipeline, point_of(16), "a.log", {}).losses == Steps{10.5, 10.25});
  CHECK(samples_of(result_of(pipeline, point_of(16), "a.log", {})) == Steps{500});
}

TEST_CASE("logs: MLPerf's blocks and statistics") {
  const auto event = [](const std::string& key, double time_ms, const std::string& value, const std::string& metadata) {
    return fmt::format(
        "0: :::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"POINT_IN_TIME\", \"key\": \"{}\", "
        "\"value\": {}, \"metadata\": {}}}\n",
        time_ms, key, value, metadata);
  };
  const std::string head = event("global_batch_size", 0, "8", "{}");
  const Log blocks =
      log_of(head + event("block_start", 1000, "null", R"({"samples_count": 0})") +
             event("block_stop", 11000, "null", R"({"samples_count": 80})") + event("eval_start", 11000, "null", "{}") +
             event("block_start", 90000, "null", R"({"samples_count": 80})") +
             event("block_stop", 95000, "null", R"({"samples_count": 160})") +
             event("train_loss", 95001, "1.5", R"({"samples_count": 160})") + ":::MLLOG {\"namespace\": \"\", \"time_");
  CHECK(blocks.program == "mlperf");
  const PointResult r = result_of(blocks, point_of(8), "a.log", {});
  CHECK(r.log->warmup_ms == Steps{1000});
  CHECK(samples_of(r) == Steps{500});
  CHECK(r.losses == Steps{1.5});
  CHECK_THAT(fmt::format("{}", fmt::join(blocks.notes, "\n")), Contains("1 lines of MLPerf are cut short"));
  const Log stats =
      log_of(head + event("tracked_stats", 1, R"({"throughput": 4.0})", R"({"step": 1})") +
             event("tracked_stats", 1, R"({"throughput": 16.0, "reduced_train_loss": 3.5})", R"({"step": 2})"));
  CHECK(samples_of(result_of(stats, point_of(8), "a.log", {})) == Steps{500});
}

TEST_CASE("logs: transformers' trainer_state.json has losses and the time of the whole") {
  const std::string text =
      R"({"best_metric": null, "log_history": [{"epoch": 0.1, "grad_norm": 2.5, "learning_rate": 1e-4, "loss": 3.25, "step": 10}, {"epoch": 0.2, "eval_loss": 3.0, "eval_runtime": 1.0, "step": 10},
    {"epoch": 0.2, "grad_norm": 1.5, "loss": 3.0, "step": 20}, {"epoch": 0.2, "train_runtime": 40.0, "train_samples_per_second": 4, "train_loss": 3.1, "step": 20}]})";
  const Log log = log_of(text);
  const PointResult r = result_of(log, point_of(8), "trainer_state.json", {});
  CHECK(log.program == "transformers");
  CHECK(samples_of(r) == Steps{2000});
  CHECK(r.losses == Steps{3.25, 3});
  CHECK(r.gradient_norms == Steps{2.5, 1.5});
  CHECK_THAT(fmt::format("{}", fmt::join(log.notes, "\n")),
             Contains("one time is known, of all 20 steps") && Contains("evaluations"));
  CHECK_THROWS_WITH(log_of("{\"a\": 1}"), Contains("JSON without a log_history"));
}

TEST_CASE("logs: ranks that write at once, lines that are cut, and restarts") {
  // Two ranks say the same steps: the slower one's time counts.
  const Log ranks = log_of(megatron_line(1, 900, 5, "[rank0]:") + megatron_line(1, 950, 5, "[rank1]:") +
                           megatron_line(2, 100, 5, "[rank1]:") + megatron_line(2, 110, 5, "[rank0]:"));
  CHECK(samples_of(result_of(ranks, point_of(16), "a.log", {})) == Steps{110});
  // One rank saves, another prints the steps.
  const Log apart =
      log_of(megatron_line(1, 900, 5, "[default7]:") + megatron_line(2, 100, 5, "[default7]:") +
             "[default0]:saving checkpoint at iteration       2 to /c\n" + megatron_line(3, 500, 5, "[default7]:"));
  CHECK(result_of(apart, point_of(16), "a.log", {}).log->checkpoint_ms == Steps{500});
  // Without an end of line between them, and one cut by the other's.
  std::string glued = megatron_line(1, 900) + megatron_line(2, 100);
  std::erase(glued, '\n');
  CHECK(log_of(glued).steps.size() == 2);
  const std::string whole = megatron_line(2, 123.4);
  const std::string half = whole.substr(0, whole.find("123.4") + 3);
  const Log cut = log_of(megatron_line(1, 900) + half);
  CHECK(cut.steps.size() == 1);
  CHECK_THAT(fmt::format("{}", fmt::join(cut.notes, "\n")),
             Contains("1 records without a step or its time were left out"));
  // A run that crashed at step 4 and went on from 3, in one file.
  const Log again =
      log_of(megatron_line(1, 900) + megatron_line(2, 100) + megatron_line(3, 101) + megatron_line(4, 102) +
             megatron_line(3, 700) + megatron_line(4, 103) + megatron_line(5, 104));
  const PointResult r = result_of(again, point_of(16), "a.log", {});
  CHECK(samples_of(r) == Steps{100, 103, 104});
  CHECK(r.log->warmup_ms == Steps{900, 700});
  CHECK_THAT(fmt::format("{}", fmt::join(again.notes, "\n")), Contains("the run starts again 1 times"));
}

TEST_CASE("logs: warm-ups are as long as their steps say, or as many as are asked for") {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += megatron_line(i, i <= 3 ? 400.0 - i : 100.0);
  const Log log = log_of(text);
  CHECK(result_of(log, point_of(16), "a.log", {}).log->warmup_ms == Steps{399, 398, 397});
  CHECK(result_of(log, point_of(16), "a.log", {.warmup = 0, .device = ""}).iteration_ms->samples.size() == 20);
  CHECK(result_of(log, point_of(16), "a.log", {.warmup = 5, .device = ""}).iteration_ms->samples.size() == 15);
}

TEST_CASE("logs: counts that no job has are not taken") {
  const Log log = log_of(
      "using world size: 18446744073709551615, data-parallel size: 2\n" + megatron_line(1, 100) + megatron_line(2, 100),
      "megatron-lm");
  CHECK_FALSE(log.world);
  CHECK(log.global_batch == 16);
  CHECK(log.steps.size() == 2);
  CHECK(log_of("using world size: 2, data-parallel size: 2\n" + megatron_line(1, 100), "megatron-lm").world == 2);
}

TEST_CASE("logs: a line of any length is read in constant memory, and numbers as they are written") {
  const Log log = log_of(std::string(std::size_t{4} << 20, 'x') + "\n" + megatron_line(1, 900) +
                         std::string("progress 1%\rprogress 2%\r") + megatron_line(2, 100));
  CHECK(log.steps.size() == 2);
  double number = 0;
  CHECK(number_behind("tps: 1,234,567  mfu", "tps:", true, number));
  CHECK(number == 1234567);
  CHECK(number_behind("memory:  8.50GiB(1%)", "memory:", true, number));
  CHECK(number == 8.5);
  CHECK(number_behind("a step=10, lr", "step=", true, number));
  CHECK(number == 10);
  CHECK_FALSE(number_behind("loss: 12", "loss:", false, number));
  CHECK_FALSE(number_behind("loss: none", "loss:", true, number));
}

TEST_CASE("logs: a log of any size is read in constant memory") {
  LongLog long_log(std::int64_t{64} << 20);
  std::istream in(&long_log);
  const std::int64_t before = resident_kib();
  const Log log = read_log(in, "a.log");
  CHECK(static_cast<int>(log.steps.size()) == long_log.records());
  CHECK(log.steps.size() >= 60);
  CHECK(long_log.most_kib() > 0);
  CHECK(long_log.most_kib() - before < 16 << 10);  // of the 64 MiB that it has
}

TEST_CASE("logs: a compressed log is refused with what unpacks it") {
  CHECK_THROWS_WITH(log_of("\x1f\x8b\x08 text"), Contains("compressed") && Contains("zcat a.log | mbench"));
}

TEST_CASE("logs: a row of a log is written and read again") {
  const PointResult r = result_of(log_of(megatron_line(1, 900) + megatron_line(2, 100) + megatron_line(3, 100)),
                                  point_of(16), "a.log", {});
  const PointResult again = result_from_json(nlohmann::json(result_to_json(r)), "row");
  CHECK(again.measured_by == "megatron-lm");
  CHECK(again.log == r.log);
  CHECK(again.iteration_ms->samples == r.iteration_ms->samples);
}
