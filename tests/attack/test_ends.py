"""How runs end: one bad file, a full disk, a limit on memory, SIGTERM, two at once, a folder that is gone."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import make_model, make_pictures

from paseo.apps.inputs import Job
from paseo.apps.loop import run_jobs
from paseo.errors import BadInput, DiskFull
from paseo.files import machine_tag, sweep, temporary_name, write_text
from paseo.lock import Busy, holder, is_held, locked


def jobs(folder: Path, count: int) -> list[Job]:
    return [Job(folder / f"{i}.png", folder / "out", str(i), f"{i}.png") for i in range(count)]


@pytest.mark.parametrize(
    "error",
    [TypeError("t"), RuntimeError("r"), MemoryError(), KeyError("k"), RecursionError(), AssertionError()],
)
def test_one_bad_file_does_not_end_a_folder(error: Exception, tmp_path: Path) -> None:
    def work(job: Job, bar: Any) -> dict[str, Any]:
        if job.stem == "1":
            raise error
        return {}

    outcome = run_jobs(jobs(tmp_path, 3), work, verb="test")
    assert [r["status"] for r in outcome.results] == ["done", "failed", "done"]
    assert outcome.code == 1
    assert outcome.results[1]["error"].strip()


@pytest.mark.parametrize(
    "error", [DiskFull("no room"), OSError(errno.EROFS, "read-only"), OSError(errno.ENOSPC, "full")]
)
def test_a_full_disk_is_found_once(error: Exception, tmp_path: Path) -> None:
    def work(job: Job, bar: Any) -> dict[str, Any]:
        if job.stem == "1":
            raise error
        return {}

    outcome = run_jobs(jobs(tmp_path, 4), work, verb="test")
    assert [r["status"] for r in outcome.results] == ["done", "failed", "left", "left"]
    assert outcome.code == 2
    assert outcome.as_json()["summary"]["left"] == 2
    assert "2 left" in outcome.text("restored")


def test_a_file_that_grows_too_large_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys; from paseo.files import atomic; from paseo.errors import DiskFull\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, "
        "4096))\n"
        "try:\n    with atomic(sys.argv[1]) as file: file.write(b'x' * 100_000)\n"
        "except DiskFull as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True, check=True
    )
    assert "Cannot write" in done.stdout
    assert not list(tmp_path.iterdir())


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    mine = temporary_name(tmp_path / "a.png")
    dead = tmp_path / f".a.png.{machine_tag()}-999999999-{'0' * 16}.tmp"
    elsewhere = tmp_path / f".a.png.00000000-1-{'0' * 16}.tmp"
    for path in (mine, dead, elsewhere):
        path.touch()
    sweep(tmp_path)
    assert mine.exists()
    assert elsewhere.exists()
    assert not dead.exists()


def test_temporary_names_fit_and_differ(tmp_path: Path) -> None:
    long = tmp_path / ("ü" * 125 + ".png")
    assert temporary_name(long) != temporary_name(long)
    write_text(long, "x")
    assert long.read_text() == "x"


def test_a_signal_that_python_swallows_comes_again() -> None:
    """Raised while an object is cleared away, it would be printed and forgotten."""
    import weakref

    from paseo.apps.ending import Terminated, polite_end

    class Thing:
        pass

    things = [Thing()]
    here = weakref.ref(things[0], lambda _: os.kill(os.getpid(), signal.SIGTERM))

    def cleared() -> None:
        things.clear()
        time.sleep(5)

    with pytest.raises(Terminated), polite_end():
        cleared()
    assert here() is None


# ---- locks


def test_two_see_each_other(tmp_path: Path) -> None:
    with locked(tmp_path, "training") as path:
        assert is_held(path)
        with pytest.raises(Busy, match=rf"process {os.getpid()}"), locked(tmp_path, "training"):
            pass
        assert is_held(path)
    assert not path.exists()
    with locked(tmp_path, "training"):
        pass


def test_a_dead_lock_is_taken_over(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from paseo.lock import locked\n"
        "with locked(Path(sys.argv[1]), 'x'): print('!', flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert is_held(tmp_path / ".lock")
        child.kill()
        child.wait()
    assert (tmp_path / ".lock").exists()
    assert not is_held(tmp_path / ".lock")
    with locked(tmp_path, "x") as path:
        owner = holder(path)
        assert owner is not None
        assert owner.pid == os.getpid()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"pid": 1}',
        "{" * 3000,
        '{"machine": "elsewhere", "pid": 1, "born": "", "since": "", "token": ""}',
    ],
)
def test_locks_of_nobody_known_expire(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text(content)
    assert is_held(path)  # perhaps it is being written
    os.utime(path, (time.time() - 1000, time.time() - 1000))
    assert not is_held(path)
    with locked(tmp_path, "x"):
        assert is_held(path)


@pytest.mark.parametrize("_", range(5))
def test_of_many_one_gets_it(_: int, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("")
    os.utime(tmp_path / ".lock", (0, 0))
    inside, most, got = [0], [0], [0]
    start = threading.Barrier(8)

    def want() -> None:
        start.wait()
        try:
            with locked(tmp_path, "x"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                got[0] += 1
                time.sleep(0.05)
                inside[0] -= 1
        except Busy:
            pass

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert got[0] >= 1
    assert not list(tmp_path.iterdir())


def test_two_trainings_in_one_folder(tmp_path: Path) -> None:
    from toy_training import train

    with locked(tmp_path, "training"), pytest.raises(Busy):
        train(tmp_path, 2)
    assert train(tmp_path, 2).step == 2
    assert not list(tmp_path.glob(".*"))


def test_a_checkpoint_with_nan_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from toy_training import train

    from paseo.train.state import CHECKPOINT
    from paseo.weights import metadata

    train(tmp_path, 2)
    path = tmp_path / CHECKPOINT
    state, notes = load_file(path), metadata(path)
    next(v for k, v in state.items() if k.startswith("optim.") and v.dim())[0] = torch.nan
    save_file(state, path, metadata=notes)
    with pytest.raises(BadInput, match="NaN"):
        train(tmp_path, 4)


def test_the_folder_of_a_training_is_gone(tmp_path: Path) -> None:
    import shutil

    from toy_training import Toy, train

    class Vandal(Toy):
        def loss(self, *arguments: Any) -> Any:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            return super().loss(*arguments)

    with pytest.raises((BadInput, OSError)):
        train(tmp_path / "run", 4, Vandal())


# ---- tune


def test_killed_trials_are_repeated(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    from paseo.lab.tune.study import AGAIN, START, claim, enqueue_missing, open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=open_storage(tmp_path / "s.db"), study_name="s")
    start, grid = {"x": 1.0}, [{"x": 2.0}, {"x": 3.0}]
    assert enqueue_missing(study, start, True, grid) == 0
    for _ in range(2):  # two processes that die: the start and the first point of the grid
        trial = study.ask()
        claim(trial)
        trial.suggest_float("x", 0, 9)
        owner = {**trial.user_attrs["owner"], "pid": 999_999_999}
        trial.set_user_attr("owner", owner)
    assert enqueue_missing(study, start, True, grid) == 2
    assert enqueue_missing(study, start, True, grid) == 2
    tried = []
    for _ in range(3):
        trial = study.ask()
        tried.append(trial.suggest_float("x", 0, 9))
        study.tell(trial, 0.0)
    assert sorted(tried) == [1.0, 2.0, 3.0]
    assert enqueue_missing(study, start, True, grid) == 0
    complete = [t for t in study.trials if t.state.name == "COMPLETE"]
    assert sum(START in t.user_attrs for t in complete) == 1
    assert sum(bool(t.user_attrs.get(AGAIN)) for t in complete) == 2


# ---- bench


def test_done_means_all_of_a_cell(tmp_path: Path) -> None:
    from paseo.lab.bench.cells import whole_features, whole_png

    picture = sorted(make_pictures(tmp_path, 1).iterdir())[0]
    assert whole_png(picture)
    picture.write_bytes(picture.read_bytes()[:-1])
    assert not whole_png(picture)
    assert not whole_png(tmp_path / "absent.png")
    from safetensors.torch import save_file

    path = tmp_path / "f.safetensors"
    save_file({"vgg16": torch.zeros(512)}, path)
    assert whole_features(path, "vgg16")
    assert not whole_features(path, "vgg16+inception")
    path.write_bytes(path.read_bytes()[:-1])
    assert not whole_features(path, "vgg16")


@pytest.mark.parametrize("method", ["../../../x", "/x", "", "a/b", "."])
def test_a_plan_does_not_write_elsewhere(method: str, tmp_path: Path) -> None:
    from paseo.lab.bench.cells import Cell, read_plan, write_plan

    sampler = {"name": "PASEO", "settings": {}}
    cell = Cell(
        "sr4", {}, 0.01, 0, method, sampler, "a", "0" * 64, 0, "faces-128", {}, {}, 1, ("psnr",), ("0" * 64,)
    ).keyed()
    write_plan(tmp_path, [cell])
    with pytest.raises(BadInput, match="Plan again"):
        read_plan(tmp_path)


# ---- the page's and the cluster's surroundings


def test_ray_listens_here_alone_and_keeps_stdout_clean() -> None:
    from paseo.cluster import RayOptions, credentials, init_options

    own = init_options(RayOptions(workers=2))
    assert own["_node_ip_address"] == "127.0.0.1"
    assert own["dashboard_host"] == "127.0.0.1"
    assert "_node_ip_address" not in init_options(RayOptions(address="auto"))
    assert credentials() != credentials()
    program = (
        "import os; from paseo.cluster import stdout_kept_clean\n"
        "with stdout_kept_clean(): os.write(1, b'lost'); print('also')\n"
        "print('json')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "json\n"
    assert "lost" in done.stderr


# ---- whole commands, in processes of their own


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


def command(*words: object, **options: Any) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "paseo", *map(str, words)], capture_output=True, text=True, **options
    )


@pytest.mark.slow
def test_a_full_disk_stops_restore(model: Path, tmp_path: Path) -> None:
    pictures = make_pictures(tmp_path / "in", 3)

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    words = (
        "restore",
        pictures,
        "-o",
        tmp_path / "out",
        "-m",
        model,
        "-t",
        "sr4",
        "--degrade",
        "--set",
        "steps=3",
    )
    done = command(*words, "--json", "-", preexec_fn=small)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["summary"] == {"done": 0, "skipped": 0, "failed": 1, "left": 2}
    assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.slow
def test_too_little_memory_is_one_files_failure(model: Path, tmp_path: Path) -> None:
    pictures = make_pictures(tmp_path / "in", 1)
    make_pictures(tmp_path / "in" / "large", 1, side=4096)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    words = (
        "restore",
        pictures,
        "-o",
        tmp_path / "out",
        "-m",
        model,
        "-t",
        "sr4",
        "--degrade",
        "--set",
        "steps=3",
    )
    done = command(*words, "--json", "-", preexec_fn=small)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["summary"]["done"] >= 1


@pytest.mark.slow
def test_sigterm_is_as_polite_as_ctrl_c(model: Path, tmp_path: Path) -> None:
    pictures = make_pictures(tmp_path / "in", 3)
    words = (
        "restore",
        pictures,
        "-o",
        tmp_path / "out",
        "-m",
        model,
        "-t",
        "sr4",
        "--degrade",
        "--set",
        "steps=10000",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "paseo", *map(str, words)], stderr=subprocess.PIPE, text=True
    ) as child:
        time.sleep(15)
        child.terminate()
        _, told = child.communicate(timeout=60)
    assert child.returncode == 143
    assert "terminated" in told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("*.tmp"))
