// NCCL's functions over communicators that meet in files.
#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>

#include "test/fake_cuda/communicator.h"
#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

struct ncclComm {
  std::shared_ptr<fake_cuda::Communicator> own;
};

namespace fake_cuda {
namespace {

struct Grouped {
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Queue> queue;
  std::vector<Operation> operations;
};
thread_local int group_depth = 0;
thread_local std::vector<Grouped> grouped;

ncclResult_t no(ncclResult_t code, std::string_view call, std::string_view why) {
  complain(call, why);
  return code;
}

ncclResult_t hand_over(Grouped g) {
  const auto comm = g.comm;
  const bool message =
      g.operations.front().terms.call == Call::send || g.operations.front().terms.call == Call::receive;
  const auto give = [g = std::move(g)] { g.comm->give(g.comm, g.queue, g.operations); };
  if (comm->blocking()) {
    // Connections are opened within the first call, which returns when all have come to it.
    while (!message && !comm->connect()) {
      if (comm->aborted()) return ncclInternalError;
      ::usleep(200);
    }
    give();
    return ncclSuccess;
  }
  comm->defer([give] {
    give();
    return true;
  });
  return ncclInProgress;
}

// Does what gets on step by step: now, or when the communicator is asked for errors.
ncclResult_t take_on(Communicator& comm, std::function<bool()> steps) {
  if (!comm.blocking()) {
    comm.defer(std::move(steps));
    return ncclInProgress;
  }
  while (!steps()) ::usleep(200);
  return ncclSuccess;
}

bool on_gpu(const void* at, std::size_t bytes) {
  return bytes == 0 || Memory::get().kind_of(at, bytes) == Kind::device;
}

// NCCL registers the buffers of captured operations, so that other ranks reach them: by an export of their memory, which the driver
// refuses of memory that it mapped and was not asked to make exportable.
bool can_register(const Communicator& comm, const Queue& queue, const void* at, std::size_t bytes) {
  return !queue.capture || comm.size() == 1 || settings().graph_register == 0 || bytes == 0 ||
         !Memory::get().is_mapped_at(at);
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const Operation& o, std::size_t send_bytes,
                  std::size_t receive_bytes, const char* name) {
  if (!Alive<ncclComm>::get().has(comm)) return no(ncclInvalidArgument, name, "no such communicator");
  const auto queue = queue_of(stream);
  if (!queue) return no(ncclInvalidArgument, name, "no such stream");
  if (comm->own->meet() != ncclSuccess) return no(ncclInvalidArgument, name, "the communicator is not made yet");
  if (!on_gpu(o.send, send_bytes) || !on_gpu(o.receive, receive_bytes))
    return no(ncclInvalidArgument, name, "a buffer goes beyond memory of the GPU");
  if (!can_register(*comm->own, *queue, o.send, send_bytes) ||
      !can_register(*comm->own, *queue, o.receive, receive_bytes))
    return no(ncclUnhandledCudaError, name,
              "a captured buffer's memory cannot be exported, need NCCL_GRAPH_REGISTER=0");
  if (o.terms.root < 0 || o.terms.root >= comm->own->size() || o.peer >= comm->own->size())
    return no(ncclInvalidArgument, name, "rank");
  const bool message = o.terms.call == Call::send || o.terms.call == Call::receive;
  if (message && (o.peer < 0 || o.peer == comm->own->rank())) return no(ncclInvalidArgument, name, "peer");
  if (group_depth == 0) return hand_over({comm->own, queue, {o}});
  for (Grouped& g : grouped)
    if (g.comm == comm->own && g.queue == queue) {
      g.operations.push_back(o);
      return ncclSuccess;
    }
  grouped.push_back({comm->own, queue, {o}});
  return ncclSuccess;
}

// Adds a communicator when all ranks have come, or before that where it does not block.
ncclResult_t make(ncclComm_t* comm, const std::string& name, int rank, int size, bool blocking) {
  *comm = nullptr;
  if (size < 1 || rank < 0 || rank >= size) return no(ncclInvalidArgument, "ncclCommInitRank", "rank or size");
  const auto own = std::make_shared<Communicator>(name, rank, size, current_device(), blocking);
  ncclResult_t state = own->meet();
  while (blocking && state == ncclInProgress) {
    ::usleep(200);
    state = own->meet();
  }
  if (state != ncclSuccess && state != ncclInProgress) return state;
  *comm = Alive<ncclComm>::get().add(new ncclComm{own});
  return state;
}

Operation operation(Call kind, const void* send, void* receive, std::size_t count, ncclDataType_t type) {
  Operation o;
  o.terms.call = kind, o.terms.type = type, o.terms.count = count;
  o.send = send, o.receive = receive;
  return o;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t) {
  return "fake NCCL said why on stderr";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const std::string name = Meeting::arrange();
  std::memcpy(id->internal, name.data(), std::min(name.size(), sizeof id->internal - 1));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return make(comm, id.internal, rank, size, config == nullptr || config->blocking != 0);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}
// The child's address is filled in when the parent has got through.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  *made = nullptr;
  if (!Alive<ncclComm>::get().has(comm)) return no(ncclInvalidArgument, "ncclCommSplit", "no such communicator");
  Communicator& parent = *comm->own;
  const std::string mark = "split." + std::to_string(parent.next_split());
  Bytes mine(2 * sizeof(int));
  std::memcpy(mine.data(), &color, sizeof color);
  std::memcpy(mine.data() + sizeof color, &key, sizeof key);
  parent.meeting().leave(mark + "." + std::to_string(parent.rank()), mine);
  const bool blocking =
      config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? parent.blocking() : config->blocking != 0;
  return take_on(parent,
                 [&parent, mark, color, key, made, blocking, child = std::shared_ptr<Communicator>()]() mutable {
                   const auto settled = [&] {
                     const ncclResult_t state = child->meet();
                     if (state == ncclInProgress) return false;
                     if (state == ncclSuccess)
                       *made = Alive<ncclComm>::get().add(new ncclComm{child});
                     else
                       parent.fail(state);
                     return true;
                   };
                   if (child) return settled();
                   std::set<std::pair<int, int>> members;  // by key, then by rank
                   for (int r = 0; r < parent.size(); ++r) {
                     const auto theirs = parent.meeting().find(mark + "." + std::to_string(r));
                     if (!theirs) return false;
                     int words[2];
                     std::memcpy(words, theirs->data(), sizeof words);
                     if (words[0] == color) members.insert({words[1], r});
                   }
                   if (color == NCCL_SPLIT_NOCOLOR) return true;
                   const auto own = members.find({key, parent.rank()});
                   child = std::make_shared<Communicator>(parent.name() + "-" + mark + "." + std::to_string(color),
                                                          static_cast<int>(std::distance(members.begin(), own)),
                                                          static_cast<int>(members.size()), parent.device(), blocking);
                   return settled();
                 });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!Alive<ncclComm>::get().has(comm))
    return no(ncclInvalidArgument, "ncclCommGetAsyncError", "no such communicator");
  *state = comm->own->state();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!Alive<ncclComm>::get().has(comm)) return no(ncclInvalidArgument, "ncclCommFinalize", "no such communicator");
  return take_on(*comm->own, [own = comm->own] { return own->part(); });
}
// All ranks of a node call it, unless the communicator was finalized.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!Alive<ncclComm>::get().has(comm)) return no(ncclInvalidArgument, "ncclCommDestroy", "no such communicator");
  while (comm->own->state() == ncclInProgress || !comm->own->part()) ::usleep(100);
  Alive<ncclComm>::get().end(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!Alive<ncclComm>::get().has(comm)) return no(ncclInvalidArgument, "ncclCommAbort", "no such communicator");
  comm->own->abort();
  Alive<ncclComm>::get().end(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->own->size();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->own->rank();
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->own->device();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return no(ncclInvalidUsage, "ncclGroupEnd", "no group was begun");
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t worst = ncclSuccess;
  for (Grouped& g : std::exchange(grouped, {}))
    if (const ncclResult_t code = hand_over(std::move(g)); code != ncclSuccess) worst = code;
  return worst;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  Operation o = operation(Call::all_reduce, send, receive, count, type);
  o.terms.op = op;
  if (op != ncclSum && op != ncclMax) return no(ncclInvalidArgument, "ncclAllReduce", "this reduction is not emulated");
  const std::size_t bytes = count * size_of(type);
  return call(comm, stream, o, bytes, bytes, "ncclAllReduce");
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = Alive<ncclComm>::get().has(comm) ? static_cast<std::size_t>(comm->own->size()) : 1;
  return call(comm, stream, operation(Call::all_gather, send, receive, count, type), bytes, bytes * ranks,
              "ncclAllGather");
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  Operation o = operation(Call::reduce_scatter, send, receive, count, type);
  o.terms.op = op;
  if (op != ncclSum && op != ncclMax)
    return no(ncclInvalidArgument, "ncclReduceScatter", "this reduction is not emulated");
  const std::size_t bytes = count * size_of(type);
  const auto ranks = Alive<ncclComm>::get().has(comm) ? static_cast<std::size_t>(comm->own->size()) : 1;
  return call(comm, stream, o, bytes * ranks, bytes, "ncclReduceScatter");
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  Operation o = operation(Call::broadcast, send, receive, count, type);
  o.terms.root = root;
  const std::size_t bytes = count * size_of(type);
  const bool gives = Alive<ncclComm>::get().has(comm) && comm->own->rank() == root;
  return call(comm, stream, o, gives ? bytes : 0, bytes, "ncclBroadcast");
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Operation o = operation(Call::reduce, send, receive, count, type);
  o.terms.op = op;
  o.terms.root = root;
  if (op != ncclSum) return no(ncclInvalidArgument, "ncclReduce", "this reduction is not emulated");
  const std::size_t bytes = count * size_of(type);
  const bool gets = Alive<ncclComm>::get().has(comm) && comm->own->rank() == root;
  return call(comm, stream, o, bytes, gets ? bytes : 0, "ncclReduce");
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Operation o = operation(Call::send, send, nullptr, count, type);
  o.peer = peer;
  return call(comm, stream, o, count * size_of(type), 0, "ncclSend");
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Operation o = operation(Call::receive, nullptr, receive, count, type);
  o.peer = peer;
  return call(comm, stream, o, 0, count * size_of(type), "ncclRecv");
}

}  // extern "C"
