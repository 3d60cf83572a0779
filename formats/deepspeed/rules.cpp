// What one key of a DeepSpeed config cannot say alone.
#include "formats/table/rules.h"

#include "engine/base/json_reader.h"

namespace mbench::formats {
namespace {

// Nothing where both are left to others.
void read_types(Reading& r) {
  const json bf16 = r.value("bf16.enabled"), fp16 = r.value("fp16.enabled");
  if (bf16 == true)
    r.set("precision.preset", "bf16");
  else if (fp16 == true)
    r.set("precision.preset", "fp16");
  else if (!r.is_auto("bf16.enabled") && !r.is_auto("fp16.enabled"))
    r.set("precision.preset", "f32");
}
void write_types(Writing& w) {
  const json precision = w.at("precision.preset");
  if (precision == "bf16" || precision == "fp16")
    w.put(precision.get<std::string>() + ".enabled", true);
  else if (precision != "f32")
    w.cannot("precision.preset");
}

void read_offload(Reading& r) {
  const json optimizer = r.value("zero_optimization.offload_optimizer.device", "none"),
             weights = r.value("zero_optimization.offload_param.device", "none");
  for (const auto& [key, place] : {std::pair("zero_optimization.offload_optimizer.device", optimizer),
                                   std::pair("zero_optimization.offload_param.device", weights)})
    if (place != "none" && place != "cpu" && !place.is_null()) r.lack(key, "state on a disk");
  if (weights == "cpu" && optimizer != "cpu")
    r.lack("zero_optimization.offload_param.device", "weights in host memory without the optimizer");
  // From stage 2 on gradients go to the optimizer's memory as they are reduced.
  const json stage = r.value("zero_optimization.stage", 0);
  const std::string gradients = stage.is_number() && stage >= 2 ? "+gradients" : "";
  r.set("offload", weights == "cpu" ? "all" + gradients : optimizer == "cpu" ? "optimizer" + gradients : "none");
}
void write_offload(Writing& w) {
  const json what = w.at("offload"), zero = w.at("zero");
  if (what == "moments") return w.cannot("offload", "the f32 weights go with the moments there");
  if (what == "all" || (what == "optimizer" && zero != 0 && zero != 1))
    return w.cannot("offload", "gradients stay on the device, which DeepSpeed has with stage 0 and 1 only");
  if (what != "none") w.put("zero_optimization.offload_optimizer.device", "cpu");
  if (what == "all+gradients") w.put("zero_optimization.offload_param.device", "cpu");
}

// Samples of a step are those of a micro batch times their number times the ranks: two of them give the third.
void read_batch(Reading& r) {
  const json samples = r.value("train_batch_size"), steps = r.value("gradient_accumulation_steps", 1);
  const std::int64_t one =
      r.value("train_micro_batch_size_per_gpu").is_null() ? 0 : r.whole("train_micro_batch_size_per_gpu", 1 << 20);
  if (samples.is_null()) {
    if (one > 0) r.set("global_batch", one * r.whole("gradient_accumulation_steps", 1 << 24, 1));
    r.note("how many ranks start is not said: dp 1 and global_batch of one rank, or --set dp=N --set global_batch=N");
    return;
  }
  const std::int64_t all = r.whole("train_batch_size", 1 << 24);
  r.set("global_batch", all);
  const std::int64_t of_rank = one * r.whole("gradient_accumulation_steps", 1 << 24, 1);
  if (one == 0 || r.is_auto("gradient_accumulation_steps") || !r.find("gradient_accumulation_steps")) {
    r.note("how many ranks start is not said: dp 1, or --set dp=N");
    return;
  }
  if (all % of_rank != 0)
    fail(ErrorKind::bad_input, r.file(),
         "train_batch_size {} is no multiple of train_micro_batch_size_per_gpu x gradient_accumulation_steps, which is "
         "{}",
         all, of_rank);
  r.set("dp", all / of_rank);
}
void write_batch(Writing& w) {
  w.put("train_batch_size", w.at("global_batch"));
  w.put("gradient_accumulation_steps",
        static_cast<std::int64_t>(w.number("global_batch") / (w.number("micro_batch") * w.number("dp"))));
}

// How stages 1 and 2 reduce gradients. Stage 3 has two buckets by its own default. "auto" of Transformers is the square of the hidden size.
constexpr const char *kOverlap = "zero_optimization.overlap_comm", *kBucket = "zero_optimization.reduce_bucket_size";

void read_buckets(Reading& r) {
  const json stage = r.value("zero_optimization.stage", 0);
  if ((stage == 1 || stage == 2) && r.find(kOverlap) && !r.is_auto(kOverlap))
    r.set("framework.overlap_comm", r.flag(kOverlap));
  const json size = r.is_auto(kBucket) ? json("hidden_squared") : r.find(kBucket) ? r.value(kBucket) : json(nullptr);
  if (size == "hidden_squared")
    r.set("framework.reduce_bucket_size", size);
  else if (size == 500000000 || size == 200000000)
    r.set("framework.reduce_bucket_size", fmt::format("{:.0f}", size.get<double>()));
  else if (!size.is_null())
    r.note(fmt::format("{} {} is forecast as 500000000", kBucket, size.dump()));
  if (r.get("framework.overlap_comm") || r.get("framework.reduce_bucket_size")) r.set("framework.preset", "deepspeed");
}
void write_buckets(Writing& w) {
  if (w.at("framework.preset") != "deepspeed") return;
  if (w.at("framework.overlap_comm") == true) w.put(kOverlap, true);
  const json size = w.at("framework.reduce_bucket_size");
  if (size == "hidden_squared")
    w.put(kBucket, "auto");
  else if (size == "200000000")
    w.put(kBucket, 200000000);
}

}  // namespace

const std::vector<Rule>& deepspeed_rules() {
  static const std::vector<Rule> rules = {{"deepspeed_precision", read_types, write_types},
                                          {"deepspeed_offload", read_offload, write_offload},
                                          {"deepspeed_buckets", read_buckets, write_buckets},
                                          {"deepspeed_batch", read_batch, write_batch}};
  return rules;
}

}  // namespace mbench::formats
