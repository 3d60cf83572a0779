// How a training framework behaves, as data: what its steps keep, host costs, efficiency of kernels, memory of libraries, and what it can
// run. Each framework has a file (engine/framework/NAME.json), with a source for every figure.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/host_work.h"
#include "engine/base/memory_stream.h"
#include "engine/framework/keeps.h"

namespace mbench {

// Seconds on the reference host (Xeon E5-2686 v4, one thread), without the driver's launch.
struct HostCosts {
  double kernel = 0, collective = 0, message = 0;  // a call of each
  ByHostWork work;          // `call`: one of the framework's small ops where the engine has a single op
  double fill = 0;          // what an op costs in addition where every tensor that it makes is filled first
  double call_fill = 0;     // the same of a small op
  double masked_token = 0;  // a loader's work for a token of masked language modelling, on top of the host's
  int broadcasts = 0;       // over tp, of a micro batch's inputs, where one stage has all of them
};

// Whether the host waits for the device at every message between stages. unless_interleaved: not with virtual stages, which post their
// receives ahead.
enum class MessagesBlock { never, always, unless_interleaved };

// Whose kernels fused attention runs on. For cuDNN's and FlashAttention-3's, the machine's file has the figures that it calls the device's
// best.
enum class AttentionKernels { best, flash_attention_1, flash_attention_2, flash_attention_3, cudnn };

// Bytes that libraries take from a rank's allocator for good.
struct FrameworkMemory {
  std::uint64_t always = 0;
  std::uint64_t experts = 0;          // where the model has experts
  std::uint64_t tp_comm_overlap = 0;  // where tensor parallelism is overlapped
  // Whether tensors come from PyTorch's caching allocator; otherwise from mbench's own (engine/device/allocator.h). And what the framework
  // itself puts into PYTORCH_CUDA_ALLOC_CONF.
  bool caching = false;
  std::string caching_settings;
  OwnStreams own_streams{};  // on which it asks PyTorch's allocator for memory; the others are the compute stream
  OwnStreams recorded{};     // of these: those whose blocks it records on the compute stream (Tensor.record_stream)
};

// What runs where the engine runs one op: so many kernels, each a call of the host, that move so many times the op's bytes. A traffic in
// f32 of its own, where casts fall away. With no kernel the op is part of another. `extra_calls`: what the host takes on top of a call for
// each, in calls.
struct UnfusedOp {
  int calls = 1, extra_calls = 0;
  double traffic = 1, traffic_f32 = 1;
};
using UnfusedOps = std::map<std::string, UnfusedOp, std::less<>>;  // by the engine's name of the op

// How gradients wait to be reduced over ranks of data. Without a file's word they do so where they accumulate, 25 MiB at a time.
struct GradientBuckets {
  std::int64_t elements = 0;    // that fill a bucket; 0: as many as 25 MiB hold
  bool hidden_squared = false;  // as many as the square of the hidden size has
  bool whole = false;           // a bucket has room for that many, however few are in it
  bool one = false;             // the next is filled once the last is reduced / while it is
  bool separate = false;        // gradients that are not sharded are copied into buckets, which live on, and back
  // Sharded gradients of sharded weights are reduced in a copy of a full bucket, which is made for that.
  bool flat = false;
  // The norm of sharded gradients of sharded weights that go to the host is taken in f64, on the device.
  bool norm_in_f64 = false;
  // A step of one micro batch drops what others own as stage 2 does, though it shards optimizer state only.
  bool early = false;

  bool operator==(const GradientBuckets&) const = default;
};

// PyTorch's autocast: weights are f32, and 16-bit copies of them are made for a step. Norms and softmax compute in f32.
struct Autocast {
  bool on = false;
  int qkv_inputs = 1;           // linear layers that make Q, K and V; each casts its input
  bool softmax_in_f32 = false;  // probabilities are f32 until dropout is through with them
  bool operator==(const Autocast&) const = default;
};

// What a framework can run: for keys of a point's fields, the values as text. It can run every value of a field that is not named.
struct Abilities {
  std::map<std::string, std::vector<std::string>> values;
  // A value of several names joined by "+" needs each of them.
  bool has(const std::string& field, std::string_view value) const;
};

// A choice of an option, as a spec writes it.
struct ChosenOption {
  std::string_view option, value, otherwise;  // otherwise: the default
};

struct Framework {
  std::string name, description;
  Keeps keeps;
  HostCosts host;
  double traffic_efficiency = 1;  // of its memory-bound kernels, relative to the machine's
  AttentionKernels attention = AttentionKernels::best;
  double attention_forward = 1, attention_backward = 1;  // its own speed relative to those kernels
  // The gradient of its fused attention has a workspace outside the allocator. It is pieces of the scores' gradient where parts are summed
  // in one order (ops/attention_pieces.h), and the queries' gradients in f32 otherwise.
  bool attention_workspace = false;
  UnfusedOps unfused;  // ops that are not one kernel each
  FrameworkMemory memory;
  GradientBuckets buckets;
  Autocast autocast;          // of 16-bit points
  bool holds_logits = false;  // the model's output lives until backward is through with the loss
  MessagesBlock messages_block = MessagesBlock::never;
  // Whether a stage of so many chunks posts each receive before the action ahead of it, as Megatron-Core does by
  // `--overlap-p2p-communication`, its default.
  bool posts_receives_ahead(std::size_t chunks) const {
    return messages_block == MessagesBlock::unless_interleaved && chunks > 1;
  }
  bool loss_blocks = false;               // the host waits for the loss of each micro batch
  bool interpreter_lock = false;          // one thread of a process at a time runs host code, except in backward
  bool tensor_collectives_block = false;  // kernels wait for every collective over tp: none overlaps with them
  Abilities can;                          // a search proposes nothing else
  std::vector<ChosenOption> unknown;      // options that were chosen and that it does not have
  std::vector<ChosenOption> simulated;    // choices that only a simulation can make
};

// Choices of an option, and what they change.
struct FrameworkChoice {
  std::string name, doc;
  bool simulated = false;  // in simulation only: on a device the engine runs its default
};
struct FrameworkOption {
  std::string name, doc;
  std::string flag;       // the framework's own flag; empty: it has none
  std::string otherwise;  // the default
  std::vector<FrameworkChoice> choices;
  const FrameworkChoice* find(std::string_view value) const;
};

// The former words of a spec, before a framework was one field. `graph` named what it keeps, `framework` its host costs. Fields of their
// own held the options that differ from these fields' defaults.
struct FormerWords {
  std::string graph = "fused", framework = "mbench";
  std::map<std::string, std::string> options;
  bool operator==(const FormerWords&) const = default;
};

// A framework's file.
class FrameworkFile {
 public:
  // bad_input for a missing, unknown or impossible key, by JSON path behind `file`.
  static FrameworkFile from_json(const nlohmann::ordered_json& json, const std::string& file);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::vector<FrameworkOption>& options() const { return options_; }
  const FrameworkOption* option(std::string_view name) const;
  const FormerWords& formerly() const { return formerly_; }

 private:
  friend Framework combined(const FrameworkFile& preset, const FrameworkFile& host,
                            const std::map<std::string, std::string>& options);
  std::string name_, description_;
  FormerWords formerly_;
  std::string file_;
  std::vector<FrameworkOption> options_;
  std::shared_ptr<const nlohmann::json>
      body_;  // what it is with every option at its default, and under "options" what each choice changes
};

// A framework that keeps what `preset` keeps and costs what `host` costs, with these options chosen ("true" and "false" for flags). An
// option changes what it names in either file. Of the host's file it counts only where that file has the option too.
Framework combined(const FrameworkFile& preset, const FrameworkFile& host,
                   const std::map<std::string, std::string>& options);

// The built-in frameworks, by name.
const std::vector<FrameworkFile>& builtin_frameworks();
const FrameworkFile* find_builtin(std::string_view name);
std::vector<std::string> framework_names();
// Every option of any of these, with every choice, each once.
const std::vector<FrameworkOption>& all_framework_options();

// By the name of a built-in framework, or the path of a file (base/embedded.h: is_path). bad_input at `where` with the nearest name
// otherwise.
FrameworkFile load_framework(const std::string& name_or_path, const std::string& where);
// The same with its options at their defaults.
Framework framework_from_json(const nlohmann::ordered_json& json, const std::string& file);
Framework find_framework(const std::string& name_or_path, const std::string& where);

}  // namespace mbench
