// Whether a program that switches between two states explains two runs as well as a change between them does. One run may be nearly all
// in one state, and another nearly all in the other. Neither shows by itself that there are states. Both together do: a few samples of
// one run lie at the level of the other.
//
// Three models of the logarithms of samples are held against each other by their likelihood. Noise is Student's t with four degrees of
// freedom, of a width for each run. One sample in a thousand may lie anywhere.
//
//   states   Both runs have the same two levels and the same chance to switch at a step: a hidden Markov chain (Baum and others, 1970).
//            States last half a run at most. Longer ones no run can show.
//   change   Each run has one level.
//   mode     A run has two levels of its own, and a chance of its own. That costs ln n for the level and the chance, as the Bayesian
//            information criterion has it (Schwarz, 1978).
#pragma once
#include <vector>

namespace mbench::reports {

struct ChangeEvidence {
  double log = 0;  // of how many times as likely the better of `change` and `mode` makes the samples as `states` does
  bool flat = false;  // neither run is likelier with two levels of its own
};
// Positive samples in the order they were taken, at least 5 of each. Of long runs the means of neighbours are judged.
ChangeEvidence evidence_of_change(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace mbench::reports
