"""One training loop for codec, prior and operator: one CPU, one GPU, or several processes under `torchrun`.

Everything random in step k of process r is drawn from a generator seeded by (seed, k, r), and the samples of
step k are positions k·B … k·B+B−1 of a sequence of epoch permutations seeded by (seed, epoch). A run that was
killed and resumed is therefore, on one CPU process with a step budget, equal to the unbroken one in every
bit. (With a time budget the learning rate follows the clock, and so is not repeatable.)
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from paseo.errors import BadInput, NotFinite, out_of_memory
from paseo.lock import locked
from paseo.train.config import LoopConfig
from paseo.train.state import CHECKPOINT, Ema, Log, load_checkpoint, plot_log, save_checkpoint

if TYPE_CHECKING:
    from accelerate import Accelerator

_PLOT_SECONDS = 60.0  # between two plots


class TrainingRecipe(Protocol):
    """What is trained, on what, and how it is judged."""

    net: nn.Module
    count: int  # training samples

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of the samples `index` ∈ [0, count), and numbers to log. `net` stands for self.net and is
        called as a whole.
        """
        ...

    def validate(self, net: nn.Module) -> dict[str, float]:
        """Numbers on held-out data, for the averaged weights."""
        ...


@dataclass(frozen=True)
class Trained:
    """How a run ended."""

    net: nn.Module  # averaged weights, on the CPU, in eval mode
    step: int
    seconds: float  # of training, over all sittings
    validation: dict[str, float]
    interrupted: bool  # by SIGINT or SIGTERM: the checkpoint is written, and the same command goes on

    @property
    def summary(self) -> dict[str, object]:
        return {"steps": self.step, "seconds": round(self.seconds, 1), "validation": self.validation}


# ---- determinism


def derive(*numbers: int) -> int:
    """A 63-bit seed from integers; unlike sums of seeds, no two tuples meet by design."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1


class Order:
    """The sequence of samples: one permutation per epoch, joined end to end, addressable at any position."""

    def __init__(self, count: int, seed: int) -> None:
        if count < 1:
            raise BadInput("There are no training samples.")
        self.count, self.seed = count, seed
        self._epoch, self._permutation = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, start: int, length: int) -> Tensor:
        """Samples at positions start … start+length−1."""
        pieces = []
        while length > 0:
            epoch, offset = divmod(start, self.count)
            piece = self._of(epoch)[offset : offset + length]
            pieces.append(piece)
            start, length = start + len(piece), length - len(piece)
        return torch.cat(pieces)

    def _of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            rng = torch.Generator().manual_seed(derive(self.seed, epoch, -1))
            self._epoch, self._permutation = epoch, torch.randperm(self.count, generator=rng)
        return self._permutation


# ---- session


@contextlib.contextmanager
def session(config: LoopConfig) -> Generator[Any]:
    """An `accelerate.Accelerator` that leaves no process group behind.

    `cpu=True` matters: without it and without a GPU, every process of torchrun believes to be alone.
    """
    from accelerate import Accelerator, InitProcessGroupKwargs

    accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
    waiting = InitProcessGroupKwargs(
        timeout=timedelta(hours=12)
    )  # the first process may decode a large data set
    accelerator = Accelerator(cpu=config.device == "cpu" or not accelerated, kwargs_handlers=[waiting])
    flushed_before = _flushes_denormals()
    torch.set_flush_denormal(
        True
    )  # denormals slow CPUs down by an order of magnitude; restored below, for it is global
    torch.manual_seed(derive(config.seed, 0, -2))  # initial weights: the same in every process
    try:
        yield accelerator
        accelerator.wait_for_everyone()
    finally:
        torch.set_flush_denormal(flushed_before)
        accelerator.free_memory()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _flushes_denormals() -> bool:
    return bool(torch.tensor(5e-324, dtype=torch.float64) * 1.0 == 0)


class _Stop:
    """Turns SIGINT and SIGTERM into a wish to stop after the current step; a second one acts as usual."""

    def __init__(self, active: bool) -> None:
        self.asked, self._active, self._old = (
            False,
            active and threading.current_thread() is threading.main_thread(),
            {},
        )

    def __enter__(self) -> _Stop:
        for name in (signal.SIGINT, signal.SIGTERM) if self._active else ():
            self._old[name] = signal.signal(name, self._handle)
        return self

    def _handle(self, number: int, frame: object) -> None:
        self.asked = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for name, handler in self._old.items():
            signal.signal(name, handler)


# ---- loop


def run(recipe: TrainingRecipe, config: LoopConfig, accelerator: Accelerator) -> Trained:
    """Train `recipe` until its budget is used up or it is interrupted; one training per folder at a time."""
    alone = locked(config.out, "training") if accelerator.is_main_process else contextlib.nullcontext()
    with alone, out_of_memory("training", "Take a smaller --batch-size, or smaller pictures with --size."):
        return _Run(recipe, config, accelerator).go()


class _Run:
    def __init__(self, recipe: TrainingRecipe, config: LoopConfig, accelerator: Accelerator) -> None:
        self.recipe, self.config, self.accelerator = recipe, config, accelerator
        self.ranks, self.rank, self.main = (
            accelerator.num_processes,
            accelerator.process_index,
            accelerator.is_main_process,
        )
        if config.batch_size % self.ranks:
            raise BadInput(
                f"batch_size is {config.batch_size}, expected a multiple of the {self.ranks} processes."
            )
        self.local = config.batch_size // self.ranks
        self.order = Order(recipe.count, config.seed)
        self.net = recipe.net.to(
            accelerator.device
        ).train()  # the bare module; `self.wrapped` is what computes the loss
        self.ema = Ema(self.net, config.ema)
        trained = [p for p in self.net.parameters() if p.requires_grad]
        fused = accelerator.device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.AdamW(
            trained, config.lr, (0.9, config.beta2), weight_decay=config.weight_decay, fused=fused
        )
        self.step, self.elapsed, self.validated = 0, 0.0, 0  # validated: the step of the last validation
        self.sums: dict[str, float] = {}  # since the last line of the log
        self.validation: dict[str, float] = {}
        self.drawn = time.monotonic()  # when the plot was last renewed
        config.out.mkdir(parents=True, exist_ok=True)
        self._resume()
        self.wrapped = accelerator.prepare(self.net)
        self.log = Log(config.out, self.step) if self.main else None

    def _resume(self) -> None:
        if not (self.config.resume and (self.config.out / CHECKPOINT).exists()):
            return
        meta = load_checkpoint(self.config.out, self.net, self.ema, self.optimizer)
        changed = self.config.differences(meta["config"])
        if changed:
            raise BadInput(
                f"{self.config.out} holds a run with other settings: {'; '.join(changed)}. Choose another "
                "OUT or start over."
            )
        self.step, self.elapsed, self.validated = meta["step"], meta["elapsed"], meta["validated"]
        self.sums, self.validation = meta["sums"], meta["validation"]

    def go(self) -> Trained:
        from tqdm import tqdm

        bar = tqdm(
            total=self.config.steps,
            initial=self.step,
            desc=self.config.out.name,
            disable=True if self.config.quiet or not self.main else None,
        )
        begun, saved = time.monotonic() - self.elapsed, time.monotonic()
        with bar, _Stop(active=self.ranks == 1) as stop:
            while (progress := self._progress()) < 1 and not stop.asked:
                self._step(progress)
                self.elapsed = time.monotonic() - begun
                bar.update()
                self._report(progress, bar)
                if time.monotonic() - saved > 60 * self.config.checkpoint_minutes:
                    self._save()
                    saved = time.monotonic()
        if self.step > self.validated and not stop.asked:
            self._validate()
        self.drawn = -math.inf  # the last plot is due
        self._save()
        self.accelerator.wait_for_everyone()
        return Trained(self.ema.net.cpu(), self.step, self.elapsed, self.validation, stop.asked)

    def _progress(self) -> float:
        """Used share of the budget; the first process's clock counts for all, else their learning rates would
        differ.
        """
        used = self.step / self.config.steps if self.config.steps else 0.0
        if self.config.minutes:
            used = max(used, self.elapsed / (60 * self.config.minutes))
            if self.ranks > 1:
                shared = torch.tensor(
                    [used], dtype=torch.float64 if self.accelerator.device.type == "cpu" else torch.float32
                )
                shared = shared.to(self.accelerator.device)
                torch.distributed.broadcast(shared, 0)
                used = float(shared.item())
        return used

    def _step(self, progress: float) -> None:
        device = self.accelerator.device
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr_at(self.step, progress)
        index = self.order(self.step * self.config.batch_size + self.rank * self.local, self.local)
        seed = derive(self.config.seed, self.step, self.rank)
        torch.manual_seed(seed)  # for layers that draw by themselves, such as dropout
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.bf16_on(device)):
            loss, numbers = self.recipe.loss(self.wrapped, index, torch.Generator().manual_seed(seed))
        if not torch.isfinite(loss):
            raise NotFinite(
                f"The loss became {loss.item()} at step {self.step}. Resume with a smaller lr, or with "
                "precision fp32."
            )
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        if self.config.clip is not None:
            numbers["gradient"] = nn.utils.clip_grad_norm_(self.net.parameters(), self.config.clip)
        self.optimizer.step()
        self.ema.update(self.net, self.step)
        self.step += 1
        for key, value in {"loss": loss, **numbers}.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(value.detach())
        self.sums["samples"] = self.sums.get("samples", 0) + self.config.batch_size

    def _report(self, progress: float, bar: Any) -> None:
        if self.step % self.config.log_every == 0:
            means = self._means()
            shown = {"loss": means["loss"]} | {f"val_{k}": v for k, v in self.validation.items()}
            bar.set_postfix({k: f"{v:.4g}" for k, v in shown.items()})
            row = {
                "step": self.step,
                **means,
                "lr": self.config.lr_at(self.step - 1, progress),
                "seconds": round(self.elapsed, 2),
            }
            if self.log:
                self.log.write(row)
        if self.step % self.config.validate_every == 0:
            self._validate()

    def _means(self) -> dict[str, float]:
        """Means since the last line of the log, over all processes."""
        steps = self.sums.pop("samples") / self.config.batch_size
        values = torch.tensor(
            [v / steps for v in self.sums.values()], dtype=torch.float32, device=self.accelerator.device
        )
        means = self.accelerator.reduce(values, "mean").tolist()
        keys, self.sums = list(self.sums), {}
        return dict(zip(keys, means, strict=True))

    def _validate(self) -> None:
        if self.main and self.log:
            self.ema.net.eval()
            with torch.no_grad():
                self.validation = self.recipe.validate(self.ema.net)
            self.log.write(
                {"step": self.step, "validation": self.validation, "seconds": round(self.elapsed, 2)}
            )
        self.validated = self.step
        self.accelerator.wait_for_everyone()

    def _save(self) -> None:
        """The first process writes; weights and moments are the same in all."""
        if self.main:
            meta = {
                "step": self.step,
                "elapsed": self.elapsed,
                "sums": self.sums,
                "config": self.config.identity(),
            }
            meta |= {"validation": self.validation, "validated": self.validated}
            save_checkpoint(self.config.out, self.net, self.ema, self.optimizer, meta)
            if time.monotonic() - self.drawn > _PLOT_SECONDS:
                plot_log(self.config.out)
                self.drawn = time.monotonic()
