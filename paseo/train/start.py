"""What every training begins and ends with: processes, cache and pictures; and the export, by one process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from paseo.base import Codec
from paseo.models.shipped import START as SHIPPED
from paseo.models.shipped import starting_point
from paseo.operators.store import load_operator
from paseo.train.config import LoopConfig
from paseo.train.latents import codec_digest, latent_space_of
from paseo.train.loop import Trained, TrainingRecipe, run, session
from paseo.train.pictures import Pictures, load_pictures

if TYPE_CHECKING:
    from accelerate import Accelerator


class OnPictures(Protocol):
    """Options that say how pictures are read."""

    @property
    def size(self) -> int: ...
    @property
    def crops(self) -> tuple[int, ...]: ...
    @property
    def split(self) -> str: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Start:
    """What there is before the first step."""

    accelerator: Accelerator
    cache: Path  # of decoded images and latents

    def pictures(self, data: str, options: OnPictures, mirror: bool = True) -> Pictures:
        """Decoded once, by the first process."""
        with self.accelerator.main_process_first():
            return load_pictures(
                data,
                size=options.size,
                crops=options.crops,
                rule=options.split,
                cache=self.cache,
                seed=options.seed,
                mirror=mirror,
            )

    def train(
        self, recipe: TrainingRecipe, config: LoopConfig, export: Callable[[Trained], object]
    ) -> Trained:
        """Run; `export` is called by the first process if the end was reached."""
        outcome = run(recipe, config, self.accelerator)
        if self.accelerator.is_main_process and not outcome.interrupted:
            export(outcome)
        return outcome


def starting_weights(start: Path, codec: Codec, task: str) -> Mapping[str, Tensor]:
    """Of the operator in a folder, which must be of this codec; or, for "shipped", of the package's operator
    for the codec's latent space, which was trained through another one.
    """
    if str(start) != SHIPPED:
        return load_operator(start, codec_hash=codec_digest(codec)).state_dict()
    return load_operator(starting_point(latent_space_of(codec, ""), task)).state_dict()


@contextmanager
def started(config: LoopConfig, cache: Path | None) -> Generator[Start]:
    """The processes of a training; `cache` is a folder below OUT unless given."""
    with session(config) as accelerator:
        yield Start(accelerator, cache or config.out / "cache")
