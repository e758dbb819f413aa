"""Choosing a method's settings for a model and a task, by any metric on validation images. Optuna does the
choosing.

    paseo tune --task sr4 --data faces --images 16 --trials 60 --study tune.db

A study lies in an SQLite file. Its name holds a digest of all that a score depends on (weights, images,
noise, fixed settings, bounds), so the same command goes on where it stopped, also after a crash and also in
several processes at once, and another command never mixes its trials in. The first trial is the settings kept
until now, or the method's defaults.

A trial goes through the images in small batches and is given up as soon as a Wilcoxon signed-rank test says
that it is worse, image by image, than the best one so far, or as its error is half as large again. Every
image has its own fixed noise, so trials are compared pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from paseo.base import Sampler
from paseo.errors import BadInput, NotFinite, OutOfMemory
from paseo.files import read_json, write_json
from paseo.lab.bench.pictures import Truth
from paseo.lab.tune.study import alone, claim, enqueue_missing, open_storage, readable, writable
from paseo.lab.tune.tuning import Tuned, Tuning
from paseo.models import LEAN

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

SCORED = ("psnr", "lpips")  # what a preset says about itself, beside the metric it was tuned by
RANDOM_TRIALS = 12
HOPELESS = 1.5  # times the best trial's error on the same images: no test is needed to give up


def tune(tuning: Tuning, say: Callable[[str], None] = lambda text: None) -> Tuned:
    """Run what is missing of the study and return its best trial, scored once more by the usual metrics."""
    import optuna

    _check_runs(tuning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it warns of what ends a trial with a traceback
    study = _open(tuning)
    with writable(tuning.study, lambda: len(_ended(study))):
        while _enqueue(study, tuning) or len(_ended(study)) < tuning.trials:
            study.optimize(lambda trial: _attempt(tuning, trial), n_trials=1)
            say(_news(study, tuning))
    sampler, score, images = _winner(study, tuning, say)
    starts = [t.value for t in _complete(study) if t.user_attrs.get("start")]
    counts = len(_ended(study)), sum(t.state.name == "PRUNED" for t in study.trials)
    start = starts[0] if starts else None
    name, label = tuning.setup.task.name, tuning.label
    history: tuple[dict[str, object], ...] = tuple(
        {"settings": t.params, tuning.metric_name: _value(t)} for t in _ended(study)
    )
    recipe = tuning.chosen.recipe
    beside: dict[str, object] = (
        {} if recipe.guidance is None else {"prompt": recipe.prompt, "guidance": recipe.guidance}
    )
    if recipe.operator.name.endswith(f"/{LEAN}"):
        beside["operator"] = recipe.operator.name
    return Tuned(
        name,
        label,
        sampler,
        score,
        start,
        importances(study),
        *counts,
        images,
        study.study_name,
        history,
        beside,
    )


def _enqueue(study: Study, tuning: Tuning) -> int:
    """Try first what is used now, as far as the axes allow; then the grid, also one that is new to a study.
    How many trials that were killed are to be repeated.
    """
    base = asdict(tuning.base())
    now = {name: base[name] for name in tuning.space}
    inside = {name: value for name, value in now.items() if tuning.space[name].holds(value)}
    with alone(tuning.study):
        return enqueue_missing(study, inside, len(inside) == len(now), tuning.grid)


def _winner(
    study: Study, tuning: Tuning, say: Callable[[str], None]
) -> tuple[Sampler, dict[str, float], int]:
    """The best trial, or the best of the finalists on their own images; its scores, and the number of images
    behind them.
    """
    ranked = sorted(_complete(study), key=lambda t: -t.value if tuning.metric.higher else t.value)
    if not ranked:
        raise BadInput(
            f"None of the {len(_ended(study))} trials of {study.study_name!r} ran to its end. Narrow the "
            "bounds with --space."
        )
    if not tuning.final_pictures:
        sampler = tuning.sampler(ranked[0].params)
        score = ranked[0].user_attrs.get("scores") or _final(
            tuning, sampler, tuning.pictures
        )  # a study of an earlier version has none
        return sampler, score, len(tuning.pictures)
    finals = []
    for trial in ranked[: tuning.finalists]:
        sampler = tuning.sampler(trial.params)
        finals.append((sampler, _final(tuning, sampler, tuning.final_pictures)))
        say(
            f"final  {tuning.metric_name} {finals[-1][1][tuning.metric_name]:.4f} (trial {trial.number}: "
            f"{trial.value:.4f})"
        )
    sign = -1 if tuning.metric.higher else 1
    return *min(finals, key=lambda entry: sign * entry[1][tuning.metric_name]), len(tuning.final_pictures)


def write_preset(path: Path, tuned: Tuned) -> Path:
    """Put the entry into a presets.json, beside what is there."""
    entries = read_json(path) if path.is_file() else {}
    if not isinstance(entries, dict):
        raise BadInput(f"{path} does not hold presets: an object with one entry per task was expected.")
    entries.setdefault(tuned.task, {})[tuned.label] = tuned.entry()
    return write_json(path, entries)


def importances(study: Study) -> dict[str, float]:
    """Share of each field in what separates the good trials from the others (PED-ANOVA); empty where there
    are too few.
    """
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator

    if len(_complete(study)) < 4:
        return {}
    try:
        found = optuna.importance.get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    except (ValueError, RuntimeError):  # all trials alike
        return {}
    return {name: round(float(share), 4) for name, share in found.items() if math.isfinite(share)}


def _attempt(tuning: Tuning, trial: Trial) -> float:
    """The mean over all images, or given up on the way."""
    import optuna

    claim(trial)
    values = {name: axis.suggest(trial, name) for name, axis in tuning.space.items()}
    try:
        sampler = tuning.sampler(values)
    except BadInput as error:  # a combination that has no meaning
        raise optuna.TrialPruned(str(error)) from None
    found: dict[str, list[float]] = {}
    errors: list[float] = []
    try:
        for scores in _scores(tuning, sampler, tuning.pictures):
            found = {name: found.get(name, []) + values for name, values in scores.items()}
            for step, value in list(enumerate(found[tuning.metric_name]))[len(errors) :]:
                trial.report(value, step=step)
            errors = found[tuning.metric_name]
            if (
                tuning.prune
                and len(errors) < len(tuning.pictures)
                and (trial.should_prune() or _hopeless(trial, tuning, errors))
            ):
                raise optuna.TrialPruned(f"worse than the best after {len(errors)} images")
    except (NotFinite, OutOfMemory) as error:
        raise optuna.TrialPruned(str(error)) from None
    trial.set_user_attr("scores", _means(found))
    return sum(errors) / len(errors)


def _hopeless(trial: Trial, tuning: Tuning, values: Sequence[float]) -> bool:
    """Far from the best trial on the images so far; only a test on many images could say so of a metric in
    decibels.
    """
    complete = _complete(trial.study)
    if tuning.metric.higher or not complete:
        return False
    best = min(complete, key=lambda t: t.value).intermediate_values
    return sum(values) > HOPELESS * sum(best[step] for step in range(len(values)))


def _scores(tuning: Tuning, sampler: Sampler, pictures: Sequence[Truth]) -> Iterator[dict[str, list[float]]]:
    """The metrics that a preset carries, batch by batch, one value per image."""
    names = list(dict.fromkeys([tuning.metric_name, *SCORED]))
    for start in range(0, len(pictures), tuning.batch):
        scores = tuning.chosen.scores(sampler, pictures[start : start + tuning.batch], names, tuning.seed)
        yield {name: scores[name].tolist() for name in names}


def _means(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: round(sum(values) / len(values), 4) for name, values in found.items()}


def _final(tuning: Tuning, sampler: Sampler, pictures: Sequence[Truth]) -> dict[str, float]:
    """The means over other pictures than those of the trials."""
    batches = list(_scores(tuning, sampler, pictures))
    return _means({name: [value for batch in batches for value in batch[name]] for name in batches[0]})


def _check_runs(tuning: Tuning) -> None:
    reason = tuning.chosen.unsupported(tuning.base(), tuning.pictures[0])
    if reason:
        raise BadInput(f"{tuning.method} cannot run on {tuning.setup.task.name}: {reason}")
    if tuning.metric.regional and not tuning.setup.task.masks:
        raise BadInput(
            f"{tuning.metric_name} belongs to tasks that hide pixels; {tuning.setup.task.name} hides none."
        )


def _open(tuning: Tuning) -> Study:
    """The study, made or found."""
    import warnings

    import optuna

    storage = open_storage(tuning.study)
    with (
        alone(tuning.study),
        readable(tuning.study),
        warnings.catch_warnings(action="ignore"),
    ):  # this pruner is marked experimental
        study = optuna.create_study(
            storage=storage,
            study_name=tuning.name(),
            direction="maximize" if tuning.metric.higher else "minimize",
            pruner=optuna.pruners.WilcoxonPruner(
                p_threshold=0.1, n_startup_steps=min(4, len(tuning.pictures) - 1)
            ),
            load_if_exists=True,
        )
        random_ones = len(tuning.grid) or RANDOM_TRIALS  # before the model of good settings is asked
        sampler = optuna.samplers.TPESampler(
            seed=tuning.seed + len(study.trials),
            multivariate=True,
            n_startup_trials=random_ones,
            constant_liar=True,
        )
    study.sampler = sampler
    return study


def _ended(study: Study) -> list[FrozenTrial]:
    return [t for t in study.trials if t.state.name in ("COMPLETE", "PRUNED")]


def _complete(study: Study) -> list[FrozenTrial]:
    return [t for t in study.trials if t.state.name == "COMPLETE"]


def _value(trial: FrozenTrial) -> float | None:
    """Optuna gives a trial that was stopped the value of its last image, which is no mean."""
    return round(trial.value, 5) if trial.state.name == "COMPLETE" and trial.value is not None else None


def _news(study: Study, tuning: Tuning) -> str:
    last = max(_ended(study), key=lambda t: t.datetime_complete)  # trials of a grid stand behind it, waiting
    value = f"{last.value:.4f}" if last.state.name == "COMPLETE" else last.state.name.lower()
    best = f"{study.best_value:.4f}" if _complete(study) else "none"
    settings = ", ".join(
        f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in last.params.items()
    )
    return f"{len(_ended(study))}/{tuning.trials}  {tuning.metric_name} {value}, best {best}   {settings}"
