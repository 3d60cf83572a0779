// The path of messages from one rank to another: a communicator of the two and its stream.
//
// It is made when it is first used, in the background, as all of NCCL's work on the host. Starting a message never
// waits for the other rank, whatever either starts first. So a ring, in which every rank sends before it receives, or
// receives before it sends, does not deadlock. What was started gets on wherever the host waits: for a message, for the
// device, or for NCCL.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/mail.h"
#include "engine/comm/nccl/channel.h"

namespace mbench::comm {

// A message; NCCL gets it when its turn on the line comes.
struct Message {
  std::string what;
  std::function<ncclResult_t(ncclComm_t, cudaStream_t)> call;
  SharedEvent ready;  // of the compute stream, when it was started
  SharedEvent end;    // null until NCCL has it
};

class Line;

// The lines of all groups of a world that have something to do on the host.
class Lines {
 public:
  explicit Lines(std::shared_ptr<Watch> watch);
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  Watch& watch() { return *watch_; }
  const std::shared_ptr<Watch>& shared_watch() const { return watch_; }
  void advance();
  // Returns when NCCL has the message.
  void hand_over(const Message& message);

 private:
  friend class Line;
  std::shared_ptr<Watch> watch_;
  std::vector<Line*> busy_;
  bool advancing_ = false;
};

class Line {
 public:
  enum class End { sender, receiver };
  // This rank's end. `peer` is a rank of the mail; `kind` distinguishes the lines between the two.
  Line(Lines& lines, Mail& mail, std::string name, End end, int peer, int kind);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  std::shared_ptr<Message> start(cudaStream_t compute, std::string what,
                                 std::function<ncclResult_t(ncclComm_t, cudaStream_t)> call);
  // Does what can be done without waiting; true when nothing is left.
  bool advance();

 private:
  void open(const ncclUniqueId& id);

  Lines& lines_;
  Mail& mail_;
  std::string name_;
  End end_;
  int peer_, kind_;
  std::unique_ptr<Channel> channel_;  // null until its id is known
  bool made_ = false, busy_ = false;
  bool given_ = false;  // NCCL works on the first of waiting_
  std::deque<std::shared_ptr<Message>> waiting_;
};

}  // namespace mbench::comm
