#include "engine/comm/mpi/mpi_world.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "engine/base/half.h"

namespace mbench::comm {
namespace {

// MPI_Allreduce over shared memory is fastest at a few MiB a call: with two ranks 5-8 GB/s at 4 MiB, 1.4
// at 64.
constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
// What a rank gets of the others at a time where it adds up itself: stays in its cache until it is added. From this many bytes
// of a rank's part that is faster than MPI's own reduction, which for reduce-scatter is one to a single rank and a scatter (Open
// MPI 4.1): bench/comm_bench has both.
constexpr std::size_t kSumBytes = std::size_t{1} << 20;
constexpr std::size_t kSumFrom = std::size_t{4} << 10;
// What hosts gather, at a time.
constexpr std::int64_t kGatherBytes = std::int64_t{4} << 20;

void need(int code, const std::string& group, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorKind::internal, "mpi", "{} in group {} failed, got: {}", call, group, std::string(text, length));
}

template <class T>
void sum_half(void* in, void* inout, int* n, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *n; ++i) b[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

template <class T>
void max_half(void* in, void* inout, int* n, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *n; ++i) b[i] = from_float<T>(std::max(to_float(a[i]), to_float(b[i])));
}

// MPI has no 16-bit floating-point types: reductions of our own on 16-bit words.
class HalfOps {
 public:
  HalfOps() {
    MPI_Op_create(sum_half<bf16>, 1, &sum_[0]);
    MPI_Op_create(sum_half<f16>, 1, &sum_[1]);
    MPI_Op_create(max_half<bf16>, 1, &max_[0]);
    MPI_Op_create(max_half<f16>, 1, &max_[1]);
  }
  ~HalfOps() {
    for (MPI_Op* op : {&sum_[0], &sum_[1], &max_[0], &max_[1]}) MPI_Op_free(op);
  }
  MPI_Op of(DType t, ReduceOp op) const {
    const int i = t == DType::bf16 ? 0 : 1;
    return op == ReduceOp::sum ? sum_[i] : max_[i];
  }

 private:
  MPI_Op sum_[2], max_[2];
};

MPI_Datatype type_of(DType t) {
  switch (t) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::bf16:
    case DType::f16:
      return MPI_UINT16_T;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i64:
      return MPI_INT64_T;
  }
  return MPI_BYTE;
}

// What each rank has of a buffer.
struct Cuts {
  std::vector<int> counts, begins;
};

class Requests final : public Pending {
 public:
  Requests(std::string group, Pulse* pulse, int number) : group_(std::move(group)), pulse_(pulse), number_(number) {}
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  // MPI reads the counts of what it was asked to start until that has ended.
  const Cuts& keep(Cuts cuts) { return cuts_.emplace_back(std::move(cuts)); }
  void wait() override {
    const Pulse::In in(pulse_, "wait", number_);
    need(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), group_, "MPI_Waitall");
  }

 private:
  std::string group_;
  Pulse* pulse_;
  int number_;  // of the group, to the pulse
  std::vector<MPI_Request> requests_;
  std::deque<Cuts> cuts_;
};

// out[0..n) = the sum over ranks of parts[r], in their order, in f32 and rounded once: the same bits in every run.
template <class T>
void add_up(const std::vector<const std::byte*>& parts, std::byte* out, std::size_t bytes) {
  constexpr std::size_t kBlock = 1024;
  std::array<float, kBlock> sums;
  const std::size_t n = bytes / sizeof(T);
  T* const to = reinterpret_cast<T*>(out);
  for (std::size_t at = 0; at < n; at += kBlock) {
    const std::size_t count = std::min(kBlock, n - at);
    sums.fill(0);
    for (const std::byte* part : parts) {
      const T* const from = reinterpret_cast<const T*>(part) + at;
      for (std::size_t i = 0; i < count; ++i) sums[i] += to_float(from[i]);
    }
    for (std::size_t i = 0; i < count; ++i) to[at + i] = from_float<T>(sums[i]);
  }
}

bool adds(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16;
}

bool all_share_memory(MPI_Comm comm, int size) {
  MPI_Comm neighbours;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours);
  int here = 0;
  MPI_Comm_size(neighbours, &here);
  MPI_Comm_free(&neighbours);
  return here == size;
}

class MpiGroup final : public Group {
 public:
  MpiGroup(Device& device, const GroupName& name, MPI_Comm comm, int rank, int size, Pulse* pulse)
      : Group(device, name, rank, size),
        comm_(comm),
        on_one_host_(all_share_memory(comm, size)),
        pulse_(pulse),
        number_(pulse ? pulse->number_of(name.text) : 0) {}
  ~MpiGroup() override { MPI_Comm_free(&comm_); }

 protected:
  void do_run(const Collective& c) override {
    std::visit([this](const auto& each) { perform(each); }, c);
  }
  std::unique_ptr<Pending> do_start(const Collective& c) override {
    return std::visit([this](const auto& each) { return started(each); }, c);
  }
  void do_barrier() override {
    const Pulse::In pulse = in("barrier");
    need(MPI_Barrier(comm_), name(), "MPI_Barrier");
  }
  double do_host_max(double value) override {
    const Pulse::In pulse = in("maximum");
    double result = value;
    need(MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm_), name(), "MPI_Allreduce");
    return result;
  }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int to) override {
    const Pulse::In pulse = in("gather");
    const auto own = static_cast<std::int64_t>(mine.size());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(size()));
    need(MPI_Allgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, comm_), name(), "MPI_Allgather");
    const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
    const bool gets = to == kEveryRank || to == rank();
    std::vector<Bytes> all(sizes.size());
    // In rounds, so that no count leaves the range of MPI's.
    const std::int64_t most = std::max<std::int64_t>(1, kGatherBytes / size());
    for (std::int64_t begin = 0; begin < longest; begin += most) {
      Cuts cuts;
      int total = 0;
      for (const std::int64_t n : sizes) {
        cuts.counts.push_back(static_cast<int>(std::clamp<std::int64_t>(n - begin, 0, most)));
        cuts.begins.push_back(total);
        total += cuts.counts.back();
      }
      Bytes round(gets ? static_cast<std::size_t>(total) : 0);
      const std::byte* const part = mine.data() + std::min(begin, own);
      const int n = cuts.counts[static_cast<std::size_t>(rank())];
      if (to == kEveryRank)
        need(MPI_Allgatherv(part, n, MPI_BYTE, round.data(), cuts.counts.data(), cuts.begins.data(), MPI_BYTE, comm_),
             name(), "MPI_Allgatherv");
      else
        need(MPI_Gatherv(part, n, MPI_BYTE, round.data(), cuts.counts.data(), cuts.begins.data(), MPI_BYTE, to, comm_),
             name(), "MPI_Gatherv");
      if (!gets) continue;
      for (std::size_t r = 0; r < all.size(); ++r) {
        const auto from = round.begin() + cuts.begins[r];
        all[r].insert(all[r].end(), from, from + cuts.counts[r]);
      }
    }
    return all;
  }

 private:
  void perform(const AllReduce& c) {
    const Pulse::In pulse = in("all_reduce");
    for_chunks(c.x, [&](std::byte* data, int n) {
      need(MPI_Allreduce(MPI_IN_PLACE, data, n, type_of(c.x.dtype()), mpi_op(c.x.dtype(), c.op), comm_), name(),
           "MPI_Allreduce");
    });
  }
  // Nothing moves a started reduction on while a rank computes, and on one host Open MPI's takes up to five times as long as the
  // one that blocks: two ranks reduced 13 MB of gradients in 14.5 ms and in 2.8 to 4.4.
  std::unique_ptr<Pending> started(const AllReduce& c) {
    auto pending = std::make_unique<Requests>(name(), pulse_, number_);
    if (on_one_host_) {
      perform(c);
      return pending;
    }
    const Pulse::In pulse = in("start all_reduce");
    for_chunks(c.x, [&](std::byte* data, int n) {
      need(
          MPI_Iallreduce(MPI_IN_PLACE, data, n, type_of(c.x.dtype()), mpi_op(c.x.dtype(), c.op), comm_, pending->add()),
          name(), "MPI_Iallreduce");
    });
    return pending;
  }
  void perform(const AllGather& c) {
    const auto& [in, out] = c;
    const Pulse::In pulse = this->in("all_gather");
    const int n = count(in.numel());
    const void* const mine = overlap(in, out) ? MPI_IN_PLACE : in.data();
    need(MPI_Allgather(mine, n, type_of(in.dtype()), out.data(), n, type_of(in.dtype()), comm_), name(),
         "MPI_Allgather");
  }
  void perform(const ReduceScatter& c) {
    const auto& [in, out] = c;
    const Pulse::In pulse = this->in("reduce_scatter");
    if (adds(in.dtype()) && out.bytes() >= kSumFrom) return sum_parts(in.data(), out.data(), out.bytes(), in.dtype());
    // In place, MPI leaves every rank's part where the first one's is.
    const bool in_place = overlap(in, out);
    need(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : in.data(), in_place ? in.data() : out.data(),
                                  count(out.numel()), type_of(in.dtype()), mpi_op(in.dtype(), ReduceOp::sum), comm_),
         name(), "MPI_Reduce_scatter_block");
    if (in_place && rank() > 0) std::memcpy(out.data(), in.data(), out.bytes());
  }
  void perform(const AllToAll& c) {
    const auto& [in, out, send_rows, receive_rows] = c;
    const Pulse::In pulse = this->in("all_to_all");
    const MPI_Datatype type = type_of(in.dtype());
    if (c.equal()) {
      const int n = count(in.numel()) / size();
      need(MPI_Alltoall(in.data(), n, type, out.data(), n, type, comm_), name(), "MPI_Alltoall");
      return;
    }
    const Cuts send = cuts(in, send_rows), receive = cuts(out, receive_rows);
    need(MPI_Alltoallv(in.data(), send.counts.data(), send.begins.data(), type, out.data(), receive.counts.data(),
                       receive.begins.data(), type, comm_),
         name(), "MPI_Alltoallv");
  }
  std::unique_ptr<Pending> started(const AllToAll& c) {
    const auto& [in, out, send_rows, receive_rows] = c;
    const Pulse::In pulse = this->in("start all_to_all");
    const MPI_Datatype type = type_of(in.dtype());
    auto pending = std::make_unique<Requests>(name(), pulse_, number_);
    if (c.equal()) {
      const int n = count(in.numel()) / size();
      need(MPI_Ialltoall(in.data(), n, type, out.data(), n, type, comm_, pending->add()), name(), "MPI_Ialltoall");
      return pending;
    }
    const Cuts& send = pending->keep(cuts(in, send_rows));
    const Cuts& receive = pending->keep(cuts(out, receive_rows));
    need(MPI_Ialltoallv(in.data(), send.counts.data(), send.begins.data(), type, out.data(), receive.counts.data(),
                        receive.begins.data(), type, comm_, pending->add()),
         name(), "MPI_Ialltoallv");
    return pending;
  }
  void perform(const Broadcast& c) {
    const Pulse::In pulse = in("broadcast");
    need(MPI_Bcast(c.x.data(), count(c.x.numel()), type_of(c.x.dtype()), c.root, comm_), name(), "MPI_Bcast");
  }
  void perform(const Reduce& c) {
    const Pulse::In pulse = in("reduce");
    for_chunks(c.x, [&](std::byte* data, int n) {
      need(MPI_Reduce(rank() == c.root ? MPI_IN_PLACE : data, data, n, type_of(c.x.dtype()),
                      mpi_op(c.x.dtype(), ReduceOp::sum), c.root, comm_),
           name(), "MPI_Reduce");
    });
  }
  std::unique_ptr<Pending> started(const Send& c) {
    const Pulse::In pulse = in("start send");
    auto pending = std::make_unique<Requests>(name(), pulse_, number_);
    need(MPI_Isend(c.x.data(), count(c.x.numel()), type_of(c.x.dtype()), c.to, c.tag, comm_, pending->add()), name(),
         "MPI_Isend");
    return pending;
  }
  std::unique_ptr<Pending> started(const Receive& c) {
    const Pulse::In pulse = in("start receive");
    auto pending = std::make_unique<Requests>(name(), pulse_, number_);
    need(MPI_Irecv(c.x.data(), count(c.x.numel()), type_of(c.x.dtype()), c.from, c.tag, comm_, pending->add()), name(),
         "MPI_Irecv");
    return pending;
  }
  // Those that MPI has no call for, or whose own could not overlap.
  void perform(const ForwardedAllToAll& c) {
    for (const AllToAll& each : c.each()) perform(each);
  }
  std::unique_ptr<Pending> started(const ForwardedAllToAll& c) {
    std::vector<std::unique_ptr<Pending>> all;
    for (const AllToAll& each : c.each()) all.push_back(started(each));
    return all_of(std::move(all));
  }
  void perform(const Shift& c) { perform(c.exchange(member())); }
  std::unique_ptr<Pending> started(const Shift& c) { return started(c.exchange(member())); }
  void perform(const Send& c) { started(c)->wait(); }
  void perform(const Receive& c) { started(c)->wait(); }
  template <class Other>
  std::unique_ptr<Pending> started(const Other& c) {
    perform(c);
    return std::make_unique<Requests>(name(), pulse_, number_);
  }
  Pulse::In in(const char* what) { return {pulse_, what, number_}; }
  // The parts of a tensor for, or from, each rank, in elements.
  Cuts cuts(const Tensor& x, const std::vector<std::int64_t>& rows) const {
    const std::int64_t row = x.shape()[0] == 0 ? 0 : x.numel() / x.shape()[0];
    count(x.numel());
    Cuts cuts;
    std::int64_t begin = 0;
    for (const std::int64_t n : rows) {
      cuts.counts.push_back(static_cast<int>(n * row));
      cuts.begins.push_back(static_cast<int>(begin * row));
      begin += n;
    }
    return cuts;
  }
  // out = this rank's part of the sum of the ranks' `in`: each sends the others their parts, a piece at a time, and adds up its own.
  // `out` may be this rank's part of `in`.
  void sum_parts(const std::byte* in, std::byte* out, std::size_t part, DType type) {
    const auto ranks = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank()), element = size_of(type);
    const std::size_t most = std::max<std::size_t>(kSumBytes / ranks, 64) / 64 * 64;
    pieces_.resize(ranks * most);
    Cuts send{std::vector<int>(ranks), std::vector<int>(ranks)}, receive = send;
    std::vector<const std::byte*> pieces(ranks);
    for (std::size_t at = 0; at < part; at += most) {
      const std::size_t n = std::min(most, part - at);
      for (std::size_t r = 0; r < ranks; ++r) {
        send.counts[r] = receive.counts[r] = r == me ? 0 : static_cast<int>(n / element);
        send.begins[r] = count(static_cast<std::int64_t>((r * part + at) / element));
        receive.begins[r] = static_cast<int>(r * most / element);
        pieces[r] = r == me ? in + me * part + at : pieces_.data() + r * most;
      }
      need(MPI_Alltoallv(in, send.counts.data(), send.begins.data(), type_of(type), pieces_.data(),
                         receive.counts.data(), receive.begins.data(), type_of(type), comm_),
           name(), "MPI_Alltoallv");
      switch (type) {
        case DType::bf16:
          add_up<bf16>(pieces, out + at, n);
          break;
        case DType::f16:
          add_up<f16>(pieces, out + at, n);
          break;
        default:
          add_up<float>(pieces, out + at, n);
      }
    }
  }
  int count(std::int64_t n) const {
    check(n <= 0x7FFFFFFF, "mpi", "a message of {} elements in group {}, need at most 2^31 - 1", n, name());
    return static_cast<int>(n);
  }
  MPI_Op mpi_op(DType t, ReduceOp op) const {
    if (t == DType::bf16 || t == DType::f16) return half_ops_.of(t, op);
    return op == ReduceOp::sum ? MPI_SUM : MPI_MAX;
  }
  template <class Call>
  void for_chunks(const Tensor& x, const Call& call) {
    const std::int64_t step = static_cast<std::int64_t>(kChunkBytes / size_of(x.dtype()));
    for (std::int64_t i = 0; i < x.numel(); i += step)
      call(x.data() + static_cast<std::size_t>(i) * size_of(x.dtype()),
           static_cast<int>(std::min(step, x.numel() - i)));
  }
  MPI_Comm comm_;
  bool on_one_host_;
  Pulse* pulse_;
  int number_;  // of this group, to the pulse
  HalfOps half_ops_;
  std::vector<std::byte> pieces_;  // of the other ranks, as they are added up
};

}  // namespace

MpiWorld::MpiWorld() {
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiWorld::MpiWorld(int size) {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_split(MPI_COMM_WORLD, me < size ? 0 : MPI_UNDEFINED, me, &comm_);
  if (comm_ == MPI_COMM_NULL) return;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

void MpiWorld::post(int to, int kind, std::span<const std::byte> letter) {
  forget_arrived();
  Letter& l = posted_.emplace_back(Letter{{letter.begin(), letter.end()}, MPI_REQUEST_NULL});
  need(MPI_Isend(l.bytes.data(), static_cast<int>(l.bytes.size()), MPI_BYTE, to, kind, comm_, &l.sending), "of letters",
       "MPI_Isend");
}

std::optional<std::vector<std::byte>> MpiWorld::collect(int from, int kind) {
  forget_arrived();
  int here = 0, size = 0;
  MPI_Status status;
  need(MPI_Iprobe(from, kind, comm_, &here, &status), "of letters", "MPI_Iprobe");
  if (!here) return std::nullopt;
  need(MPI_Get_count(&status, MPI_BYTE, &size), "of letters", "MPI_Get_count");
  std::vector<std::byte> letter(static_cast<std::size_t>(size));
  need(MPI_Recv(letter.data(), size, MPI_BYTE, from, kind, comm_, MPI_STATUS_IGNORE), "of letters", "MPI_Recv");
  return letter;
}

void MpiWorld::forget_arrived() {
  for (int sent = 1; !posted_.empty();) {
    need(MPI_Test(&posted_.front().sending, &sent, MPI_STATUS_IGNORE), "of letters", "MPI_Test");
    if (!sent) return;
    posted_.pop_front();
  }
}

MpiWorld::~MpiWorld() {
  for (Letter& l : posted_) MPI_Wait(&l.sending, MPI_STATUS_IGNORE);
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

std::unique_ptr<Group> MpiWorld::group(Device& device, const GroupName& name, const std::vector<int>& members) {
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "mpi", "rank {} is not a member of group {}", rank_, name.text);
  MPI_Group all, some;
  MPI_Comm comm;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  need(MPI_Comm_create_group(comm_, some, 0, &comm), name.text, "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return std::make_unique<MpiGroup>(device, name, comm, static_cast<int>(me - members.begin()),
                                    static_cast<int>(members.size()), pulse_);
}

}  // namespace mbench::comm
