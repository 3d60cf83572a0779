// Shapes that step times have, drawn with known truth. In some runs nothing changed. In others the mean step became longer, in many
// ways; a median does not see all of them. Tests check what the gate makes of them, and bench/gate_rates prints it.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reports/gate/time_verdict.h"

namespace mbench::shapes {

using Random = std::mt19937_64;
using Steps = std::vector<double>;
using Draw = std::function<Steps(Random&, int)>;  // so many steps, about 1

struct Shape {
  const char* name;
  Draw base, now;
};

inline double gauss(Random& random) {
  return std::normal_distribution<double>()(random);
}
inline double uniform(Random& random) {
  return std::uniform_real_distribution<double>()(random);
}

// Steps one by one; `step` has their index and number too.
template <class Step>
Draw by_step(Step step) {
  return [step](Random& random, int n) {
    Steps steps;
    for (int i = 0; i < n; ++i) steps.push_back(step(random, i, n));
    return steps;
  };
}

constexpr double kNoise = 0.02;
inline double noisy(Random& random) {
  return 1 + kNoise * gauss(random);
}
inline Draw normal() {
  return by_step([](Random& random, int, int) { return noisy(random); });
}
// Noise around 1 times a factor of the step.
template <class Factor>
Draw factor(Factor of) {
  return by_step([of](Random& random, int i, int n) { return noisy(random) * of(random, i, n); });
}

// Two states. Each lasts so many steps on average.
inline Draw lasting_states(double low, double high, double noise, double stay = 8) {
  return [=](Random& random, int n) {
    Steps steps;
    bool slow = uniform(random) < 0.5;
    for (int i = 0; i < n; ++i) {
      if (uniform(random) < 1 / stay) slow = !slow;
      steps.push_back((slow ? high : low) * (1 + noise * gauss(random)));
    }
    return steps;
  };
}

// Any of three states. Each lasts so many steps on average.
inline Draw three_states(double apart, double stay) {
  return [=](Random& random, int n) {
    Steps steps;
    double level = 1;
    for (int i = 0; i < n; ++i) {
      if (i == 0 || uniform(random) < 1 / stay) level = 1 + apart * std::floor(3 * uniform(random));
      steps.push_back(level * (1 + 0.005 * gauss(random)));
    }
    return steps;
  };
}

// Rising and falling back at once, or in waves, from any phase on.
inline Draw saw(int period, double by) {
  return [=](Random& random, int n) {
    Steps steps;
    const int first = static_cast<int>(uniform(random) * period);
    for (int i = 0; i < n; ++i)
      steps.push_back((1 + by * ((i + first) % period) / period) * (1 + 0.005 * gauss(random)));
    return steps;
  };
}
inline Draw wave(double period, double by) {
  return [=](Random& random, int n) {
    Steps steps;
    const double phase = uniform(random);
    for (int i = 0; i < n; ++i)
      steps.push_back((1 + by * std::sin(2 * M_PI * (i / period + phase))) * (1 + 0.005 * gauss(random)));
    return steps;
  };
}

// The level changes once, up or down, after any step.
inline Draw change_of_level(double by, double noise) {
  return [=](Random& random, int n) {
    Steps steps;
    const int at = static_cast<int>(uniform(random) * n);
    const bool high_first = uniform(random) < 0.5;
    for (int i = 0; i < n; ++i) steps.push_back(((i < at) == high_first ? 1 + by : 1) * (1 + noise * gauss(random)));
    return steps;
  };
}

// Every so many-th step is slow, from any of the first on.
inline Draw stalls_of(int period, double size) {
  return [=](Random& random, int n) {
    Steps steps;
    const int first = static_cast<int>(uniform(random) * period);
    for (int i = 0; i < n; ++i) steps.push_back(noisy(random) * ((i + first) % period == 0 ? size : 1));
    return steps;
  };
}

inline Draw autoregressive(double memory) {
  return [=](Random& random, int n) {
    Steps steps;
    double x = gauss(random);
    for (int i = 0; i < n; ++i) {
      steps.push_back(1 + kNoise * x);
      x = memory * x + std::sqrt(1 - memory * memory) * gauss(random);
    }
    return steps;
  };
}

inline Draw quantised(double clock) {
  return by_step([clock](Random& random, int, int) { return std::round(noisy(random) / clock) * clock; });
}

// One step of a run takes so many times as long, if chance has it so.
inline Draw spike(double chance, double least, double most) {
  return [=](Random& random, int n) {
    Steps steps = normal()(random, n);
    if (uniform(random) < chance)
      steps[static_cast<std::size_t>(uniform(random) * n)] *= least + (most - least) * uniform(random);
    return steps;
  };
}

inline std::vector<Shape> of_no_change() {
  const auto both = [](const char* name, const Draw& draw) { return Shape{name, draw, draw}; };
  return {
      both("constant", by_step([](Random&, int, int) { return 1.0; })),
      both("normal, 2 %", normal()),
      both("heavy tails, Student's t with 3 degrees", by_step([](Random& random, int, int) {
             return 1 + kNoise / std::sqrt(3.0) * std::student_t_distribution<double>(3)(random);
           })),
      both("skewed, exponential tail of 5 %",
           by_step([](Random& random, int, int) { return 1 - 0.05 * std::log(1 - uniform(random)); })),
      both("two states 4 % apart, step by step", by_step([](Random& random, int, int) {
             return (uniform(random) < 0.5 ? 0.98 : 1.02) + 0.003 * gauss(random);
           })),
      both("two states 4 % apart, eight steps each", lasting_states(0.98, 1.02, 0.003)),
      both("two states 4 % apart, forty steps each", lasting_states(0.98, 1.02, 0.003, 40)),
      both("two states 10 % apart, four steps each", lasting_states(1, 1.1, 0.003, 4)),
      both("two states 10 % apart, eight steps each", lasting_states(1, 1.1, 0.003)),
      both("two states 50 % apart, eight steps each", lasting_states(1, 1.5, kNoise)),
      both("two states 10 % apart, six steps each, 2 % noise", lasting_states(1, 1.1, kNoise, 6)),
      both("three states 6 % apart, five steps each", three_states(0.06, 5)),
      both("one change of level by 10 %, at any step", change_of_level(0.1, kNoise)),
      both("a saw of twelve steps and 10 %", saw(12, 0.1)),
      both("a wave of twenty steps and 4 %", wave(20, 0.04)),
      both("a drift of 6 % over the run, up or down",
           [](Random& random, int n) {
             Steps steps;
             const double by = uniform(random) < 0.5 ? -0.06 : 0.06;
             for (int i = 0; i < n; ++i) steps.push_back((1 + by * ((i + 0.5) / n - 0.5)) * noisy(random));
             return steps;
           }),
      {"one spike of 1.5 to 3 times, new run alone", normal(), spike(1, 1.5, 3)},
      {"one spike of 1.5 to 3 times, baseline alone", spike(1, 1.5, 3), normal()},
      both("a spike of 5 to 10 times in half of all runs", spike(0.5, 5, 10)),
      both("warm-up: 20 % at first, gone within ten steps",
           factor([](Random&, int i, int) { return 1 + 0.2 * std::exp(-i / 3.0); })),
      {"warm-up: three steps at 1.5x, new run alone", normal(),
       factor([](Random&, int i, int) { return i < 3 ? 1.5 : 1; })},
      both("autocorrelated, 0.5", autoregressive(0.5)),
      both("autocorrelated, 0.9", autoregressive(0.9)),
      both("autocorrelated, 0.95", autoregressive(0.95)),
      both("a clock of 1 %", quantised(0.01)),
      both("a clock of 5 %", quantised(0.05)),
      both("5 % of steps at 2x in both",
           factor([](Random& random, int, int) { return uniform(random) < 0.05 ? 2 : 1; })),
      both("25 % of steps at 1.5x in both",
           factor([](Random& random, int, int) { return uniform(random) < 0.25 ? 1.5 : 1; })),
      both("every 4th step at 3x in both, from any step on", stalls_of(4, 3)),
  };
}

// Nothing changed either, but what disturbs lasts half of a short run or longer. Then two runs may lie in different states from end to
// end, and no test of them can separate that from a change. Held in runs of five stays and more.
inline std::vector<Shape> of_long_memory() {
  const auto both = [](const char* name, const Draw& draw) { return Shape{name, draw, draw}; };
  return {
      both("two states 10 % apart, fifteen steps each", lasting_states(1, 1.1, 0.003, 15)),
      both("two states 20 % apart, ten steps each, 5 % noise", lasting_states(1, 1.2, 0.05, 10)),
      both("two states 5 % apart, fifteen steps each, 2 % noise", lasting_states(1, 1.05, kNoise, 15)),
      both("two states 4 % apart, forty steps each, 2 % noise", lasting_states(0.98, 1.02, kNoise, 40)),
      both("two states 10 % apart, forty steps each", lasting_states(1, 1.1, 0.003, 40)),
      both("two states 20 % apart, forty steps each, 2 % noise", lasting_states(1, 1.2, kNoise, 40)),
      both("half of the noise autocorrelated, 0.95",
           [](Random& random, int n) {
             Steps steps = autoregressive(0.95)(random, n);
             for (double& x : steps) x = 1 + std::sqrt(0.5) * (x - 1 + kNoise * gauss(random));
             return steps;
           }),
  };
}

// Each makes the mean step longer by this share.
inline std::vector<Shape> of_longer(double by) {
  const auto made = [](const char* name, const Draw& now) { return Shape{name, normal(), now}; };
  const auto some = [by](double share) {
    return factor([=](Random& random, int, int) { return uniform(random) < share ? 1 + by / share : 1; });
  };
  const auto every = [by](int period) {
    return factor([=](Random&, int i, int) { return i % period == period - 1 ? 1 + by * period : 1; });
  };
  const auto within = [by](double begin, double end) {  // the same steps of each run, in a row
    return factor([=](Random&, int i, int n) {
      return i >= std::lround(begin * n) && i < std::lround(end * n) ? 1 + by / (end - begin) : 1;
    });
  };
  return {
      made("every step", factor([=](Random&, int, int) { return 1 + by; })),
      made("every 2nd step", every(2)),
      made("every 4th step", every(4)),
      made("every 10th step", every(10)),
      made("25 % of steps, at random", some(0.25)),
      made("10 % of steps, at random", some(0.1)),
      made("5 % of steps, at random", some(0.05)),
      made("a mode: half of all steps, at random", some(0.5)),
      made("exponential tail",
           by_step([=](Random& random, int, int) { return noisy(random) - by * std::log(1 - uniform(random)); })),
      made("states of eight steps each, half of them slow", lasting_states(1, 1 + 2 * by, kNoise)),
      made("from the middle on", within(0.5, 1)),
      made("from a fifth of the run on", within(0.2, 1)),
      made("until the middle", within(0, 0.5)),
      made("an episode: a fifth of the run in a row", within(0.4, 0.6)),
      made("a burst: a tenth of the run in a row", within(0.4, 0.5)),
      made("the last tenth", within(0.9, 1)),
      made("the first tenth", within(0, 0.1)),
      made("rising from nothing to twice as much",
           factor([=](Random&, int i, int n) { return 1 + 2 * by * (i + 0.5) / n; })),
      made("falling from twice as much to nothing",
           factor([=](Random&, int i, int n) { return 1 + 2 * by * (1 - (i + 0.5) / n); })),
      made("most steps 5 % faster, every 5th slower",
           factor([=](Random&, int i, int) { return i % 5 == 4 ? 5 * (1 + by - 0.8 * 0.95) : 0.95; })),
      made("most steps 5 % faster, one slower in each ten",
           [=](Random& random, int n) {
             Steps steps = factor([](Random&, int, int) { return 0.95; })(random, n);
             for (int ten = 0; ten + 10 <= n; ten += 10)
               steps[static_cast<std::size_t>(ten + uniform(random) * 10)] += 10 * (by + 0.05);
             return steps;
           }),
      made("one spike",
           [=](Random& random, int n) {
             Steps steps = normal()(random, n);
             steps[static_cast<std::size_t>(uniform(random) * n)] += by * n;
             return steps;
           }),
      {"stalls at 2x: of 5 % of steps, and more now",
       factor([](Random& random, int, int) { return uniform(random) < 0.05 ? 2 : 1; }),
       factor([=](Random& random, int, int) { return uniform(random) < 0.05 + by ? 2 : 1; })},
  };
}

// Every step takes longer by this share, and the noise remembers the steps before. With a memory of m the best estimate from n samples
// has (1 + m) / (n (1 - m) + 2 m) of its variance. So 5 % is found in 41 % of pairs at most, of 30 samples and m = 0.95.
inline std::vector<Shape> of_longer_with_memory(double by) {
  const auto longer = [by](const Draw& draw) {
    return [=](Random& random, int n) {
      Steps steps = draw(random, n);
      for (double& x : steps) x *= 1 + by;
      return steps;
    };
  };
  const auto made = [&](const char* name, double memory) {
    return Shape{name, autoregressive(memory), longer(autoregressive(memory))};
  };
  return {made("autocorrelated, 0.5", 0.5), made("autocorrelated, 0.9", 0.9), made("autocorrelated, 0.95", 0.95)};
}

// What an author does who hides that a run became longer by a share of it: some steps bear all of it, and what is gained on the others.
// Which, and how much each, is drawn from the kinds of the shapes above.
inline Steps hide(Random& random, int n, double by) {
  const auto below = [&](int count) { return static_cast<int>(uniform(random) * count); };
  const double gains[] = {0, 0.02, 0.04, 0.06, 0.1}, noises[] = {0.003, 0.01, kNoise};
  const double gain = gains[below(5)], noise = noises[below(3)];
  const int kind = below(6), some = 1 + below(n / 2), first = below(n), period = 2 + below(n / 2);
  Steps bears(static_cast<std::size_t>(n), 0);
  const auto at = [&](int i) -> double& { return bears[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < n; ++i) {
    if (kind == 0 && i < some) at(below(n)) = 1;                                   // steps at random
    if (kind == 1 && i < some) at((first + i) % n) = 1;                            // an episode
    if (kind == 2 && i % period == first % period) at(i) = 1;                      // by the clock
    if (kind == 3 && i >= first) at(i) = i - first + 1;                            // a ramp
    if (kind == 4 && i % period == first % period) at(i) = i + 1;                  // stalls that grow
    if (kind == 5 && uniform(random) * n < some) at(i) = std::exp(gauss(random));  // stalls of any length
  }
  double all = 0;
  for (const double x : bears) all += x;
  if (all == 0) at(first) = all = 1;
  Steps steps;
  for (const double x : bears) steps.push_back(1 + noise * gauss(random) - gain + (by + gain) * n * x / all);
  return steps;
}

// A pair of runs with the noise of a shape, where some steps of the new one bear what was hidden.
inline std::pair<Steps, Steps> hidden_in(const Shape& noise, Random& random, int n, double by) {
  const Steps base = noise.base(random, n), more = hide(random, n, by);
  Steps now = noise.now(random, n);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] *= more[i];
  return {base, now};
}

struct Rates {
  int runs = 0, slower = 0, faster = 0, ambiguous = 0, same = 0;
  // Neither slower nor ambiguous, though the mean of this very run is longer by the threshold; by 3/2 of it.
  int overlooked = 0, hidden = 0;
  double share(int count) const { return static_cast<double>(count) / runs; }
};

// What the gate says of so many pairs of runs, each by itself. Measured more than once a pair is slower only if it is so each time
// (compare --confirm, --confirm-baseline).
inline Rates rates_of(const Shape& shape, int runs, int samples, double threshold, int measurements = 1) {
  Random random(20261126);
  reports::TimeTest test;
  Rates rates;
  for (rates.runs = 0; rates.runs < runs; ++rates.runs) {
    const Steps base = shape.base(random, samples), now = shape.now(random, samples);
    reports::TimeVerdict verdict = judge_time(test.weigh(now, base), threshold).verdict;
    for (int again = 1; again < measurements && verdict == reports::TimeVerdict::slower; ++again) {
      const Steps base_again = shape.base(random, samples), now_again = shape.now(random, samples);
      if (judge_time(test.weigh(now_again, base_again), threshold).verdict != reports::TimeVerdict::slower)
        verdict = reports::TimeVerdict::ambiguous;
    }
    rates.slower += verdict == reports::TimeVerdict::slower;
    rates.faster += verdict == reports::TimeVerdict::faster;
    rates.ambiguous += verdict == reports::TimeVerdict::ambiguous;
    rates.same += verdict == reports::TimeVerdict::same;
    const double longer = reports::mean_of(now).mean / reports::mean_of(base).mean - 1;
    const bool taken = verdict == reports::TimeVerdict::same || verdict == reports::TimeVerdict::faster;
    rates.overlooked += taken && longer >= threshold;
    rates.hidden += taken && longer >= 1.5 * threshold;
  }
  return rates;
}

}  // namespace mbench::shapes
