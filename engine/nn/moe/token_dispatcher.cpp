#include "engine/nn/moe/token_dispatcher.h"

#include "engine/nn/moe/all_gather.h"
#include "engine/nn/moe/all_to_all.h"
#include "engine/nn/moe/flex.h"

namespace mbench::nn {

DispatchWays::DispatchWays(const Plan& plan, const MoeSpec& spec)
    : tokens(Transition::between(plan.role(spec.expert.fc1.role).input, plan.role(spec.expert.fc1.role).consumed,
                                 plan.mesh)),
      sums(Transition::between(plan.role(spec.expert.fc2.role).gemm, plan.role(spec.expert.fc2.role).output,
                               plan.mesh)) {}

std::unique_ptr<TokenDispatcher> make_dispatcher(const Plan& plan, const MoeSpec& spec) {
  switch (plan.ep_communication) {
    case EpCommunication::all_to_all:
      return std::make_unique<AllToAll>(plan, spec);
    case EpCommunication::all_gather:
      return std::make_unique<AllGather>(plan, spec);
    case EpCommunication::flex:
      // With one rank of ep all tokens are here already.
      if (plan.mesh.size(Axis::ep) == 1) return std::make_unique<AllGather>(plan, spec, HostWork::moe);
      return std::make_unique<Flex>(plan, spec);
  }
  fail(ErrorKind::internal, "token_dispatcher", "no dispatcher for this ep_communication");
}

}  // namespace mbench::nn
