"""The study on disk: opening it, and seeing to it that no setting that was to be tried is forgotten.

A trial whose process was killed stays "running" in the file. One of this machine whose process is gone is
given up at once, one of another machine when its heartbeat has stopped; if it was the start or a point of
the grid, it is put into the queue again, before anything new is tried.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from paseo.errors import BadInput, PaseoError
from paseo.lock import Owner, gone, locked, me

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.storages import BaseStorage, RDBStorage
    from optuna.trial import FrozenTrial

HEARTBEAT = 60  # seconds; a trial that was silent for two of them is dead
CLAIMED = 5  # seconds after its beginning, a trial has an owner
PATIENCE = 60  # seconds to wait for another process that writes
START, AGAIN, OWNER = "start", "again", "owner"  # notes on a trial


def open_storage(path: Path) -> RDBStorage:
    """The SQLite file as optuna's storage, made or found; BadInput if it is damaged."""
    with alone(path):
        if path.exists():
            _check_whole(path)
        from optuna.storages import RDBStorage

        with readable(path), warnings.catch_warnings(action="ignore"):  # heartbeats are marked experimental
            storage = RDBStorage(
                f"sqlite:///{path}",
                engine_kwargs={"connect_args": {"timeout": PATIENCE}},
                heartbeat_interval=HEARTBEAT,
                grace_period=2 * HEARTBEAT,
            )
            for study in storage.get_all_studies():
                storage.get_all_trials(study._study_id, deepcopy=False)  # what cannot be read is said now
            return storage


@contextmanager
def alone(path: Path) -> Generator[None]:
    """While the block lasts, no other process makes the study or fills its queue: each looks first, and what
    two find missing would be made twice.
    """
    with locked(path.parent, "study", f".{path.name}.lock", wait=PATIENCE):
        yield


def _check_whole(path: Path) -> None:
    with (
        readable(path),  # rw: what a killed process left half-written is rolled back first
        closing(sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=rw", uri=True)) as found,
    ):
        told = found.execute("pragma quick_check(1)").fetchone()
    if told != ("ok",):
        raise _damaged(path, str(told[0] if told else "empty"))


@contextmanager
def readable(path: Path) -> Generator[None]:
    """Errors of the database are the file's."""
    try:
        yield
    except PaseoError:
        raise
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from error
    except Exception as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


@contextmanager
def writable(path: Path, done: Callable[[], int]) -> Generator[None]:
    """Errors of the database while trials run; `done()` says how far they came. Errors of a trial pass."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError, sqlite3.Error) as error:
        cause = error.__cause__ or error
        told = " ".join(str(cause).split())[:200]
        raise BadInput(
            f"The study {path} cannot be written any more ({told}). {done()} trials are in it; make room, "
            f"and give the "
            "same command again."
        ) from error


def _damaged(path: Path, told: str) -> BadInput:
    short = " ".join(told.split())[:200]
    return BadInput(
        f"{path} is no study that can be read ({short}). Take a copy of it, or another file with --study."
    )


def give_up_dead(study: Study) -> None:
    """Trials whose process is gone have failed."""
    import optuna
    from optuna.trial import TrialState

    with warnings.catch_warnings(action="ignore"):  # marked experimental
        optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = _owner(study._storage, trial)
        if owner is None or gone(owner):
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)


def _owner(storage: BaseStorage, trial: FrozenTrial) -> Owner | None:
    """Who computes a trial. It is claimed as soon as it is begun: one that nobody claims was killed then."""
    while True:
        found = Owner.read(storage.get_trial(trial._trial_id).user_attrs.get(OWNER))
        age = datetime.now() - (trial.datetime_start or datetime.min)
        if found is not None or not timedelta(0) <= age < timedelta(seconds=CLAIMED):
            return found
        time.sleep(0.1)


def claim(trial: Trial) -> None:
    """Note who computes a trial."""
    trial.set_user_attr(OWNER, asdict(me()))


def enqueue_missing(
    study: Study, start: Mapping[str, object], whole: bool, grid: Sequence[Mapping[str, object]]
) -> int:
    """Put the start and the grid's points into the queue, unless they are there, running or done; how many
    are to be
    tried again. `whole` says whether the start is all of the settings used until now.
    """
    give_up_dead(study)
    kept = [t for t in study.get_trials(deepcopy=False) if t.state.name != "FAIL"]
    lost = [t for t in study.get_trials(deepcopy=False) if t.state.name == "FAIL"]
    known = [t.system_attrs.get("fixed_params", t.params) for t in kept]
    if not any(START in t.user_attrs for t in kept) and (lost or not kept):
        study.enqueue_trial(dict(start), user_attrs={START: whole, AGAIN: bool(lost)})
        known.append(dict(start))
    failed = [t.system_attrs.get("fixed_params") for t in lost]
    for point in ({**start, **p} for p in grid):
        if point not in known:
            study.enqueue_trial(point, user_attrs={AGAIN: point in failed})
            known.append(point)
    waiting = [t for t in study.get_trials(deepcopy=False) if t.state.name == "WAITING"]
    return sum(bool(t.user_attrs.get(AGAIN)) for t in waiting)
