// The exchange of rows between the ranks of ep, sorted by expert on both sides.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/moe/expert_gemms.h"

namespace mbench::nn {

// How many rows go where, where the data decide. All of it is empty where every expert has the same number of rows.
struct ExpertWay {
  std::vector<std::int64_t> sent, received;  // rows to and from each rank of ep
  // [received rows, at least one] i64: which received row each row by expert is, and the inverse; -1: none.
  Tensor by_expert, by_rank;
  double fullest = 1;  // as ExpertRows has it
};

// How rows get to the experts: `counts[rank][expert]` rows come from the ranks for the experts of this one, and `sent`
// rows go to each rank. `rows` gets the number of rows of each expert.
ExpertWay way_of(Device& device, const std::vector<std::int64_t>& counts, std::vector<std::int64_t> sent,
                 ExpertRows& rows);

// From the rank of their tokens, with rows for all experts, to the ranks of the experts, and back. With one rank both are the same tensor.
class RowExchange {
 public:
  // `ranks`: of ep; `experts`: how many are on each.
  RowExchange(std::int64_t ranks, std::int64_t experts) : ranks_(ranks), experts_(experts) {}

  // In flight: overlaps with what is enqueued until finish(). Rows that did not travel are in flight too, and there at once.
  class InFlight {
   public:
    InFlight() = default;
    explicit InFlight(Tensor rows) : out_(std::move(rows)) {}
    // `own`: where a forward and a backward take turns, the other goes on before this waits in that way.
    Tensor finish(std::optional<Context::Way> own = std::nullopt);

   private:
    friend class RowExchange;
    Context* context_ = nullptr;
    Tensor in_, out_;
    std::unique_ptr<comm::Pending> pending_;
    std::int64_t ranks_ = 1, experts_ = 0;  // experts of a rank, where what arrives must be sorted by expert
    Tensor order_;                          // or the order to sort it by
    double fullest_ = 1;
  };
  enum class Towards { experts, tokens };  // from the tokens' rank to their experts' ranks, or back
  InFlight send(Context& context, Tensor rows, const ExpertWay& way, Towards towards) const;

 private:
  InFlight start(Context& context, Tensor rows) const;
  InFlight start(Context& context, Tensor rows, const std::vector<std::int64_t>& sent,
                 const std::vector<std::int64_t>& received) const;

  std::int64_t ranks_, experts_;
};

}  // namespace mbench::nn
