// Groups over NCCL: each rank a GPU of its own. Communicators are agreed upon through another world, the hosts'.
// Collectives run on a stream of their group, in order with the compute stream by events.
//
// Between two ranks every direction has a communicator and a stream of its own. So have tags that differ in their last
// bit (activations and gradients): a message waits for no other. Within these, messages are matched in the order sent.
// They are made in the background when they are first used (line.h).
#pragma once
#include <memory>
#include <string>

#include "engine/comm/group.h"
#include "engine/comm/mail.h"
#include "engine/device/stream_device.h"

namespace mbench::comm {

// "NCCL 2.28.3"; empty where this binary was built without it.
std::string nccl_library();

// `host` moves tensors of `host_device`, which are host memory; `mail` is between the same ranks. Everything must
// outlive the groups. While the host waits for `device`, errors of NCCL end the wait. So does a collective or message
// that has not ended after `deadline` seconds; the error (timed_out) names it. Throws unsupported where this binary has
// no NCCL.
std::unique_ptr<World> open_nccl_world(World& host, Mail& mail, Device& host_device, StreamDevice& device,
                                       double deadline);

}  // namespace mbench::comm
