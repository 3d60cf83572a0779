// Keys and values in flight between the ranks of cp, and their gradients in flight back. A share is what one rank has
// of them. There are as many steps as ranks. In step s a rank works on the share of the rank s places before it: on its
// own first.
#pragma once
#include <memory>

#include "engine/nn/attention/context_attention.h"

namespace mbench::nn {

class SharedKeys {
 public:
  // `own` is in use until the last step.
  SharedKeys(Context& context, KeysBy way, Tensor own);
  ~SharedKeys();
  // The share of that step, asked for in the order of the steps. The next share is in flight from then on.
  Tensor share(int step);

 private:
  Context& context_;
  KeysBy way_;
  comm::Group& ranks_;
  Tensor now_, next_;
  std::unique_ptr<comm::Pending> arriving_;
};

class SharedKeyGradients {
 public:
  SharedKeyGradients(Context& context, KeysBy way, Shape share);
  ~SharedKeyGradients();
  // To which the gradients of that step's share are added; then added() is called. It has zeros, unless it need not be `zeroed`.
  Tensor place(int step, bool zeroed);
  void added(int step);
  // Those of this rank's own share, from all ranks.
  Tensor finish();

 private:
  Tensor zeros(const Shape& shape) const;
  void arrived();

  Context& context_;
  KeysBy way_;
  comm::Group& ranks_;
  Shape share_;
  Tensor all_;                    // gathered: of every rank's share
  Tensor own_, mine_;             // ring: of the own share, of the one that is worked on
  Tensor sent_, from_neighbour_;  // ring: in flight
  std::unique_ptr<comm::Pending> arriving_;
};

}  // namespace mbench::nn
