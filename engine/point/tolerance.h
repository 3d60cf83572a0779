// How far the losses and gradient norms of two runs of one training may be apart, relative to the larger one:
// of two layouts (a sweep's check), or of one layout before and after a change of software (the gate). Both
// differ by the order of sums alone, so both have these limits; two runs of one program give the same bits. Where a layout decides
// what is computed, two layouts are two trainings.
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "engine/point/choices.h"

namespace mbench {

struct Point;

// The precision whose limits a point has: its own, or one that rounds as coarsely as something else in it.
Precision tolerance_of(const Point& point);

// What of a training its layout decides, in words; layouts that differ in it are two trainings. With router capacity:F it is which tokens
// a rank dispatches together, of which an expert drops some; with Adafactor whether keys and values are a matrix of their own, as where
// several ranks of tp have them whole. Empty where it decides nothing.
std::string decided_by_layout(const Point& point);

// `step` counts from 0, warm-up included.
double loss_tolerance(Precision precision, std::size_t step);
// The same layout, on the same machine, by a program of the same compiler and libraries: in f32 a tenth of it. Such runs do the same
// sums in the same order; what is left is for a change of ours that orders some otherwise.
double repeated_loss_tolerance(Precision precision, std::size_t step);
// Nothing for a step whose norm says nothing any more.
std::optional<double> gradient_norm_tolerance(Precision precision, std::size_t step);

// |a - b| relative to the larger one, which counts as `least` at least. Two that are not finite are 0 apart,
// one that is not is infinitely far from any that is.
double relative_difference(double a, double b, double least = 1e-12);

}  // namespace mbench
