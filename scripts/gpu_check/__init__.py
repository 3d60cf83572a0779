"""The steps of scripts/gpu-check: room (programs, time, sweeps), record (what is written), correctness and speed (the steps)."""
