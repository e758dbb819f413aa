"""What a run leaves on disk while it goes: the checkpoint, the JSONL log and the loss plot.

A checkpoint is one safetensors file, replaced in one step: `net.*`, `ema.*`, `optim.<parameter>.<quantity>`,
and the step, the elapsed time and the running means as JSON in its metadata. No generator state is needed:
the order of the data and the noise of step k are functions of (seed, k, rank).
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from paseo.errors import BadInput, PaseoError
from paseo.files import atomic, bounded_json, write_text
from paseo.weights import check_finite, check_shapes, damaged, header, metadata, read_weights

CHECKPOINT, LOG, PLOT = "checkpoint.safetensors", "log.jsonl", "loss.png"


class Ema:
    """Exponential moving average of weights and buffers, θ̄ ← d θ̄ + (1−d) θ with d = min(decay,
    (k+1)/(k+20)) at step k.

    The ramp lets the average forget the initial weights at once.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        import copy

        self.decay = decay
        self.net = copy.deepcopy(net).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        d = min(self.decay, (step + 1) / (step + 20))
        for mean, value in zip(_tensors(self.net), _tensors(net), strict=True):
            if mean.is_floating_point():
                mean.lerp_(value.detach(), 1 - d)
            else:
                mean.copy_(value)


def _tensors(net: nn.Module) -> list[Tensor]:
    return [*net.parameters(), *net.buffers()]


def save_checkpoint(
    folder: Path, net: nn.Module, ema: Ema, optimizer: torch.optim.Optimizer, meta: dict[str, object]
) -> None:
    """Replace the run's checkpoint; after a crash at any moment either the old or the new one is whole."""
    names = _parameter_names(net, optimizer)
    tensors = {f"net.{k}": v for k, v in net.state_dict().items()} | {
        f"ema.{k}": v for k, v in ema.net.state_dict().items()
    }
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optim.{names[i]}.{k}": torch.as_tensor(v) for k, v in state.items()}
    tensors = {
        k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()
    }  # clone: no two may share memory
    if not folder.is_dir():
        raise BadInput(f"The training's folder {folder} was deleted while it ran. Start it again.")
    check_finite(tensors, "Not saved, the last checkpoint stays: the training")
    with atomic(folder / CHECKPOINT) as file:
        file.write(save(tensors, metadata={"paseo": json.dumps(meta)}))


def load_checkpoint(
    folder: Path, net: nn.Module, ema: Ema, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put weights, averages and moments in place and return the metadata."""
    path = folder / CHECKPOINT
    try:
        stored = {name: entry.shape for name, entry in header(path).items()}
        for prefix, own in (("net.", net), ("ema.", ema.net)):
            want = {name: tuple(value.shape) for name, value in own.state_dict().items()}
            check_shapes(_below(stored, prefix), want, path)
        tensors, _ = read_weights(path)
        meta = checked_meta(metadata(path))
        with damaged(path):
            _load_optimizer(net, optimizer, _below(tensors, "optim."))
            net.load_state_dict(_below(tensors, "net."))
            ema.net.load_state_dict(_below(tensors, "ema."))
    except PaseoError as error:
        raise BadInput(
            f"{path} is damaged or does not belong to this run: {error} Choose another OUT, or start over "
            f"without resuming."
        ) from error
    return meta


def checked_meta(notes: dict[str, str]) -> dict[str, Any]:
    """What a checkpoint says about its run, as far as a run goes on from it."""
    try:
        meta = bounded_json(str(notes["paseo"]).encode())
        counts = [meta[name] for name in ("step", "validated")]
        tables = [meta[name] for name in ("config", "sums", "validation")]
        numbers = [meta["elapsed"], *meta["sums"].values(), *meta["validation"].values()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"its notes cannot be read ({type(error).__name__}).") from None
    good = (
        all(type(n) is int and 0 <= n < 2**53 for n in counts)
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(n, int | float) and math.isfinite(n) for n in numbers)
    )
    if not good:
        raise BadInput("its notes do not describe a run.")
    return meta


def _load_optimizer(net: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    names = _parameter_names(net, optimizer)
    parameters = dict(net.named_parameters())
    state: dict[int, dict[str, Tensor]] = {}
    for i, name in enumerate(names):
        own = {k.removeprefix(name + "."): v for k, v in tensors.items() if k.rpartition(".")[0] == name}
        # the parameter's memory layout, so that a continued run takes the same code path as an unbroken one
        state[i] = {
            k: v if v.dim() == 0 else torch.empty_like(parameters[name]).copy_(v) for k, v in own.items()
        }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _parameter_names(net: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    of = {id(p): name for name, p in net.named_parameters()}
    return [of[id(p)] for group in optimizer.param_groups for p in group["params"]]


def _below(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


class Log:
    """One JSON object per line; continuing a run drops the lines after its checkpoint."""

    def __init__(self, folder: Path, after: int) -> None:
        self.path = folder / LOG
        rows = [row for row in read_log(folder) if row["step"] <= after] if after else []
        write_text(self.path, "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's log; a last line cut off by a crash is left out."""
    path = folder / LOG
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def plot_log(folder: Path) -> Path | None:
    """Draw loss, validation numbers and learning rate over steps; None if matplotlib is not installed or
    nothing is logged.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    rows = read_log(folder)
    train, checks = [r for r in rows if "loss" in r], [r for r in rows if "validation" in r]
    if not train:
        return None
    keys = list(checks[-1]["validation"]) if checks else []
    figure = Figure(figsize=(5 * (1 + len(keys)), 3.6), layout="constrained")
    axes = figure.subplots(1, 1 + len(keys), squeeze=False)[0]
    axes[0].plot([r["step"] for r in train], [r["loss"] for r in train], lw=1)
    axes[0].set(
        title="training loss", xlabel="step", yscale="log" if min(r["loss"] for r in train) > 0 else "linear"
    )
    for axis, key in zip(axes[1:], keys, strict=True):
        known = [r for r in checks if key in r["validation"]]
        axis.plot([r["step"] for r in known], [r["validation"][key] for r in known], "o-", ms=3, lw=1)
        axis.set(title=f"validation {key}", xlabel="step")
    path = folder / PLOT
    partial = path.with_name("loss.tmp.png")
    figure.savefig(partial, dpi=100)
    os.replace(partial, path)
    return path
