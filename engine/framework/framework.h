// How a training framework behaves, as data: what its steps keep, what its calls cost the host, how good its kernels are, what its
// libraries hold, and what it is able to run. One file each (engine/framework/NAME.json), a source beside every figure.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/host_work.h"
#include "engine/framework/keeps.h"

namespace mbench {

// Seconds on the reference host (Xeon E5-2686 v4, one thread), besides the driver's launch.
struct HostCosts {
  double kernel = 0, collective = 0, message = 0;  // a call of each
  ByHostWork work;          // of `call`: one of the framework's small ops that stand where the engine has one
  double fill = 0;          // what an op more costs where every tensor that it makes is filled first
  double call_fill = 0;     // the same of a small op
  double masked_token = 0;  // a loader's work for a token of masked language modelling, beside the host's
  int broadcasts = 0;       // over tp, of what a micro batch has: where one stage has all of it
};

// Whether the host waits for the device at every message between stages; unless_interleaved: with virtual stages it does not.
enum class MessagesBlock { never, always, unless_interleaved };

// Whose kernels fused attention runs on. Of cuDNN's and FlashAttention-3's a machine's file has the figures that it calls the device's
// best.
enum class AttentionKernels { best, flash_attention_1, flash_attention_2, flash_attention_3, cudnn };

// Bytes that libraries take from a rank's allocator for good.
struct FrameworkMemory {
  std::uint64_t always = 0;
  std::uint64_t experts = 0;          // where the model has experts
  std::uint64_t tp_comm_overlap = 0;  // where tensor parallelism is overlapped
  // Whether tensors come from PyTorch's caching allocator; else from mbench's own (engine/device/allocator.h). And what the framework
  // itself puts into PYTORCH_CUDA_ALLOC_CONF.
  bool caching = false;
  std::string caching_settings;
};

// What a framework is able to run, by the keys of a point's fields: the values as text. Of a field that it does not name it has all.
struct Abilities {
  std::map<std::string, std::vector<std::string>> values;
  // Of values that are several names joined by "+" it must have each.
  bool has(const std::string& field, std::string_view value) const;
};

// A choice of an option, as a spec writes it.
struct ChosenOption {
  std::string_view option, value, otherwise;  // otherwise: the default
};

struct Framework {
  std::string name, description;
  std::string host_name;  // whose host costs and kernels these are
  Keeps keeps;
  HostCosts host;
  double traffic_efficiency = 1;  // of its memory-bound kernels, relative to the machine's
  AttentionKernels attention = AttentionKernels::best;
  FrameworkMemory memory;
  MessagesBlock messages_block = MessagesBlock::never;
  bool loss_blocks = false;               // the host waits for the loss of each micro batch
  bool interpreter_lock = false;          // of the threads of a process one at a time runs host code, but in backward
  bool tensor_collectives_block = false;  // kernels wait for every collective over tp: none runs beside them
  Abilities can;                          // a search proposes nothing else
  std::vector<ChosenOption> unknown;      // options that were chosen and that it does not have
  std::vector<ChosenOption> simulated;    // choices that a real device cannot make
};

// Choices of an option, and what they change.
struct FrameworkChoice {
  std::string name, doc;
  bool simulated = false;  // in simulation alone: the engine runs as by default
};
struct FrameworkOption {
  std::string name, doc;
  std::string flag;       // as the framework itself says it; empty: it has none
  std::string otherwise;  // the default
  std::vector<FrameworkChoice> choices;
  const FrameworkChoice* find(std::string_view value) const;
};

// How specs said it before a framework was one thing: by `graph`, what it keeps, by `framework`, its host costs, and by fields of
// their own, the options that differ from what such fields were without being said.
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

// A framework that keeps what `preset` does and costs what `host` does, with these options chosen, "true" and "false" for flags. An
// option changes what of either file it names; of the host's it counts where that has it too.
Framework combined(const FrameworkFile& preset, const FrameworkFile& host,
                   const std::map<std::string, std::string>& options);

// Those that are built in, by name.
const std::vector<FrameworkFile>& builtin_frameworks();
const FrameworkFile* find_builtin(std::string_view name);
std::vector<std::string> framework_names();
// Every option of any of these, with every choice, each once.
const std::vector<FrameworkOption>& all_framework_options();

// By the name of one that is built in, or the path of a file (base/embedded.h: is_path). bad_input at `where` with the nearest name
// otherwise.
FrameworkFile load_framework(const std::string& name_or_path, const std::string& where);
// The same with its options at their defaults.
Framework framework_from_json(const nlohmann::ordered_json& json, const std::string& file);
Framework find_framework(const std::string& name_or_path, const std::string& where);

}  // namespace mbench
