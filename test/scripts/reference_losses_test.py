"""scripts/reference_losses.py against mbench: models as Hugging Face transformers computes them, and what it refuses. Needs a
Python with torch and transformers; ends with 77 where there is none.

    python3 test/scripts/reference_losses_test.py PROGRAMS      the folder of mbench
"""
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
MBENCH = None
SIZES = {"layers": 2, "hidden": 32, "heads": 4, "ffn": 80, "vocab": 61, "positions": 32}
# A large learning rate: after a few steps attention is far from uniform, and what turns queries and keys shows. A larger
# one makes f32 rounding show as well: Adam's first steps are as long where a gradient is nothing but rounding.
POINT = {"seq": 24, "micro_batch": 2, "global_batch": 4, "iterations": 4, "warmup": 1, "dropout": 0, "learning_rate": 3e-3,
         "lr_warmup": 2}
SCALED = {"base": 10000, "scaling": {"factor": 8, "original_positions": 64}}
ODD = {"layers": 3, "hidden": 36, "heads": 6, "kv_heads": 3, "head_dim": 10, "ffn": 50}


def llama(**changes):
    return {"family": "llama", **SIZES, **changes}


def deepseek(**changes):
    return {"family": "deepseek", **SIZES, "kv_lora_rank": 12, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14,
            **changes}


def gpt(**changes):
    return {"family": "gpt", **SIZES, **changes}


def bert(**changes):
    return {"family": "bert", **SIZES, **changes}


# Of the first Mamba, in chunks that the sequence does not fill.
CHANNELS = {"state_heads": 64, "state_head_dim": 1, "state_groups": 4, "state_dim": 6, "dt_rank": 5, "state_chunk": 7}


def mamba(**changes):
    return {"family": "mamba", **SIZES, **CHANNELS, "hybrid_pattern": "SS", **changes}


def nemotron(**changes):
    return gpt(activation="squared_relu", position="rotary", bias=False, tied_embedding=False, **changes)


SAME = {
    "llama": {"model": llama()},
    "llama, two groups": {"model": llama(kv_heads=2)},
    "llama, one group": {"model": llama(kv_heads=1), "attention": "flash"},
    "llama, heads wider than hidden": {"model": llama(head_dim=14)},
    "llama, heads do not divide hidden": {"model": llama(hidden=32, heads=6, kv_heads=3, head_dim=10)},
    "llama, another base and epsilon": {"model": llama(rope={"base": 500}, norm_eps=1e-2)},
    "llama 3.1's slow pairs": {"model": llama(kv_heads=2, rope=SCALED)},
    "llama, tied embedding": {"model": llama(tied_embedding=True), "framework": {"preset": "megatron-2022", "host": "mbench"}},
    "llama with biases": {"model": llama(bias=True, kv_heads=2)},
    "llama, odd in all": {"model": llama(**ODD, rope=SCALED), "seq": 23, "micro_batch": 3, "global_batch": 9},
    "llama on text": {"model": llama(vocab=256), "data": "text:" + os.path.abspath(__file__)},
    "llama, no clipping, more decay": {"model": llama(), "clip_grad": 0, "weight_decay": 0.3},
    "llama, packed documents": {"model": llama(kv_heads=2), "document_lengths": "9+4"},
    "gpt, documents drawn, positions that go on": {"model": gpt(), "document_lengths": "geometric:5", "reset_positions": False},
    "command-r, documents of one length": {"model": llama(kv_heads=2, norm="layer_norm", norm_beta=False, branches="parallel",
                                                          tied_embedding=True, logit_scale=0.25), "document_lengths": 7},
    "qwen3": {"model": llama(kv_heads=2, head_dim=14, qk_norm=True)},
    "qwen3, one group, flash": {"model": llama(kv_heads=1, qk_norm=True, norm_eps=1e-6), "attention": "flash"},
    "deepseek": {"model": deepseek(q_lora_rank=20)},
    "deepseek, queries straight from hidden": {"model": deepseek(hidden=34, heads=3, ffn=50), "framework": {"preset": "megatron-2022", "host": "mbench"}},
    "deepseek, another base, flash": {"model": deepseek(q_lora_rank=20, rope={"base": 500}), "attention": "flash"},
    "deepseek, scores by YaRN's factor": {"model": deepseek(q_lora_rank=20, attention_scale=0.41, rope={
        "base": 500, "scaling": {"type": "yarn", "factor": 8, "original_positions": 16, "attention_factor": 1}})},
    "llama, longrope, packed documents that are short": {"model": llama(kv_heads=2, rope={"scaling": {
        "type": "longrope", "factor": 4, "original_positions": 10, "short_factors": [1, 1.1, 1.3, 1.6],
        "long_factors": [2, 3, 4, 6]}}), "document_lengths": "9+4"},
    "gpt": {"model": gpt()},
    "gpt, ffn of four hidden": {"model": {**{k: v for k, v in gpt().items() if k != "ffn"}, "hidden": 20}},
    "gpt, untied": {"model": gpt(hidden=30, heads=5, ffn=50, tied_embedding=False)},
    "gpt, a preset made smaller": {"model": {"preset": "gpt2-124m", "layers": 2, "hidden": 24, "heads": 3, "vocab": 130}},
    "gpt, GELU by erf": {"model": gpt(activation="gelu_erf")},
    "gpt, Muon": {"model": gpt(), "optimizer": "muon", "weight_decay": 0.1},
    **({"gpt, low-rank adapters": {"model": gpt(), "adapter": "lora:3,alpha=6"},
        "llama, low-rank adapters of two layers": {"model": llama(**ODD), "seq": 23, "micro_batch": 3, "global_batch": 9,
                                                   "adapter": "lora:5,targets=proj+fc2"},
        "mixtral, low-rank adapters of experts": {"model": {"family": "mixtral", **SIZES, "experts": 4, "active_experts": 2, "expert_ffn": 22},
                                                  "router": "learned", "adapter": "lora:3,alpha=6,targets=proj+fc1+fc2"}} if importlib.util.find_spec("peft") else {}),
    "nemotron": {"model": nemotron(kv_heads=2, rope={"fraction": 0.5})},
    "nemotron, all columns, biases": {"model": {**nemotron(), "bias": True}},
    "gpt-oss": {"model": {"family": "mixtral", **SIZES, "kv_heads": 2, "head_dim": 10, "experts": 4, "active_experts": 2, "expert_ffn": 22,
                          "activation": "clamped_swiglu", "attention_sinks": True, "bias": ["qkv", "proj", "experts", "router"],
                          "window": 7, "layers_of": [{"every": 2, "from": 1, "window": 0}]},
                "attention": "flash", "router": "learned"},
    "llama 4": {"model": {"family": "mixtral", **SIZES, "kv_heads": 2, "head_dim": 10, "layers": 4, "experts": 4, "active_experts": 1,
                          "expert_ffn": 22, "shared_experts": 1, "routing": {"score": "sigmoid", "normalise": False, "weighted": "input"},
                          "layers_of": [{"every": 4, "from": 3, "position": "none"}, {"every": 2, "experts": 0}]}, "router": "learned"},
    "llama 4, chunks, norms without weights, temperatures": {
        "model": {"family": "mixtral", **SIZES, "kv_heads": 2, "layers": 4, "experts": 4, "active_experts": 1, "expert_ffn": 22, "shared_experts": 1,
                  "routing": {"score": "sigmoid", "normalise": False, "weighted": "input"}, "qk_norm": "without_weights", "attention_chunk": 7,
                  "layers_of": [{"every": 4, "from": 3, "position": "none", "qk_norm": False, "attention_chunk": 0,
                                 "attention_temperature": {"scale": 0.3, "floor": 5}}]}, "attention": "flash", "router": "learned"},
    "command-r+, layer norms with a weight for each head": {"model": llama(kv_heads=2, norm="layer_norm", norm_beta=False, branches="parallel",
                                                                           tied_embedding=True, logit_scale=0.25, qk_norm="layer_norm_by_head")},
    "apertus": {"model": llama(kv_heads=2, activation="xielu", qk_norm=True, rope=SCALED), "attention": "flash"},
    "mamba": {"model": mamba()},
    "falcon mamba": {"model": mamba(scan_norm="without_weights", tied_embedding=False)},
    "jamba": {"model": {"family": "mixtral", **SIZES, **CHANNELS, "kv_heads": 2, "layers": 4, "ffn": 48, "position": "none", "mixer": "mamba", "scan_norm": "rms_norm",
                        "norm_eps": 1e-6, "experts": 4, "active_experts": 2, "routing": {"normalise": False, "balance_loss": 0.1},
                        "layers_of": [{"every": 3, "from": 1, "mixer": "attention"}, {"every": 2, "experts": 0}]}, "router": "learned"},
    "jamba without experts": {"model": llama(**CHANNELS, kv_heads=2, layers=4, position="none", mixer="mamba", scan_norm="rms_norm", norm_eps=1e-6,
                                             layers_of=[{"every": 3, "from": 1, "mixer": "attention"}])},
    "bert": {"model": bert(), "seq": 32},
    "bert, more types, odd sizes": {"model": bert(token_types=3, hidden=30, heads=5, ffn=50, vocab=131), "seq": 31},
    "bert as published": {"model": bert(norm_place="post", activation="gelu_erf", norm_eps=1e-12), "seq": 32},
    "bert with labels, odd sizes": {"model": bert(token_types=3, hidden=30, heads=5, ffn=50, vocab=131, labels=5), "seq": 31, "micro_batch": 3, "global_batch": 9},
    "bert as published with labels": {"model": bert(norm_place="post", activation="gelu_erf", norm_eps=1e-12, labels=2), "seq": 32},
    "gpt with labels": {"model": gpt(labels=3)},
    "llama with labels, odd in all": {"model": llama(**ODD, rope=SCALED, labels=7), "seq": 23, "micro_batch": 3, "global_batch": 9},
    "gpt with labels, Muon": {"model": gpt(labels=4), "optimizer": "muon", "weight_decay": 0.1},
    "deepseek with labels, flash": {"model": deepseek(q_lora_rank=20, labels=3), "attention": "flash"},
    **({"bert with labels, low-rank adapters": {"model": bert(norm_place="post", activation="gelu_erf", norm_eps=1e-12, labels=3), "seq": 32,
                                                "adapter": "lora:3,alpha=6,targets=proj+fc1+fc2"}} if importlib.util.find_spec("peft") else {}),
}
REFUSED = {
    "model.norm_place": {"model": llama(norm_place="post")},
    "model.activation": {"model": llama(activation="gelu")},
    "model.qk_norm": {"model": llama(qk_norm=True, bias=True)},
    "model.norm_eps": {"model": deepseek(norm_eps=1e-5)},
    "model.kv_lora_rank": {"model": {**deepseek(), "kv_lora_rank": 0}},
    "model.rope.fraction": {"model": llama(rope={"fraction": 0.5})},
    "model.kv_heads": {"model": gpt(kv_heads=2)},
    "model.head_dim": {"model": gpt(head_dim=10)},
    "model.bias: no class": {"model": gpt(bias=False)},
    "model.token_types": {"model": bert(token_types=0)},
    "model.tied_embedding": {"model": bert(tied_embedding=False)},
    "model.labels: one class": {"model": gpt(labels=1)},
    "model.labels: no class of transformers": {"model": {**llama(kv_heads=2), "norm": "layer_norm", "norm_beta": False, "branches": "parallel", "tied_embedding": True,
                                                         "logit_scale": 0.25, "labels": 3}},
    "router: drops tokens": {"model": {"family": "mixtral", **SIZES, "experts": 4, "active_experts": 2}, "router": "capacity:1.5"},
    **({"$.adapter: layers.0.qkv is 3 layers": {"model": llama(), "adapter": "lora:4"},
        "$.adapter: no adapter": {"model": llama(), "adapter": "dora:4"}} if importlib.util.find_spec("peft") else {}),
    "$.document_lengths: MptForCausalLM": {"model": gpt(position="alibi", bias=False, norm_beta=False, activation="gelu_erf", ffn=4 * SIZES["hidden"]),
                                         "attention": "flash", "document_lengths": 9},
    "model.family": {"model": {"family": "lama", **SIZES}},
    "model.preset": {"model": "gpt2-123m"},
    "model.layers": {"model": llama(layers="2")},
    "model.bias": {"model": llama(bias=1)},
    "model.rope.base": {"model": llama(rope={"base": "x"})},
    "unknown key": {"model": llama(), "learnig_rate": 1},
    "$.dropout": {"model": llama(), "dropout": 0.1},
    "$.precision": {"model": llama(), "precision": "bf16"},
    "$.optimizer": {"model": llama(), "optimizer": "muon"},
    "$.optimizer: cannot": {"model": llama(), "optimizer": "sgd"},
    "$.data": {"model": llama(), "data": "tokens:x.u32"},
    "$.seq": {"model": llama(), "seq": 33},
    "$.micro_batch": {"model": llama(), "micro_batch": 0},
    "model.heads": {"model": llama(heads=0)},
}


def loaded():
    sys.path.insert(0, SCRIPTS)
    spec = importlib.util.spec_from_file_location("reference_losses", os.path.join(SCRIPTS, "reference_losses.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reference(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, value):
        with open(self.path(name), "w") as file:
            json.dump(value, file)
        return self.path(name)

    def trained(self, point):
        """mbench's result of it."""
        subprocess.run([MBENCH, "run", self.write("trained.json", point), "--result", self.path("result.json")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(self.path("result.json")) as file:
            return json.load(file)

    def reference(self, point, *more):
        """Exit code and what it printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = loaded().main([self.write("point.json", point), *more])
        return code, out.getvalue()

    def against(self, point, result, *more):
        return self.reference(point, "--against", self.write("own.json", result), *more)

    def test_it_trains_as_mbench(self):
        for name, changes in SAME.items():
            with self.subTest(name):
                point = {**POINT, **changes}
                result = self.trained(point)
                self.assertEqual(len(result["losses"]), 5)
                code, told = self.against(point, result)
                print(f"{name}: {told.splitlines()[-1]}")
                self.assertEqual(code, 0, told)

    def test_configs_train_as_their_classes(self):
        """What mbench import makes of a config.json, with the class that transformers builds of it."""
        sys.path.insert(0, SCRIPTS)
        from fixtures.transformers_configs import CHECKED
        with open(os.path.join(SCRIPTS, "../test/fixtures/configs.json")) as file:
            configs = [case["config"] for case in json.load(file)["cases"] if case["config"]["model_type"] in CHECKED]
        self.assertGreaterEqual(len(configs), len(CHECKED))
        for config in configs:
            with self.subTest(config["model_type"]):
                path = self.write("config.json", config)
                subprocess.run([MBENCH, "import", path, "-o", self.path("spec.json")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with open(self.path("spec.json")) as file:
                    imported = json.load(file)
                experts = {"router": "learned"} if imported["model"].get("experts") else {}
                point = {**POINT, "learning_rate": 1e-3, "model": imported["model"], "attention": "flash", **experts}
                code, told = self.against(point, self.trained(point), "--config", path)
                print(f"{config['model_type']}: {told.splitlines()[-1]}")
                self.assertEqual(code, 0, told)

    def test_it_finds_what_is_wrong(self):
        point = {**POINT, "model": llama(kv_heads=2, rope=SCALED)}
        for name, changes in {"base": {"rope": {**SCALED, "base": 1000}}, "no slow pairs": {"rope": {"base": 10000}},
                              "epsilon": {"norm_eps": 2e-5}}.items():
            with self.subTest(name):
                result = self.trained({**point, "model": {**point["model"], **changes}})
                code, told = self.against(point, {**result, "model": point["model"]})
                print(f"{name}: {told.splitlines()[-1]}")
                self.assertEqual(code, 1, told)

    def test_results_of_other_points_are_refused(self):
        point = {**POINT, "model": llama()}
        result = self.trained({**point, "seed": 5})
        self.assertEqual(self.against(point, result),
                         (2, f"[reference_losses] {self.path('own.json')}: another point, got seed 5, need 1234\n"))
        code, told = self.against(point, {**result, "outcome": "oom"})
        self.assertEqual(code, 2)
        self.assertIn('nothing to compare, got outcome "oom"', told)

    def test_it_writes_what_it_computed(self):
        point = {**POINT, "model": llama()}
        code, told = self.reference(point, "--out", self.path("out.json"))
        self.assertEqual(code, 0, told)
        self.assertIn("| 5 |", told)
        with open(self.path("out.json")) as file:
            out = json.load(file)
        self.assertEqual((len(out["losses"]), len(out["gradient_norms"]), out["seed"]), (5, 5, 1234))
        self.assertIn("LlamaForCausalLM", out["source"])

    def test_what_cannot_be_compared_is_refused_by_name(self):
        for name, changes in REFUSED.items():
            with self.subTest(name):
                code, told = self.reference({**POINT, **changes})
                self.assertEqual(code, 2, told)
                self.assertRegex(told, r"^\[reference_losses\] .*, got .*, need .*\n$")
                self.assertIn(name + ":" if "." in name and ":" not in name else name, told)


if __name__ == "__main__":
    if not all(importlib.util.find_spec(package) for package in ("torch", "transformers")):
        print("skipped: this Python has no torch, or no transformers")
        sys.exit(77)
    MBENCH = os.path.join(sys.argv.pop(), "mbench")
    unittest.main()
