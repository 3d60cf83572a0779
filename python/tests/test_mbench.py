"""The Python module over the library: what it returns, what it raises, and that it can be interrupted."""

import json
import os
import signal
import threading
import time

import mbench
import pytest

ONE = {"model": "gpt2-345m", "seq": 1024, "micro_batch": 2, "global_batch": 16, "precision": "bf16"}
SPEC = {**ONE, "sweep": {"tp": [1, 2, 8]}}
WIDE = {"model": "llama-3-8b", "seq": 8192, "global_batch": 64, "precision": "bf16", "attention": "flash", "search": "all"}


def test_a_row_for_each_point():
    rows = mbench.simulate(SPEC, on="8xH100-SXM5-80GB", framework="megatron-core")
    assert [row.label for row in rows] == ["tp=1", "tp=2", "tp=8"]
    assert all(row.ok for row in rows)
    for row in rows:
        step = row.metric("iteration_ms")
        assert step == pytest.approx(sum(row.time_ms.values()))
        assert row.metric("peak_memory_mib") == pytest.approx(sum(row.memory_mib.values()))
        assert row.expected.low_ms < step < row.expected.high_ms
        assert row.metric("expert_imbalance") is None
    assert rows[2].metric("peak_memory_mib") < rows[0].metric("peak_memory_mib")


def test_rows_are_dicts_frames_and_tables(tmp_path):
    rows = mbench.simulate(SPEC, on="8xH100-SXM5-80GB")
    record = mbench.as_dict(rows[0])
    assert record["outcome"] == "ok" and record["simulated"] is True and record["tp"] == 1
    table = mbench.frame(rows)
    assert list(table["tp"]) == [1, 2, 8]
    assert table["iteration_ms"].notna().all()
    assert "MFU" in mbench.tables(SPEC, rows, columns=["tp", "mfu"])
    mbench.write_results(tmp_path / "results.json", SPEC, rows)
    again = json.loads((tmp_path / "results.json").read_text())
    assert [p["id"] for p in again["points"]] == [row.id for row in rows]


def test_what_does_not_fit_is_a_row():
    (row,) = mbench.simulate({**ONE, "model": "gpt3-175b"}, on="1xH100-SXM5-80GB")
    assert row.outcome == "oom" and not row.ok and "rank 0" in row.reason
    assert row.metric("iteration_ms") is None and row.time_ms == {}


def test_a_plan_needs_no_machine():
    (step,) = mbench.plan(ONE, set=["tp=8"])
    assert step.devices == 8 and step.parameters > 340e6
    assert step.memory[0].ranks == 8 and step.memory[0].total_mib == pytest.approx(sum(step.memory[0].by_category_mib.values()))
    assert any("tp" in w.placement for w in step.weights)


def test_figures_change_the_machine():
    simulator = mbench.Simulator("8xH100-SXM5-80GB")
    spec = mbench.load_spec({**ONE, "tp": 8})
    now = simulator.simulate(spec).metric("iteration_ms")
    slower = simulator.what_if({"device.memory_gbps": 1000.0}, spec).metric("iteration_ms")
    assert slower > now
    assert simulator.simulate(spec).metric("iteration_ms") == now
    estimate = simulator.estimate(spec)
    assert estimate.step_ms == pytest.approx(now)


def test_a_search_finds_what_simulate_gives():
    seen = []
    found = mbench.search({**ONE, "search": ["tp", "dp"]}, on="8xH100-SXM5-80GB", best=3,
                          threads=2, progress=seen.append)
    assert len(found.best) == 3 and found.simulated <= found.layouts and seen
    times = [row.metric("iteration_ms") for row in found.best]
    assert times == sorted(times)
    best = mbench.as_dict(found.best[0])
    point = {key: best[key] for key in ("tp", "dp", "pp", "micro_batch")}
    (row,) = mbench.simulate({**ONE, **point}, on="8xH100-SXM5-80GB")
    assert row.metric("iteration_ms") == times[0]


def test_errors_have_a_kind_and_name_the_place():
    with pytest.raises(mbench.Error, match=r"H100-SXM5-80GB") as caught:
        mbench.simulate(SPEC, on="8xH100-SXM5-81GB")
    assert caught.value.kind == "bad_input"
    with pytest.raises(mbench.Error, match=r"\$\.micro_batchs") as caught:
        mbench.load_spec({"model": "gpt2-345m", "micro_batchs": 1})
    assert caught.value.kind == "bad_input"
    with pytest.raises(mbench.Error) as caught:
        mbench.plan({**ONE, "tp": 7})
    assert caught.value.kind == "infeasible"
    with pytest.raises(mbench.Error):
        mbench.load_spec(SPEC).id(3)
    with pytest.raises(mbench.Error, match="mfu"):
        mbench.simulate(ONE, on="1xH100-SXM5-80GB")[0].metric("mfus")


def test_a_config_is_a_spec(tmp_path):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1536,
              "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 4, "vocab_size": 32000,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    spec, _ = mbench.import_files(file)
    assert spec["model"]
    (row,) = mbench.simulate(file, on="1xH100-SXM5-80GB", set=["seq=1024"])
    assert row.ok


def test_other_threads_run_while_it_simulates():
    done = threading.Event()
    ticks = 0

    def work():
        mbench.search(WIDE, on="64xH100-SXM5-80GB", framework="megatron-core", threads=1, progress=lambda p: done.is_set() and stop())

    def stop():
        raise RuntimeError("enough")

    thread = threading.Thread(target=lambda: pytest.raises(RuntimeError, work))
    thread.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        ticks += 1
        time.sleep(0.001)
    done.set()
    thread.join(60)
    assert not thread.is_alive() and ticks > 100


def test_ctrl_c_ends_a_search():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        mbench.search(WIDE, on="64xH100-SXM5-80GB", framework="megatron-core", threads=1)
    assert time.monotonic() - begin < 60


def test_names_and_machines():
    assert "H100-SXM5-80GB" in mbench.machines() and "megatron-core" in mbench.frameworks() and "llama-3-8b" in mbench.models()
    assert mbench.machine("H100-SXM5-80GB")["device"]["memory_gbps"]["source"]
    assert mbench.Simulator("8xh100-sxm").machine == "8xH100-SXM5-80GB"
    assert mbench.__version__.count(".") == 2
