// What one rank does in a step, recorded. Events for the clocks and for the allocator are separate, since neither needs the other.
// Written by recorder.h, read by replay.h.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/axis.h"
#include "engine/base/dtype.h"
#include "engine/base/host_work.h"
#include "engine/base/memory_stream.h"
#include "engine/base/model_part.h"
#include "engine/base/shape.h"
#include "engine/base/time_part.h"
#include "engine/device/arena.h"
#include "engine/device/in_parts.h"
#include "engine/plan/schedule.h"

namespace mbench::sim {

struct ClockEvent {
  enum class Kind : std::uint8_t {
    kernel,          // seconds, flops; times: 0 where another's call launches it
    collective,      // group, seconds, times: the stream waits for it
    start,           // group, seconds, pending, times: the stream does not wait yet; after, slows
    wait,            // pending
    send,            // a message of the action
    receive,         // bytes; the message of the action
    synchronize,     // the host waits for the stream
    barrier,         // group
    copy,            // to or from the host (group: CopyWay), seconds, pending: of copies, as in the next two
    copy_wait,       // the stream waits for a copy
    copy_host_wait,  // the host does
    host_kernel,     // seconds, of the host's processor
    host_work,       // work, times
    span_begins,     // a phase of the step, which a trace shows; clocks do nothing
    span_ends
  } kind;
  TimePart part{};  // the part that a kernel belongs to, or that the stream's wait is charged to
  std::uint16_t group = 0;
  std::uint32_t pending = 0;
  double seconds = 0;
  double flops = 0;  // of a kernel, those of GEMMs; of a receive, the bytes
  HostWork work{};
  std::uint32_t times = 1;
  // Of a start: the pending of a collective that it begins behind.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t after = kNone;
  bool slows = true;      // slows the kernels that overlap it
  bool in_layer = false;  // of a kernel and of the host's work: a layer runs
  // In a trace: the op, the collective or the phase. A literal.
  const char* what = "";
  bool operator==(const ClockEvent&) const = default;
};

// What all micro batches do alike: a recording of each is kept.
struct ActionKey {
  Action::Kind kind{};
  int chunk = 0, part = 0;
  auto operator<=>(const ActionKey&) const = default;
};
inline ActionKey key_of(const Action& a) {
  return {a.kind, a.chunk, a.part};
}

// Blocks are named by the action that made them, so the same events hold for every micro batch.
struct MemoryEvent {
  enum class Kind : std::uint8_t {
    take_scratch,  // freed by the action that made it
    free_scratch,
    take_saved,  // freed by a later action on the same micro batch, or sent by one
    free_saved,  // of the action of kind `maker`
    take_kept,   // lives longer: parameters, a buffer that all share
    free_kept,
    send,  // the block of `maker` is handed to the message, and the block of the message before it is freed
    free_sent
  } kind;
  Category category{};
  ActionKey maker{};  // of free_saved and send: the action that made it
  // Of send and free_sent: where two of the stage's neighbours get the same kind of message, which of them.
  std::uint8_t neighbour = 0;
  std::uint32_t block = 0;
  std::uint32_t name = 0;                       // of the allocation: StepEvents::names
  std::size_t size = 0;                         // rounded
  bool graph = false;                           // taken within a captured part, from its graph's memory
  bool in_layer = false;                        // taken while a layer runs
  MemoryStream stream = MemoryStream::compute;  // on which it is taken
  TensorParts parts{};                          // that it stands for
  bool operator==(const MemoryEvent&) const = default;
};

// What an allocation holds, and which part of the model runs when it is made.
struct TensorName {
  std::string what;
  ModelPart part;
  Shape shape;
  DType dtype = DType::u8;
  bool operator==(const TensorName&) const = default;
};

struct ActionEvents {
  std::vector<ClockEvent> clock;
  std::vector<MemoryEvent> memory;
  std::vector<MemoryEvent> host;  // likewise, of the host's memory
  ByAxis sent{};                  // bytes handed to collectives and messages
  bool keeps = false;             // makes or frees a block that is kept: once, not in every micro batch
};

// A group of the simulated ranks: those of one class talk to their own peers, or classes meet.
struct RecordedGroup {
  std::string name;  // in a trace
  Axes axes;
  int number = 0;  // among all groups, which every rank makes in the same order
  int size = 1;
  std::vector<int> classes;  // of the members, in order; one: nobody waits
  bool meets() const { return classes.size() > 1; }
};

// A step of a rank. The first and the last micro batch are as they were recorded. Those between do what the second did where it was
// recorded. Else they do backward, and for gradients of weights, what the first did (before the gradients were reduced), and forward what
// the last did. Where micro batches differ more than that, each was recorded.
struct RecordedStep {
  ActionEvents begin, end;
  ActionEvents deferred;  // after the schedule: gradients of weights that were left until then (Plan::deferred_gemms)
  struct Of {
    ActionEvents first, last;
    // The second micro batch. Or, where the first one's backward makes what is kept: a micro batch that does to clocks what the first
    // did, and to memory what the last did.
    std::optional<ActionEvents> between;
    std::vector<ActionEvents> each;  // [micro batch], in place of the others; empty where these are enough
  };
  std::map<ActionKey, Of> actions;

  const ActionEvents& of(const Action& a, int micro_batches) const {
    const Of& both = actions.at(key_of(a));
    if (!both.each.empty()) return both.each[static_cast<std::size_t>(a.micro)];
    if (a.micro == 0) return both.first;
    if (a.micro == micro_batches - 1) return both.last;
    return between(a.kind, both);
  }
  static const ActionEvents& between(Action::Kind kind, const Of& both) {
    if (both.between) return *both.between;
    return kind == Action::Kind::backward || kind == Action::Kind::weight_gradient ? both.first : both.last;
  }
};

// The first step of a class of ranks, and what is needed to know the others.
struct StepEvents : RecordedStep {
  ActionEvents setup;
  // What each later step does to memory, where the first step leaves something behind (a buffer that all share, a placeholder). A later
  // step finds that there, and leaves memory as it was: the steady state. To clocks all steps do the same.
  std::optional<RecordedStep> later;
  std::array<std::size_t, kCategories> left{};  // bytes that are there then
  std::vector<RecordedGroup> groups;
  std::vector<TensorName> names;  // of MemoryEvent::name
  std::uint32_t pendings = 0, copies = 0, kept = 0, host_kept = 0;
  // Elements that the rank has of each weight tensor's optimizer state, in the order of the model. An expert's weights are separate
  // tensors.
  std::vector<std::size_t> own_elements;
};

}  // namespace mbench::sim
