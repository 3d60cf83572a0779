#include "engine/comm/mpi/mpi_world.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/half.h"

namespace mbench {
namespace {

// MPI_Allreduce over shared memory is fastest at a few MiB a call: with two ranks 5-8 GB/s at 4 MiB, 1.4
// at 64.
constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

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
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i64:
      return MPI_INT64_T;
  }
  return MPI_BYTE;
}

class Requests final : public Pending {
 public:
  explicit Requests(std::string group) : group_(std::move(group)) {}
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void wait() override {
    need(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), group_,
         "MPI_Waitall");
  }

 private:
  std::string group_;
  std::vector<MPI_Request> requests_;
};

class MpiGroup final : public Group {
 public:
  MpiGroup(Device& device, const std::string& name, MPI_Comm comm, int rank, int size)
      : Group(device, name, rank, size), comm_(comm) {}
  ~MpiGroup() override { MPI_Comm_free(&comm_); }

  double host_max(double value) override {
    double result = value;
    need(MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm_), name(), "MPI_Allreduce");
    return result;
  }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    std::vector<double> all(values.size() * static_cast<std::size_t>(size()));
    const int n = static_cast<int>(values.size());
    need(MPI_Allgather(values.data(), n, MPI_DOUBLE, all.data(), n, MPI_DOUBLE, comm_), name(),
         "MPI_Allgather");
    return all;
  }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp op) override {
    for_chunks(x, [&](std::byte* data, int n) {
      need(MPI_Allreduce(MPI_IN_PLACE, data, n, type_of(x.dtype()), mpi_op(x.dtype(), op), comm_), name(),
           "MPI_Allreduce");
    });
  }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    auto pending = std::make_unique<Requests>(name());
    for_chunks(x, [&](std::byte* data, int n) {
      need(MPI_Iallreduce(MPI_IN_PLACE, data, n, type_of(x.dtype()), mpi_op(x.dtype(), ReduceOp::sum), comm_,
                          pending->add()),
           name(), "MPI_Iallreduce");
    });
    return pending;
  }
  void do_all_gather(const Tensor& in, const Tensor& out) override {
    const int n = count(in.numel());
    need(MPI_Allgather(in.data(), n, type_of(in.dtype()), out.data(), n, type_of(in.dtype()), comm_), name(),
         "MPI_Allgather");
  }
  void do_reduce_scatter(const Tensor& in, const Tensor& out) override {
    need(MPI_Reduce_scatter_block(in.data(), out.data(), count(out.numel()), type_of(in.dtype()),
                                  mpi_op(in.dtype(), ReduceOp::sum), comm_),
         name(), "MPI_Reduce_scatter_block");
  }
  void do_broadcast(const Tensor& x, int root) override {
    need(MPI_Bcast(x.data(), count(x.numel()), type_of(x.dtype()), root, comm_), name(), "MPI_Bcast");
  }
  std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) override {
    auto pending = std::make_unique<Requests>(name());
    need(MPI_Isend(x.data(), count(x.numel()), type_of(x.dtype()), to, tag, comm_, pending->add()), name(),
         "MPI_Isend");
    return pending;
  }
  void do_receive(const Tensor& x, int from, int tag) override {
    need(MPI_Recv(x.data(), count(x.numel()), type_of(x.dtype()), from, tag, comm_, MPI_STATUS_IGNORE),
         name(), "MPI_Recv");
  }
  void do_barrier() override { need(MPI_Barrier(comm_), name(), "MPI_Barrier"); }

 private:
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
  HalfOps half_ops_;
};

}  // namespace

MpiSession::MpiSession() {
  // One thread of a rank talks to MPI; its OpenMP threads never do.
  int provided = 0;
  // Ranks share cores more often than not on a CPU: a rank that waits gives its core away. Whoever starts the
  // job may say otherwise.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

namespace {

// Asks the ranks of this host, as one communicator.
template <class Ask>
int ask_host(const Ask& ask) {
  MPI_Comm host;
  int n = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  ask(host, &n);
  MPI_Comm_free(&host);
  return n;
}

}  // namespace

int MpiSession::ranks_here() const {
  return ask_host(MPI_Comm_size);
}

int MpiSession::rank_here() const {
  return ask_host(MPI_Comm_rank);
}

void MpiSession::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

std::string MpiSession::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string s(text, length);
  return s.substr(0, s.find_first_of(",\n"));
}

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

MpiWorld::~MpiWorld() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

std::unique_ptr<Group> MpiWorld::group(Device& device, const std::string& name,
                                       const std::vector<int>& members) {
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "mpi", "rank {} is not a member of group {}", rank_, name);
  MPI_Group all, some;
  MPI_Comm comm;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  need(MPI_Comm_create_group(comm_, some, 0, &comm), name, "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return std::make_unique<MpiGroup>(device, name, comm, static_cast<int>(me - members.begin()),
                                    static_cast<int>(members.size()));
}

}  // namespace mbench
