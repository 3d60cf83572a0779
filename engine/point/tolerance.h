// How much the losses and gradient norms of two runs of one training may differ, relative to the larger one. The runs have two layouts (a
// sweep's check), or one layout before and after a change of software (the gate). Both differ only by the order of sums, so both have these
// limits. Two runs of one program give the same bits. Where a layout decides what is computed, two layouts are two trainings.
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "engine/point/choices.h"

namespace mbench {

struct Point;

// The precision whose limits a point has: its own, or another that rounds as coarsely as something in the point.
Precision tolerance_of(const Point& point);

// What of a training its layout decides, in words; empty if nothing. Layouts that differ in it are two trainings. With router capacity:F it
// is which tokens a rank dispatches together, since an expert drops some of them. With Adafactor it is whether keys and values are a matrix
// of their own, as where several ranks of tp have them whole.
std::string decided_by_layout(const Point& point);

// `step` counts from 0, warm-up included.
double loss_tolerance(Precision precision, std::size_t step);
// The same layout, on the same machine, by a program of the same compiler and libraries: in f32 a tenth of it. Such runs do the same sums
// in the same order. The limit leaves room for a change of ours that reorders some.
double repeated_loss_tolerance(Precision precision, std::size_t step);
// Nothing for a step whose norm has no meaning any more.
std::optional<double> gradient_norm_tolerance(Precision precision, std::size_t step);

// a - b| relative to the larger one, which counts as `least` at least. The difference of two values that are not finite is 0; of one
// that is not and one that is, infinite.
double relative_difference(double a, double b, double least = 1e-12);

}  // namespace mbench
