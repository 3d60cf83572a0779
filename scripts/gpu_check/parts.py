"""What is run, in which order, and for how long. Three parts of eight minutes each: the first says most, and each later one goes on from
the record of the one before. Without a part every step runs, in the same order."""
from gpu_check import choices, correctness, features, profile, speed

# Step: what it does, the seconds that it may take, and those below which it does not begin.
STEPS = {
    "devices": (correctness.devices, 40, 20),
    "smoke": (speed.smoke, 45, 20),
    "pace": (speed.pace, 150, 60),
    "ops": (correctness.ops, 80, 30),
    "features": (features.features, 90, 30),
    "choices": (choices.choices, 80, 30),
    "attention": (correctness.attention, 60, 20),
    "profile": (profile.profile, 60, 25),
    "layouts": (correctness.layouts, 180, 40),
    "memory": (correctness.memory, 110, 30),
    "repeat": (correctness.repeat, 60, 25),
    "launch": (speed.launch, 40, 20),
    "mfu": (speed.mfu, 480, 60),
    "products": (choices.products, 80, 30),
    "kernels": (profile.kernels, 40, 20),
    "strategies": (speed.strategies, 240, 45),
    "calibrate": (choices.calibrate, 120, 40),
    "sanitizer": (correctness.sanitizer, 3600, 40),
}
MINUTES = 8  # of a part
MARGIN = 10  # seconds of a call that no step may use

# The seconds of each step in a part: with the margin, and in a later one with those for what is run again, no more than the part has.
PARTS = {
    "first": {"devices": 25, "smoke": 45, "pace": 150, "ops": 60, "features": 70, "choices": 70, "attention": 50},
    "second": {"devices": 15, "mfu": 210, "products": 60, "kernels": 25, "memory": 60, "repeat": 25, "launch": 25},
    "third": {"devices": 15, "layouts": 135, "sanitizer": 80, "strategies": 65, "calibrate": 70, "profile": 50},
}
AGAIN = 50  # seconds of a later part for what failed, or was cut off, in an earlier one


def steps_of(part):
    """Of a part, or of all: (name, work, seconds, least seconds)."""
    if part is None:
        return [(name, *step) for name, step in STEPS.items()]
    return [(name, STEPS[name][0], seconds, min(STEPS[name][2], seconds // 2)) for name, seconds in PARTS[part].items()]


def again(part, record):
    """Of a later part: the steps that an earlier one did not bring to a good end, in the time that there is for them."""
    earlier = [name for other, steps in PARTS.items() for name in steps if list(PARTS).index(other) < list(PARTS).index(part)]
    names = [name for name in dict.fromkeys(earlier) if name not in PARTS[part]
             and record.steps.get(name, {}).get("result") in ("failed", "cut off")]
    return [(name, STEPS[name][0], min(AGAIN, STEPS[name][1]), min(STEPS[name][2], AGAIN // 2)) for name in names]
