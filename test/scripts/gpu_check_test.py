"""scripts/gpu-check without a GPU: its verdicts on figures that are wrong, its time limits and its record, and a whole run on the
CPU with small models.

    python3 test/scripts/gpu_check_test.py PROGRAMS      the folder of mbench and launch_bench
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
sys.path.insert(0, SCRIPTS)
from gpu_check import choices, correctness, features, libraries, parts, peer, profile, record, speed  # noqa: E402
from gpu_check import room as room_module  # noqa: E402
from gpu_check.room import CutOff, Room  # noqa: E402

PROGRAMS = None
NEED_A_GPU = ("ops", "attention", "profile", "kernels", "calibrate", "sanitizer")


class Options:
    def __init__(self, out, **more):
        self.out, self.only, self.programs, self.device, self.tiny, self.python = out, None, None, "cuda", False, sys.executable
        self.part = None
        self.__dict__.update(more)


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def row(**changes):
    """A point as results.json has it, as far as the steps read it."""
    sizes = {"seq": 32, "micro_batch": 1, "global_batch": 8, "tp": 1, "pp": 1, "dp": 1, "virtual_stages": 1, "world": 1}
    words = {"sequence_parallel": False, "recompute": "none", "strategy": "", "schedule": "1f1b", "precision": "bf16",
             "attention": "core", "framework": "mbench", "outcome": "ok", "reason": None, "device_name": "GPU"}
    memory = {"peak_memory_mib": 2.5, "peak_memory_by_rank_mib": [2.5], "memory_anatomy_mib": {"weights": 2.5},
              "reserved_memory_mib": 4.0}
    return {**sizes, **words, **memory, "losses": [5.0, 4.0], "gradient_norms": [1.0, 2.0], "parameters": 7, **changes}


class FakeRoom(Room):
    """A room whose sweeps answer from a table instead of running."""

    def __init__(self, folder, answers, **more):
        super().__init__(Options(folder, **more))
        self.answers, self.launcher = answers, "mpirun"

    def gpus(self):
        return ["0 GPU"]

    def gpu_gib(self):
        return None  # what fits is looked at on its own

    def sweep(self, name, spec, device=None, launcher="local"):
        answer = self.answers(name)
        if isinstance(answer, Exception):
            raise answer
        return answer


class InFolder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = self.holder.name
        self.addCleanup(self.holder.cleanup)

    def room(self, **more):
        return Room(Options(self.folder, **more))


class Verdicts(InFolder):
    def layouts(self, flash=None, **changes):
        wrong = row(tp=2, world=2, **{"device_name": "GPU (shared by 2 ranks)", **changes})
        references = [row(precision=p) for p in correctness.TOLERANCE]
        answers = {"layouts/serial-cpu": references, "layouts/bf16": [row(), wrong], "layouts/f32": [row()],
                   "layouts/fp16": [row()], "layouts/serial-cpu-flash": [row(losses=[3.0, 2.0])],
                   "layouts/flash": [flash or row(losses=[3.0, 2.0])]}
        return correctness.layouts(FakeRoom(self.folder, answers.get))

    def test_layouts_that_agree_pass(self):
        result, said, _ = self.layouts()
        self.assertEqual(result, "ok", said)
        self.assertIn("5 layouts", said)

    def test_flash_is_held_against_core_without_dropout(self):
        self.assertEqual(self.layouts(row())[0], "failed")
        result, said, _ = self.layouts(row(outcome="unsupported", reason="needs cuDNN"))
        self.assertEqual(result, "ok")
        self.assertIn("4 layouts by mpirun, 0 wrong", said)
        self.assertIn("none with flash: needs cuDNN", said)
        self.assertEqual(self.layouts(row(outcome="crashed"))[0], "failed")

    def test_a_loss_beyond_its_tolerance_fails(self):
        self.assertEqual(self.layouts(losses=[5.0, 4.0 * 1.009])[0], "ok")
        result, said, _ = self.layouts(losses=[5.0, 4.0 * 1.011])
        self.assertEqual(result, "failed")
        self.assertIn("tp 2 mbench bf16: losses", said)
        self.assertEqual(self.layouts(losses=[5.0, float("nan")])[0], "failed")
        self.assertEqual(self.layouts(gradient_norms=[1.0, 2.3])[0], "failed")

    def test_a_layout_that_did_not_run_fails(self):
        for outcome in ("crashed", "wrong", "timeout", "oom", "unsupported"):
            self.assertEqual(self.layouts(outcome=outcome)[0], "failed")

    def test_ranks_that_share_a_gpu_must_say_so(self):
        result, said, _ = self.layouts(device_name="GPU")
        self.assertEqual(result, "failed")
        self.assertIn("share a GPU", said)

    def memory(self, **changes):
        answers = {"memory/measured": [row()], "memory/cpu": [row()], "memory/simulated": [row()]}
        for name, change in changes.items():
            answers["memory/" + name] = [row(**change)]
        return correctness.memory(FakeRoom(self.folder, answers.get))

    def test_memory_is_compared_to_the_byte(self):
        result, said, more = self.memory()
        self.assertEqual(result, "ok", said)
        self.assertIs(more["goals"][0]["met"], True)
        for field, value in (("peak_memory_mib", 2.5 + 2**-20), ("reserved_memory_mib", 6.0),
                             ("memory_anatomy_mib", {"weights": 2.0, "other": 0.5}), ("peak_memory_by_rank_mib", [2.5, 2.5])):
            for where in ("measured", "cpu", "simulated"):
                result, said, more = self.memory(**{where: {field: value}})
                self.assertEqual(result, "failed", (field, where))
                self.assertIn(field, said)
                self.assertIs(more["goals"][0]["met"], False)

    def test_small_models_meet_no_goal(self):
        room = FakeRoom(self.folder, lambda name: [row()], tiny=True)
        self.assertIs(correctness.memory(room)[2]["goals"][0]["met"], None)

    def test_flash_that_is_not_built_in_is_no_failure_of_memory_and_no_equality(self):
        flash = row(outcome="unsupported", reason="needs cuDNN", attention="flash")
        answers = {"memory/measured": [flash], "memory/cpu": [row()], "memory/simulated": [row()]}
        self.assertEqual(correctness.memory(FakeRoom(self.folder, answers.get))[0], "failed")  # nothing was compared

    def repeat(self, **changes):
        first = [row(precision=p) for p in correctness.TOLERANCE]
        answers = {"repeat/1": first, "repeat/2": [first[0], {**first[1], **changes}, first[2]]}
        return correctness.repeat(FakeRoom(self.folder, answers.get))[0]

    def test_repeat_wants_the_same_bits(self):
        self.assertEqual(self.repeat(), "ok")
        self.assertEqual(self.repeat(losses=[5.0, 4.0 + 1e-15 * 4]), "failed")
        self.assertEqual(self.repeat(outcome="crashed"), "failed")

    def test_a_sweep_without_time_cuts_a_step_off(self):
        answers = {"layouts/serial-cpu": [row(precision=p) for p in correctness.TOLERANCE], "layouts/bf16": [row()],
                   "layouts/serial-cpu-flash": [row()], "layouts/flash": [row()], "layouts/f32": CutOff("no time")}
        self.assertEqual(correctness.layouts(FakeRoom(self.folder, answers.get))[0], "cut off")

    def test_ops_and_sanitizer_fail_where_their_programs_do(self):
        lists = 'case "$*" in *--list*) echo "add, and more"; echo "softmax"; exit 2;; *op-names*) echo "op: add"; exit 0;; esac\n'
        tests = lists + 'case "$*" in *-c*) echo "x_test.cpp:1: FAILED:"; exit 1;; esac'
        script(self.folder, "test_gpu", tests)
        room = self.room(programs=self.folder)
        result, said, _ = correctness.ops(room)
        self.assertEqual((result, said), ("failed", "2 of 3 groups of tests passed; failed: add: 1 failures"))
        script(self.folder, "test_gpu", lists + "exit 0")
        self.assertEqual(correctness.ops(room)[0], "ok")
        sanitizer = 'echo "$5" >> {0}/seen; [ "$2" = racecheck ] && {{ echo "== RACECHECK SUMMARY: 1 hazard"; exit {1}; }}; exit 0'
        room.environment["PATH"] = self.folder + ":" + os.environ["PATH"]
        script(self.folder, "compute-sanitizer", sanitizer.format(self.folder, 9))
        result, said, more = correctness.sanitizer(room)
        self.assertEqual(result, "failed")
        self.assertIn("memcheck: 2 of 2 test cases clean, racecheck: 0 of 1", said)
        self.assertIn("1 hazard", more["tables"][0])
        script(self.folder, "compute-sanitizer", sanitizer.format(self.folder, 0))
        self.assertEqual(correctness.sanitizer(room)[0], "ok")
        room.deadline = time.monotonic()
        with self.assertRaises(CutOff):
            correctness.ops(room)

    def test_a_crash_is_followed_by_the_names_of_where_it_was(self):
        crash = 'case "$*" in *op-names*) echo "op: add"; exit 0;; *-c*) kill -SEGV $$;; esac\nexit 0'
        script(self.folder, "test_gpu", crash)
        script(self.folder, "cuda-gdb", 'echo "#0  0x00001 in mbench::add () from x"; echo "#1  main ()"')
        room = self.room(programs=self.folder)
        room.environment["PATH"] = self.folder + ":" + os.environ["PATH"]
        room.deadline = time.monotonic() + 100
        self.assertIn("add: exit -11, in mbench::add < main", correctness.ops(room)[1])

    def test_features_hold_a_gpu_against_the_cpu(self):
        cpu = row(precision="f32")
        self.assertEqual(features.judge(row(precision="f32"), cpu), (None, 0.0))
        self.assertIn("losses", features.judge(row(precision="f32", losses=[5.0, 4.1]), cpu)[0])
        self.assertIn("reserved_memory_mib", features.judge(row(precision="f32", reserved_memory_mib=6.0), cpu)[0])
        self.assertEqual(features.judge(row(outcome="crashed", reason="gone"), cpu)[0], "crashed (gone)")
        self.assertEqual(features.judge(row(precision={"preset": "fp8", "fp8_recipe": "delayed"}), row())[0], None)
        specs = features.chosen(True)
        self.assertTrue(all(features.ranks_of(spec) in (1, 2) for _, spec in specs))
        self.assertTrue(all(spec["precision"] != "f32" and spec["dropout"] == 0 for _, spec in specs if spec["attention"] == "flash"))
        self.assertLess(len(features.chosen(False)), len(specs))

    def test_what_is_kept_has_no_folders_of_this_machine(self):
        source, target = os.path.join(self.folder, "a.json"), os.path.join(self.folder, "b.json")
        with open(source, "w") as file:
            file.write(f'"{self.folder}/out/x {room_module.ROOT}/configs/y"')
        record.copy_without(os.path.join(self.folder, "out"), source, target)
        with open(target) as file:
            self.assertEqual(file.read(), '"out/x configs/y"')

    def test_an_interrupt_is_no_failure_of_the_case_it_came_in(self):
        interrupted = ("x.cpp:10: FAILED:\n  {Unknown expression}\ndue to a fatal error condition:\n  SIGINT - Terminal interrupt signal\n\n"
                       + "=" * 79)
        self.assertEqual(correctness.failures(interrupted), 0)
        self.assertEqual(correctness.failures("x.cpp:9: FAILED:\n  CHECK( a == b )\n\n" + interrupted), 1)
        self.assertEqual(correctness.failures("all is well\n"), 0)

    def test_a_name_of_a_test_is_given_as_catch_takes_it(self):
        self.assertEqual(correctness.one_test("a, b [c]"), "a\\, b \\[c\\]")


class Goals(InFolder):
    def judge(self, mfu, own, others, **more):
        room = self.room(**more)
        model = speed.Model(room, "gpt-1.3b", 0, None)
        model.best = row(mfu=mfu, tokens_per_s=own)
        model.best_peer = {"tokens_per_s": others}
        model.attention = more.get("attention", "flash")
        model.judge()
        return [g["met"] for g in model.goals]

    def test_goals_are_met_or_not_met(self):
        self.assertEqual(self.judge(0.53, 112, 100), [True, True])
        self.assertEqual(self.judge(0.51, 95, 100), [False, False])
        self.assertEqual(self.judge(None, 112, 100), [None, True])

    def test_a_goal_is_met_by_the_step_that_published_figures_are_of(self):
        model = speed.Model(self.room(), "gpt-1.3b", 0, None)
        model.best, model.accumulated = row(mfu=0.5, tokens_per_s=1), row(mfu=0.53, tokens_per_s=1)
        model.judge()
        self.assertEqual((model.goals[0]["got"], model.goals[0]["met"]), ("53.0 %", True))

    def test_what_is_no_measurement_of_flash_on_a_gpu_meets_nothing(self):
        self.assertEqual(self.judge(0.41, 112, 100, attention="core"), [None, None])
        self.assertEqual(self.judge(0.41, 112, 100, device="cpu"), [None, None])
        self.assertEqual(self.judge(0.41, 112, 100, tiny=True), [None, None])

    def run_model(self, answers, name="gpt-1.3b"):
        model = speed.Model(FakeRoom(self.folder, lambda step: answers.get(step, [])), name, time.monotonic() + 100, "none here")
        model.run()
        model.judge()
        return model

    def test_flash_that_is_not_built_in_is_measured_as_core_and_never_passed_off(self):
        speedy = row(mfu=0.5, tokens_per_s=9, micro_batch=8, iteration_ms={"median": 1})
        model = self.run_model({"mfu/gpt-1.3b-flash": [row(outcome="unsupported", attention="flash", reason="no cuDNN")],
                                "mfu/gpt-1.3b-core": [speedy], "mfu/gpt-1.3b-core-simulated": [row(micro_batch=8)]})
        self.assertEqual([g["met"] for g in model.goals], [None, None])
        self.assertIn("attention core, since flash is unsupported: no cuDNN", model.goals[0]["got"])
        self.assertEqual([r[1:3] + r[5:6] for r in model.rows], [["flash", "mbench", "unsupported"], ["core", "mbench", "1.00"]])
        self.assertEqual(model.wrong, [])

    def test_the_best_micro_batch_is_the_one_with_the_most_tokens(self):
        rows = [row(mfu=m, tokens_per_s=t, micro_batch=b, attention="flash", iteration_ms={"median": 1})
                for b, m, t in ((4, 0.3, 30), (8, 0.45, 45), (16, 0.41, 41))]
        rows.append(row(outcome="oom", micro_batch=32, attention="flash"))
        answers = {"mfu/gpt-1.3b-flash": rows, "mfu/gpt-1.3b-flash-simulated": rows}
        model = self.run_model(answers)
        self.assertEqual((model.best["micro_batch"], model.goals[0]["got"], model.goals[0]["met"]), (8, "45.0 %", False))
        answers["mfu/gpt-1.3b-flash-simulated"] = [{**r, "peak_memory_mib": 3.0} for r in rows]
        self.assertEqual(len(self.run_model(answers).wrong), 3)  # of those that ran
        answers["mfu/gpt-1.3b-flash"] = [row(outcome="wrong", reason="NaN", attention="flash")]
        self.assertIn("NaN", self.run_model(answers).wrong[0])

    def sized(self, gib, part=None):
        """A room of a GPU with so much memory, whose simulator says that a point takes its micro batch and ten times its layers in GiB."""
        class Sized(Room):
            def gpu_gib(self):
                return gib

            def simulate(self, name, spec, ranks=1):
                at, _, rows = speed.sizes_of(spec)
                layers = spec["model"]["layers"]
                return [row(device_memory_mib=1024 * (r[at] + layers), outcome="oom" if r[at] > 32 else "ok") for r in rows]
        return Sized(Options(self.folder, part=part))

    def test_a_gpu_gets_the_sizes_that_it_holds_by_the_simulator(self):
        spec = self.room().spec("mfu-gpt2-345m")  # 24 layers
        self.assertEqual([r[0] for r in speed.that_fit(self.sized(79.1), "x", spec)], [4, 8, 16, 32])
        self.assertEqual([r[0] for r in speed.that_fit(self.sized(40), "x", spec)], [4, 8])
        self.assertEqual([speed.fitting(self.sized(gib), "x", spec, 16) for gib in (79, 30, 27, 10)], [16, 4, 1, 1])
        self.assertEqual([speed.fitting(self.sized(gib), "x", spec, 12) for gib in (79, 34)], [12, 6])

    def test_a_gpu_gets_the_models_that_it_holds(self):
        names = lambda *room: [name for name, _ in speed.models_for(self.sized(*room))]
        self.assertEqual(names(79.1), ["gpt2-345m", "gpt-1.3b", "llama-3-8b-layers", "gpt-6.7b"])
        self.assertEqual(names(33), ["gpt2-345m", "gpt-1.3b", "llama-3-8b-layers"])  # 24, 24, 8, 32 and 32 layers
        self.assertEqual(names(79.1, "second"), ["gpt2-345m", "gpt-1.3b", "llama-3-8b-layers"])
        self.assertEqual(names(5), ["gpt2-345m"])  # tried all the same
        room = self.room()
        room.described = 0, "cuda      0 NVIDIA H100 80GB HBM3, 79.11 GiB, compute capability 9.0"
        self.assertEqual(room.gpu_gib(), 79.11)

    def test_a_part_measures_the_two_largest_sizes(self):
        for part, sizes in ((None, [4, 8, 16, 32]), ("second", [16, 32])):
            room = self.sized(79.1, part)
            model = speed.Model(room, "gpt2-345m", 0, None)
            (_, rows), = model.largest(room.spec("mfu-gpt2-345m")).items()
            self.assertEqual([r[0] for r in rows], sizes)

    def smoke(self, **answers):
        answers = {name: [row(model={"vocab": 50257}, iteration_ms={"median": 1}, tokens_per_s=1, mfu=None, **p)]
                   for name, p in answers.items()}
        return speed.smoke(FakeRoom(self.folder, lambda name: answers[name.split("/")[1]]))

    def test_the_first_step_must_run_and_know_nothing(self):
        self.assertEqual(self.smoke(flash={"attention": "flash", "losses": [10.8, 10.5]})[0], "ok")
        result, said, _ = self.smoke(flash={"losses": [4.0, 3.9]})
        self.assertEqual(result, "failed")
        self.assertIn("the first loss is 4.00, a model that knows nothing has 10.82", said)
        result, said, _ = self.smoke(flash={"outcome": "unsupported", "reason": "no cuDNN"}, core={"losses": [10.9, 10.4]})
        self.assertEqual((result, said[:14]), ("ok", "attention core"))
        result, said, _ = self.smoke(flash={"outcome": "crashed", "reason": "illegal address"}, core={"losses": [10.9, 10.4]})
        self.assertEqual(result, "failed")
        self.assertIn("illegal address", said)

    def test_memory_beside_pytorchs_has_the_libraries_in_it(self):
        p = row(iteration_ms={"median": 1}, tokens_per_s=1, mfu=None, peak_memory_mib=100, library_memory_mib=30)
        self.assertEqual(speed.figures(p)[3:5], ["100", "130"])
        self.assertEqual(len(speed.figures(p)), len(speed.figures(row(outcome="oom"))))
        self.assertEqual(len(speed.figures(p)) + 5, len(speed.HEADER))

    def test_the_peer_is_the_faster_of_its_attentions(self):
        asked, rates = [], {"default": 100, "cudnn": 130}

        def measure(room, name, point, micro_batches, seconds, recipe, attention, accumulate):
            asked.append((recipe, attention, accumulate))
            return {"framework": "PyTorch", "points": [row(tokens_per_s=rates[attention], iteration_ms={"median": 1}, mfu=None)]}

        best = row(mfu=0.5, tokens_per_s=120, micro_batch=8, attention="flash", iteration_ms={"median": 1})
        room = FakeRoom(self.folder, lambda name: [best])
        model = speed.Model(room, "gpt-1.3b", time.monotonic() + 1000, None, [[8, 8]])
        kept, speed.peer.measure = speed.peer.measure, measure
        try:
            model.run()
        finally:
            speed.peer.measure = kept
        self.assertEqual(asked, [("master", "default", 1), ("master", "cudnn", 1), ("autocast", "default", 1), ("master", "cudnn", 8)])
        self.assertEqual((model.best_peer["attention"], model.best_peer["tokens_per_s"]), ("cudnn", 130))
        self.assertIn(["gpt-1.3b", "flash", "mbench", "none", "8 x 8"], [r[:5] for r in model.rows])

    def test_the_peer_begins_at_the_best_micro_batch(self):
        self.assertEqual(peer.order_of(8, {4, 16, 8, 32}), [8, 16, 4])
        self.assertEqual(peer.order_of(4, {4, 8}), [4, 8])
        self.assertEqual(peer.best_of({"points": [{"outcome": "oom"}, {"outcome": "ok", "tokens_per_s": 1}]})["tokens_per_s"], 1)
        self.assertIsNone(peer.best_of(None))

    def test_launch_judges_the_median(self):
        told = {"kinds": [], "steps": [], "median_ns": 4000, "median_overhead_ns": 2900}
        for overhead, met in ((2900, True), (3100, False)):
            script(self.folder, "launch_bench", "echo '" + json.dumps({**told, "median_overhead_ns": overhead}) + "'")
            result, _, more = speed.launch(self.room(programs=self.folder))
            self.assertEqual((result, more["goals"][0]["met"]), ("ok", met))
        script(self.folder, "launch_bench", "echo no GPU; exit 2")
        self.assertEqual(speed.launch(self.room(programs=self.folder))[0], "failed")


class Choices(InFolder):
    def test_ways_and_the_clocks_choices_are_rows(self):
        gemms = {"count": 1, "separate": 1, "gemms": [{"gemm": "8 x 8", "chosen": "separate", "fused_us": 2.5, "separate_us": 2}]}
        p = row(iteration_ms={"median": 1}, tokens_per_s=9, mfu=None, gemm_epilogues=gemms)
        room = FakeRoom(self.folder, lambda name: [p])
        result, said, more = choices.choices(room)
        self.assertEqual(result, "ok", said)
        self.assertIn("gpt-1.3b fastest with mbench: 9 tokens/s", said)
        result, said, more = choices.products(room)
        self.assertEqual(result, "ok", said)
        self.assertIn("of 4 GEMMs with an epilogue the clock took 4 apart", said)
        self.assertIn("| bf16 | 8 x 8 | separate | 2.5 | 2.0 |", more["tables"][1])
        for outcome in ("oom", "unsupported", "crashed", "wrong"):  # nothing ran: that is no good end
            self.assertEqual(choices.choices(FakeRoom(self.folder, lambda name: [row(outcome=outcome)]))[0], "failed")
        other = row(outcome="oom")
        self.assertEqual(choices.choices(FakeRoom(self.folder, lambda name: [p, other]))[0], "ok")

    def test_without_cudnn_the_ways_are_measured_with_attention_core(self):
        flash = row(outcome="unsupported", attention="flash", reason="no cuDNN")
        core = row(iteration_ms={"median": 1}, tokens_per_s=9, mfu=None)

        class Room(FakeRoom):
            def sweep(self, name, spec, device=None, launcher="local"):
                return [core if spec["attention"] == "core" else flash]
        self.assertEqual(choices.choices(Room(self.folder, None))[0], "ok")

    NCU = """==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","void mbench::cuda::each_column<8, mbench::cuda::EmbeddingEach<mbench::bf16>>(long)","gpu__time_duration.sum","nsecond","1,000"
"1","1","nvjet_warmup","gpu__time_duration.sum","usecond","900"
"2","1","void mbench::cuda::each_column<8, mbench::cuda::EmbeddingEach<mbench::bf16>>(long)","gpu__time_duration.sum","nsecond","1,000"
"3","1","void mbench::cuda::each_column<8, mbench::cuda::EmbeddingEach<mbench::bf16>>(long)","gpu__time_duration.sum","nsecond","3,000"
"4","1","nvjet_gemm","gpu__time_duration.sum","msecond","0.5"
"4","1","nvjet_gemm","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","%","81.5"
"4","1","nvjet_gemm","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","n/a"
"""

    def test_a_profile_is_of_the_last_step_by_kernel(self):
        rows = profile.by_kernel(profile.last_step(profile.launches_of(self.NCU)))
        self.assertEqual(rows, [["nvjet_gemm", 1, "500.0", "0", "82"], ["each_column<8, EmbeddingEach<bf16>>", 2, "4.0", "0", "0"]])
        self.assertEqual(profile.launches_of("nothing"), [])

    def test_a_profile_without_counters_is_not_run(self):
        script(self.folder, "mbench", "exit 0")
        room = self.room(programs=self.folder)
        room.environment["PATH"] = self.folder + ":/usr/bin:/bin"
        self.assertEqual(profile.profile(room)[:2], ("not run", "ncu (Nsight Compute) is not installed"))
        ncu = 'while [ "$1" != --log-file ]; do shift; done; {} > "$2"'
        script(self.folder, "ncu", ncu.format('echo "==ERROR== ERR_NVGPUCTRPERM"'))
        self.assertEqual(profile.profile(room)[0], "not run")
        script(self.folder, "ncu", ncu.format("cat <<'END'\n" + self.NCU + "END\n").replace('END\n > "$2"', 'END'))
        with open(os.path.join(self.folder, "told"), "w") as file:
            file.write(self.NCU)
        script(self.folder, "ncu", ncu.format(f"cat {self.folder}/told"))
        result, said, more = profile.profile(room)
        self.assertEqual((result, said), ("ok", "3 launches, 0.50 ms in kernels"))
        self.assertIn("| nvjet_gemm | 1 | 500.0 | 0 | 82 |", more["tables"][0])

    def test_kernels_are_held_against_what_their_registers_allow(self):
        told = {"memory_gb_per_s": 3350, "ops": [{"op": "layer_norm", "us": 1.5, "gb_per_s": 3000, "allowed": 0.9, "measured": 0.89},
                                                 {"op": "softmax", "us": 2, "gb_per_s": 1000, "allowed": 0.9, "measured": 0.3},
                                                 {"op": "adam", "us": 2, "gb_per_s": 1000, "allowed": None, "measured": 0.3}]}
        script(self.folder, "kernel_bench", "echo '" + json.dumps(told) + "'")
        result, said, more = profile.kernels(self.room(programs=self.folder))
        self.assertEqual(result, "ok")
        self.assertIn("allow: softmax", said)
        self.assertNotIn("layer_norm", said)
        self.assertIn("| adam | 2.0 | 1000 | n/a | 30 % |", more["tables"][0])


class Parts(InFolder):
    def test_the_parts_hold_every_step_and_fit_their_time(self):
        names = {name for steps in parts.PARTS.values() for name in steps}
        self.assertEqual(names, set(parts.STEPS))
        for part, steps in parts.PARTS.items():
            spare = 0 if part == "first" else parts.AGAIN
            self.assertLessEqual(sum(steps.values()) + spare + parts.MARGIN, 60 * parts.MINUTES, part)
            self.assertEqual(next(iter(steps)), "devices")
        self.assertEqual(list(parts.PARTS["first"])[1:3], ["smoke", "pace"])  # does it run, how fast beside PyTorch

    def test_what_failed_in_an_earlier_part_is_run_again_in_little_time(self):
        r = record.Record(self.folder, list(parts.STEPS), False)
        for name, result in (("devices", "ok"), ("smoke", "failed"), ("ops", "cut off"), ("profile", "not run"), ("mfu", "failed")):
            r.put({"step": name, "result": result, "seconds": 1, "said": "", "program": "", "goals": [], "tables": [], "details": {}})
        self.assertEqual([step[0] for step in parts.again("second", r)], ["smoke", "ops"])
        self.assertEqual([step[0] for step in parts.again("third", r)], ["smoke", "ops", "mfu"])
        self.assertEqual(parts.again("first", r), [])
        for _, _, seconds, least in parts.again("third", r):
            self.assertLessEqual(seconds, parts.AGAIN)
            self.assertLess(least, seconds)

    def test_an_archive_is_unpacked_into_its_folder_and_nowhere_else(self):
        archive, out = os.path.join(self.folder, "a.tar.gz"), os.path.join(self.folder, "out")
        with tarfile.open(archive, "w:gz") as file:
            for name in ("gpu-check/results.json", "gpu-check/mfu/x/results.json", "gpu-check/../escaped", "other/file", "/absolute"):
                source = os.path.join(self.folder, "source")
                with open(source, "w") as text:
                    text.write(name)
                file.add(source, arcname=name)
        record.unpack(archive, out)
        found = sorted(os.path.relpath(os.path.join(d, f), self.folder) for d, _, files in os.walk(self.folder) for f in files)
        self.assertEqual(found, ["a.tar.gz", "out/mfu/x/results.json", "out/results.json", "source"])


class Time(InFolder):
    def test_a_command_is_interrupted_when_its_time_is_up(self):
        slow = script(self.folder, "slow", "trap 'echo wrote what it had; exit 3' INT\necho begun\nwhile :; do sleep 0.1; done")
        begin = time.monotonic()
        code, text = self.room().run([slow], 1)
        self.assertIsNone(code)
        self.assertEqual(text, "begun\nwrote what it had\n")
        self.assertLess(time.monotonic() - begin, 6)

    def test_a_command_without_time_is_not_begun(self):
        room = self.room()
        room.step_deadline = time.monotonic() + 5  # less than it gets to write down what it has
        with self.assertRaises(CutOff):
            room.run(["true"])

    def test_a_program_that_is_not_there(self):
        self.assertEqual(self.room().run([os.path.join(self.folder, "nothing")])[0], 127)


class Launchers(InFolder):
    def launcher(self, text):
        script(self.folder, "mpirun", text)
        room = self.room()
        room.environment["PATH"] = self.folder + ":" + os.environ["PATH"]
        return room.launcher, room.why_local

    def test_a_launcher_is_tried_before_it_is_believed(self):
        self.assertEqual(self.launcher('[ "$*" = "-np 2 true" ] && exit 0; exit 1')[0], "mpirun")
        name, why = self.launcher("echo no route to host; exit 1")
        self.assertEqual(name, "local")
        self.assertIn("no route to host", why)

    def test_a_launcher_that_hangs_is_given_up(self):
        kept, room_module.PROBE = room_module.PROBE, 0.3
        try:
            name, why = self.launcher("sleep 60")
        finally:
            room_module.PROBE = kept
        self.assertEqual(name, "local")
        self.assertIn("did not start two ranks", why)

    def test_the_toolkits_programs_are_looked_for_beside_path(self):
        os.makedirs(os.path.join(self.folder, "bin"))
        os.environ["CUDA_HOME"] = self.folder
        try:
            self.assertIn(os.path.join(self.folder, "bin"), self.room().environment["PATH"].split(":"))
        finally:
            del os.environ["CUDA_HOME"]

    def test_the_driver_is_kept_and_watched_while_steps_run(self):
        script(self.folder, "nvidia-smi", "echo $* at work; exec sleep 60")
        room = self.room()
        room.environment["PATH"] = self.folder + ":" + os.environ["PATH"]
        room.watch()
        watcher = room.watcher
        time.sleep(0.2)
        self.assertIsNone(watcher.poll())
        room.unwatch()
        self.assertIsNotNone(watcher.poll())
        with open(os.path.join(self.folder, "dmon.txt")) as file:
            self.assertIn("dmon -s pucm -d 1 -o T at work", file.read())


class Libraries(InFolder):
    def test_the_first_folder_that_has_a_library_is_taken(self):
        for name in ("a/libx.so.1", "b/libx.so.1", "b/liby.so.2"):
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            open(os.path.join(self.folder, name), "w").close()
        a, b = os.path.join(self.folder, "a"), os.path.join(self.folder, "b")
        self.assertEqual(libraries.folders_for(["libx.so.1", "liby.so.2", "libz.so"], [a, b]), ([a, b], ["libz.so"]))

    def test_the_folders_of_python_packages(self):
        for name in ("cu13", "cudnn", "nccl"):
            os.makedirs(os.path.join(self.folder, "nvidia", name, "lib"))
        python = script(self.folder, "python", f'PYTHONPATH={self.folder} exec {sys.executable} "$@"')
        found = [os.path.relpath(f, os.path.join(self.folder, "nvidia")) for f in libraries.python_folders(python)
                 if f.startswith(self.folder)]
        self.assertEqual(found, ["cu13/lib", "cudnn/lib", "nccl/lib"])


class Records(InFolder):
    def step(self, name, result="ok", **more):
        return {"step": name, "result": result, "seconds": 1, "said": "a|b\nc", "program": "0.1", "details": {}, "goals": [],
                "tables": [], **more}

    def test_steps_of_earlier_calls_stay(self):
        first = record.Record(self.folder, ["a", "b"], keep_earlier=False)
        first.put(self.step("a"))
        first.put(self.step("b", "failed"))
        again = record.Record(self.folder, ["a", "b"], keep_earlier=True)
        again.put(self.step("b"))
        self.assertEqual([s["result"] for s in again.in_order()], ["ok", "ok"])
        self.assertIn("| a | ok | 1 | a/b c |", again.summary())
        afresh = record.Record(self.folder, ["a", "b"], keep_earlier=False)
        afresh.put(self.step("b"))
        self.assertEqual(len(afresh.in_order()), 1)

    def test_all_of_it_is_one_archive_beside_the_summary_after_every_step(self):
        there = os.path.join(self.folder, "there")
        out = os.path.join(self.folder, "out")
        os.makedirs(os.path.join(out, "mfu/x"))
        with open(os.path.join(out, "mfu/x/results.json"), "w") as file:
            file.write("{}")
        for deliver in (there, None):
            r = record.Record(out, ["a", "b"], keep_earlier=False, deliver=deliver)
            for name in ("a", "b"):
                r.put(self.step(name))
                with tarfile.open(os.path.join(deliver or out, "gpu-check.tar.gz")) as archive:
                    names = archive.getnames()
                    told = json.load(archive.extractfile("gpu-check/results.json"))
                self.assertEqual(told["steps"][-1]["step"], name)
                self.assertIn("gpu-check/mfu/x/results.json", names)
                self.assertNotIn("gpu-check/gpu-check.tar.gz", names)
        self.assertEqual(sorted(os.listdir(there)), ["gpu-check.tar.gz", "summary.md"])

    def test_exit_codes(self):
        r = record.Record(self.folder, ["a", "b", "c"], False)
        for name, result in (("a", "ok"), ("b", "cut off"), ("c", "failed")):
            r.put(self.step(name, result))
        self.assertEqual([r.exit_code(c) for c in (["a"], ["a", "b"], ["a", "b", "c"])], [0, 3, 1])
        with self.assertRaises(AssertionError):
            r.put(self.step("a", "skipped"))

    def test_goals_are_shown(self):
        r = record.Record(self.folder, ["a"], False)
        r.put(self.step("a", goals=[record.goal("speed", "> 1", "2", True), record.goal("x", "y", "z", False),
                                    record.goal("p", "q", "n/a", None)]))
        for line in ("| speed | > 1 | 2 | met |", "| x | y | z | not met |", "| p | q | n/a | not measured |"):
            self.assertIn(line, r.summary())

    def test_what_is_kept_does_not_disturb_the_baselines_beside_it(self):
        r = record.Record(self.folder, ["a"], False)
        r.put(self.step("a"))
        for name in ("mfu/x", "measured"):
            os.makedirs(os.path.join(self.folder, name))
        for name in ("mfu/x/results.json", "measured/peer.json"):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write("{}")
        baselines = os.path.join(self.folder, "baselines")
        self.assertEqual(r.keep(os.path.join(baselines, "h200")), ["gpu-check.json", "mfu-x.json", "peer.json"])
        if PROGRAMS:
            stored = os.path.join(SCRIPTS, "../baselines")
            name = next(n for n in sorted(os.listdir(stored)) if n.startswith("any-cpu"))
            shutil.copytree(os.path.join(stored, name), os.path.join(baselines, name))
            listed = subprocess.run([os.path.join(PROGRAMS, "mbench"), "baseline", "list", "--dir", baselines],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(listed.returncode, 0, listed.stdout)


class WholeRuns(InFolder):
    def check(self, *more):
        argv = [sys.executable, os.path.join(SCRIPTS, "gpu-check"), "--programs", PROGRAMS, "--out", self.folder, *more]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        path = os.path.join(self.folder, "results.json")
        steps = {s["step"]: s for s in json.load(open(path))["steps"]} if os.path.exists(path) else {}
        return done.returncode, steps, done.stdout

    def setUp(self):
        super().setUp()
        if not PROGRAMS:
            self.skipTest("no programs")

    def test_small_models_on_the_cpu(self):
        code, steps, text = self.check("--device", "cpu", "--tiny")
        self.assertEqual({n: s["result"] for n, s in steps.items()}, {
            **{name: "ok" for name in parts.STEPS}, **{name: "not run" for name in NEED_A_GPU}}, text)
        self.assertEqual(code, 3)
        self.assertNotIn(True, [g["met"] for s in steps.values() for g in s["goals"]])  # no goal is met without a GPU
        self.assertIn("no measurement", steps["mfu"]["program"])
        code, again, _ = self.check("--device", "cpu", "--tiny", "--only", "launch")
        self.assertEqual(code, 0)
        self.assertEqual({k: v for k, v in again.items() if k != "launch"}, {k: v for k, v in steps.items() if k != "launch"})

    def test_without_time_every_step_is_a_row(self):
        code, steps, _ = self.check("--device", "cpu", "--tiny", "--minutes", "0.5")
        self.assertEqual(code, 3)
        self.assertEqual(len(steps), len(parts.STEPS))
        self.assertIn("no time left", {s["said"] for s in steps.values()})

    def test_a_machine_without_a_gpu_fails(self):
        code, steps, _ = self.check("--only", "devices")
        if steps["devices"]["details"].get("gpus"):
            self.skipTest("this machine has a GPU")
        self.assertEqual((code, steps["devices"]["result"]), (1, "failed"))

    def test_what_was_measured_elsewhere_can_be_kept_here(self):
        r = record.Record(self.folder, ["devices"], False)
        r.put({"step": "devices", "result": "ok", "seconds": 1, "said": "", "program": "0.1", "goals": [], "tables": [],
               "details": {"gpus": ["0 NVIDIA H200, 139.81 GiB"], "text": "cuda 0"}})
        there = os.path.join(self.folder, "kept")
        r.put({**r.steps["devices"], "step": "launch", "program": "0.1, small models on cuda: no measurement"})
        r.order.append("launch")
        r.write()
        self.assertEqual(self.check("--only", "--keep", there)[0], 2)
        del r.steps["launch"]
        r.write()
        code, steps, text = self.check("--only", "--keep", there)
        self.assertEqual((code, list(steps), sorted(os.listdir(there))), (0, ["devices"], ["files", "summary.md"]), text)

    def test_bad_usage(self):
        self.assertEqual(self.check("--only", "everything")[0], 2)
        self.assertEqual(self.check("--first", "--second")[0], 2)
        self.assertEqual(self.check("--first", "--only", "ops")[0], 2)
        self.assertEqual(self.check("--second", "--resume", os.path.join(self.folder, "none"))[0], 2)
        self.assertEqual(self.check("--device", "cpu", "--keep", self.folder)[0], 2)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main(buffer=True, warnings="ignore")
