"""The training loop: exact resume, budgets, averages, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from toy_training import Toy, settings, train

from paseo.errors import BadInput, NotFinite
from paseo.train.loop import Order, derive
from paseo.train.state import CHECKPOINT, Ema, plot_log, read_log

ROOT = Path(__file__).parents[2]
TOY = str(Path(__file__).with_name("toy_training.py"))
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def assert_same_run(a: Path, b: Path) -> None:
    """Every tensor of the checkpoints bit for bit, and every logged number that is not a time."""
    left, right = load_file(a / CHECKPOINT), load_file(b / CHECKPOINT)
    assert left.keys() == right.keys()
    assert {k for k in left if not torch.equal(left[k], right[k])} == set()
    assert any(k.startswith("optim.") and k.endswith("exp_avg_sq") for k in left)
    timeless = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in read_log(folder)] for folder in (a, b)
    ]
    assert timeless[0] == timeless[1]


def test_stopped_and_resumed_equals_unbroken(tmp_path: Path) -> None:
    train(tmp_path / "whole", 30)
    with pytest.raises(NotFinite, match="step 13"):  # between two log lines and two validations
        train(tmp_path / "broken", 30, Toy(trouble_at=14), checkpoint_minutes=0)
    outcome = train(tmp_path / "broken", 30)
    assert outcome.step == 30
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_resume_after_kill_9_equals_unbroken(tmp_path: Path) -> None:
    train(tmp_path / "whole", 60)
    victim = subprocess.Popen(
        [sys.executable, TOY, str(tmp_path / "broken"), "60", "0", "0.05"],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 180
    while len(read_log(tmp_path / "broken")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    reached = max(row["step"] for row in read_log(tmp_path / "broken"))
    assert 0 < reached < 60
    train(tmp_path / "broken", 60)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    a, b = train(tmp_path / "a", 5), train(tmp_path / "b", 5, seed=1)
    assert not torch.equal(next(a.net.parameters()), next(b.net.parameters()))


def test_sigterm_leaves_a_checkpoint_and_the_run_goes_on(tmp_path: Path) -> None:
    train(tmp_path / "whole", 30)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    outcome = train(tmp_path / "broken", 30, Toy(pause=0.1))
    timer.join()
    assert outcome.interrupted
    assert 0 < outcome.step < 30
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not train(tmp_path / "broken", 30).interrupted
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    first = train(tmp_path, 20)
    log = (tmp_path / "log.jsonl").read_bytes()
    again = Toy()
    second = train(tmp_path, 20, again)
    assert again.calls == 0
    assert second.summary == first.summary
    assert (tmp_path / "log.jsonl").read_bytes() == log


def test_a_longer_budget_goes_on_but_other_settings_do_not(tmp_path: Path) -> None:
    train(tmp_path, 10)
    recipe = Toy()
    assert train(tmp_path, 15, recipe).step == 15
    assert recipe.calls == 5
    with pytest.raises(BadInput, match=r"lr was 0\.01, is 0\.02"):
        train(tmp_path, 20, lr=0.02)
    fresh = Toy()
    train(tmp_path, 20, fresh, lr=0.02, resume=False)
    assert fresh.calls == 20


def test_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"\x05\0\0\0\0\0\0\0abcde")
    with pytest.raises(BadInput, match="does not belong to this run"):
        train(tmp_path, 5)


def test_loss_falls_and_is_logged_and_plotted(tmp_path: Path) -> None:
    outcome = train(tmp_path, 80)
    rows = read_log(tmp_path)
    losses = [row["loss"] for row in rows if "loss" in row]
    assert len(losses) == 20
    assert losses[-1] < 0.5 * losses[0]
    checks = [row for row in rows if "validation" in row]
    assert [row["step"] for row in checks] == list(range(10, 81, 10))
    assert outcome.validation == checks[-1]["validation"]
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert {"step", "loss", "l1", "gradient", "lr", "seconds"} <= rows[0].keys()


def test_progress_bar_tells_training_and_validation_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SameName(Toy):
        def validate(self, net: nn.Module) -> dict[str, float]:
            return {"loss": 0.125}

    shown: list[dict[str, str]] = []
    monkeypatch.setattr("tqdm.std.tqdm.set_postfix", lambda self, values: shown.append(values))
    train(tmp_path, 12, SameName(), log_every=2, validate_every=4, quiet=False)
    assert shown[-1]["val_loss"] == "0.125"
    assert float(shown[-1]["loss"]) > 0


def test_denormals_are_left_as_they_were_found(tmp_path: Path) -> None:
    train(tmp_path, 1)
    assert torch.tensor(5e-324, dtype=torch.float64) * 1.0 > 0


def test_plot_of_nothing_is_nothing(tmp_path: Path) -> None:
    assert plot_log(tmp_path) is None


def test_a_torn_last_line_of_the_log_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 4, "loss": 1.0}\n{"step": 8, "lo')
    assert read_log(tmp_path) == [{"step": 4, "loss": 1.0}]


def test_time_budget_ends_the_run(tmp_path: Path) -> None:
    outcome = train(tmp_path, 10**6, Toy(pause=0.01), minutes=0.5 / 60)
    assert 0.5 <= outcome.seconds < 5
    assert 1 < outcome.step < 60
    rates = [row["lr"] for row in read_log(tmp_path) if "lr" in row]
    assert rates[-1] < rates[0]  # the cosine follows the clock


def test_every_sample_is_seen_once_per_epoch_in_an_order_that_can_be_entered_anywhere() -> None:
    order = Order(50, seed=3)
    stream = torch.cat([order(8 * k, 8) for k in range(25)])
    for epoch in stream.split(50):
        assert sorted(epoch.tolist()) == list(range(50))
    assert not torch.equal(stream[:50], stream[50:100])
    assert torch.equal(Order(50, seed=3)(117, 40), stream[117:157])
    assert torch.equal(
        Order(3, seed=0)(0, 9).sort().values, torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    )  # batch larger than the set


def test_derived_seeds_differ_where_sums_would_meet() -> None:
    seeds = {derive(a, b, c) for a in range(6) for b in range(6) for c in range(6)}
    assert len(seeds) == 216
    assert all(0 <= s < 2**63 for s in seeds)


def test_ema_follows_its_formula() -> None:
    net = nn.Linear(2, 1)
    nn.init.zeros_(net.weight)
    ema, expected = Ema(net, 0.9), 0.0
    for step in range(200):
        nn.init.constant_(net.weight, float(step))
        ema.update(net, step)
        d = min(0.9, (step + 1) / (step + 20))
        expected = d * expected + (1 - d) * step
    torch.testing.assert_close(ema.net.weight, torch.full((1, 2), expected), rtol=1e-5, atol=0)
    assert not ema.net.weight.requires_grad


def test_zero_decay_exports_the_raw_weights(tmp_path: Path) -> None:
    outcome = train(tmp_path, 7, ema=0.0)
    saved = load_file(tmp_path / CHECKPOINT)
    assert all(torch.equal(p, saved[f"net.{n}"]) for n, p in outcome.net.named_parameters())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("lr", float("nan")),
        ("ema", 1.0),
        ("minutes", -1),
        ("precision", "fp16"),
        ("seed", -1),
        ("batch_size", 0),
        ("clip", 0),
    ],
)
def test_settings_are_checked(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(BadInput, match=field):
        replace(settings(tmp_path, 5), **{field: value})


def test_budgets(tmp_path: Path) -> None:
    assert settings(tmp_path, None).steps == 20_000
    timed = settings(tmp_path, None, minutes=3)
    assert (timed.steps, timed.minutes) == (None, 3)


def test_learning_rate_warms_up_and_ends_at_its_floor(tmp_path: Path) -> None:
    config = settings(tmp_path, 100, lr=1.0, warmup=10, final_lr=0.1)
    assert config.lr_at(0, 0.0) == pytest.approx(0.1)
    assert config.lr_at(9, 0.0) == pytest.approx(1.0)
    assert config.lr_at(50, 0.5) == pytest.approx(0.55)
    assert config.lr_at(99, 1.0) == pytest.approx(0.1)
    assert settings(tmp_path, 100, lr=1.0, warmup=0, schedule="constant").lr_at(99, 1.0) == 1.0


def test_bfloat16_run_resumes_exactly_too(tmp_path: Path) -> None:
    train(tmp_path / "whole", 12, precision="bf16")
    with pytest.raises(NotFinite):
        train(tmp_path / "broken", 12, Toy(trouble_at=7), checkpoint_minutes=0, precision="bf16")
    train(tmp_path / "broken", 12, precision="bf16")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.slow
def test_two_processes_stay_synchronised_and_learn(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", TOY]
    done = subprocess.run(
        [*launch, str(tmp_path), "80"], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = sorted(line for line in done.stdout.splitlines() if "checksum" in line)
    assert [line.split(" checksum")[0] for line in reports] == ["rank 0 of 2", "rank 1 of 2"]
    assert reports[0].split("checksum")[1] == reports[1].split("checksum")[1]  # same weights, to the last bit
    losses = [row["loss"] for row in read_log(tmp_path) if "loss" in row]
    assert len(losses) == 20  # one process writes
    assert losses[-1] < 0.5 * losses[0]
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["step"] == 4


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    from paseo.train.loop import run

    class ThreeProcesses:
        num_processes, process_index, is_main_process, device = 3, 0, True, torch.device("cpu")

    with pytest.raises(BadInput, match="multiple of the 3 processes"):
        run(Toy(), settings(tmp_path, 5), ThreeProcesses())
