#include "engine/backend/cuda/attention/flash_graph.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"

namespace mbench::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

std::string_view op_name(const FlashShape& s) {
  return s.gradient ? ops::AttentionGrad::name : ops::Attention::name;
}

// One line that an error can carry: cuDNN tells of every engine it tried, one below the other.
std::string one_line(std::string text) {
  constexpr std::size_t most = 600;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == b && (a == ' ' || a == '_'); }),
             text.end());
  if (text.size() > most) text = text.substr(0, most) + " ...";
  return text;
}

void need(const FlashShape& s, const char* step, fe::error_t status) {
  if (status.is_good()) return;
  if (is_full(status))
    fail(ErrorKind::out_of_memory, op_name(s), "cuDNN found no memory for its kernels at \"{}\", got {}", step,
         one_line(status.get_message()));
  const auto code = status.get_code();
  const bool refused = code == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
                       code == fe::error_code_t::HEURISTIC_QUERY_FAILED ||
                       code == fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED ||
                       code == fe::error_code_t::UNSUPPORTED_GRAPH_FORMAT;
  fail(refused ? ErrorKind::unsupported : ErrorKind::internal, op_name(s),
       "cuDNN has no fused kernel for {} samples x {} heads x seq {} x head_dim {}, {}{}{}, got at \"{}\": "
       "{}; need "
       "other sizes or attention \"core\"",
       s.batch, s.heads, s.seq, s.head_dim, name_of(s.type), s.causal ? ", causal" : "", s.padded ? ", padded" : "",
       step, one_line(status.get_message()));
}

fe::DataType_t type_of(const FlashShape& s) {
  return s.type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

// Builds the graph's tensors.
class Builder {
 public:
  Builder(const FlashShape& shape, Graph& graph) : s_(shape), graph_(graph) {}

  TensorPtr input(FlashTensor name, const FlashView& view) const { return graph_.tensor(place(name, view)); }
  void output(const TensorPtr& tensor, FlashTensor name, const FlashView& view) const {
    *tensor = place(name, view);
    tensor->set_output(true);
  }
  Tensor_attributes row_statistics() const {
    return Tensor_attributes()
        .set_uid(kFlashLse)
        .set_dim({s_.batch, s_.heads, s_.seq, 1})
        .set_stride({s_.heads * s_.statistics_rows(), s_.statistics_rows(), 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  // Keys hidden from every query and keys after it. All queries are computed, those of padding too, as on the
  // CPU.
  template <class Attributes>
  void mask(Attributes& attention) const {
    attention.set_attn_scale(s_.scale);
    if (s_.causal) attention.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (s_.window > 0) attention.set_diagonal_band_left_bound(s_.window);  // so many keys, the query's own the last
    if (s_.padded)
      attention.set_padding_mask(true)
          .set_seq_len_q(lengths(kFlashQueryLengths))
          .set_seq_len_kv(lengths(kFlashKeyLengths));
  }

 private:
  static bool of_keys(FlashTensor name) {
    return name == kFlashK || name == kFlashV || name == kFlashDK || name == kFlashDV;
  }
  static bool of_values(FlashTensor name) {
    return name == kFlashV || name == kFlashDV || name == kFlashOut || name == kFlashDOut;
  }
  Tensor_attributes place(FlashTensor name, const FlashView& view) const {
    return Tensor_attributes()
        .set_uid(name)
        .set_dim({s_.batch, of_keys(name) ? s_.key_heads : s_.heads, s_.seq, of_values(name) ? s_.v_dim : s_.head_dim})
        .set_stride({view.sample, view.head, view.row, 1})
        .set_data_type(type_of(s_));
  }
  TensorPtr lengths(FlashTensor name) const {
    return graph_.tensor(Tensor_attributes()
                             .set_uid(name)
                             .set_dim({s_.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  const FlashShape& s_;
  Graph& graph_;
};

void forward(const FlashShape& s, Graph& graph) {
  const Builder b(s, graph);
  fe::graph::SDPA_attributes attention;
  attention.set_name("attention").set_generate_stats(true);
  b.mask(attention);
  const auto [out, lse] = graph.sdpa(b.input(kFlashQ, s.q), b.input(kFlashK, s.k), b.input(kFlashV, s.v), attention);
  b.output(out, kFlashOut, s.out);
  *lse = b.row_statistics();  // max + log(sum of exp(scale * score - max)): the natural logarithm, as the op's
  lse->set_output(true);
}

// Deterministic: each block of dQ is a product over all keys instead of sums that blocks add in the order
// they arrive in. That needs the gradient of the scores in memory, which is why it is computed in pieces
// (ops/attention_pieces.h): of cuDNN 9.19's plans for compute capability 9.0, 8 samples, 16 heads, seq 2048,
// head_dim 128, this one would take 1025 MiB of workspace at once, the other one takes 129.
void backward(const FlashShape& s, Graph& graph) {
  const Builder b(s, graph);
  fe::graph::SDPA_backward_attributes attention;
  attention.set_name("attention_grad").set_deterministic_algorithm(s.deterministic);
  b.mask(attention);
  const auto [dq, dk, dv] = graph.sdpa_backward(b.input(kFlashQ, s.q), b.input(kFlashK, s.k), b.input(kFlashV, s.v),
                                                b.input(kFlashOut, s.out), b.input(kFlashDOut, s.dout),
                                                graph.tensor(b.row_statistics()), attention);
  b.output(dq, kFlashDQ, s.dq);
  b.output(dk, kFlashDK, s.dk);
  b.output(dv, kFlashDV, s.dv);
}

std::unique_ptr<Graph> make_plan(const FlashShape& s, cudnnHandle_t handle, const std::string& device) {
  auto graph = std::make_unique<Graph>();
  graph->set_io_data_type(type_of(s))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (!device.empty()) {
    auto properties = std::make_shared<fe::DeviceProperties>();
    need(s, "device properties", properties->deserialize({device.begin(), device.end()}));
    graph->set_device_properties(std::move(properties));
  }
  (s.gradient ? backward : forward)(s, *graph);
  need(s, "validate", graph->validate());
  need(s, "build_operation_graph", graph->build_operation_graph(handle));
  need(s, "create_execution_plans", graph->create_execution_plans({fe::HeurMode_t::A}));
  need(s, "check_support", graph->check_support());
  // The heuristic's first that builds, not the fastest of a measurement: the same on all ranks and in all
  // runs.
  need(s, "build_plans", graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  return graph;
}

}  // namespace

std::unique_ptr<Graph> plan_flash(const FlashShape& s, cudnnHandle_t handle, const std::string& device) {
  try {
    return make_plan(s, handle, device);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {  // the frontend mostly returns its errors, but not all of them
    fail(ErrorKind::internal, op_name(s), "cuDNN's frontend threw, got {}", one_line(e.what()));
  }
}

bool is_full(const fe::error_t& status) {
  const std::string& said = status.err_msg;
  for (const char* word : {"ALLOCATION_FAILED", "OUT_OF_MEMORY", "out of memory"})
    if (said.find(word) != std::string::npos) return true;
  return false;
}

std::int64_t workspace_of(const Graph& plan) {
  std::int64_t bytes = 0;
  fe::error_t status = plan.get_workspace_size(bytes);
  check(status.is_good(), ops::Attention::name, "workspace of a plan of cuDNN, got {}", status.get_message());
  return bytes;
}

}  // namespace mbench::cuda
