"""What a restoration gives back: draws, what they share, where they differ, and how they were made.

`result.save("out.png")` writes out_s0.png … out_s7.png, out_mean.png and out_std.png; one draw gives out.png.
In a notebook a result shows its draws side by side.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import write_json
from paseo.formats import save_picture
from paseo.images import Origin, to_pil
from paseo.record import file_sha256, short
from paseo.sheet import TOP, deviation_map
from paseo.windows import Windows

STD_NOTE = f"standard deviation of the draws, black 0 to yellow {TOP} and above"


@dataclass(frozen=True, eq=False, repr=False)
class Restored:
    """Draws from the posterior, one per seed, and what they cost."""

    images: Tensor  # (B, 3, H, W) in [0,1]
    latents: Tensor  # (B, c, h, w), of the padded image
    seeds: tuple[int, ...]  # image i is the draw of seeds[i]
    nfe: int  # denoiser calls, each serving the whole batch
    seconds: float  # from encoding to decoding
    # parameters of the degradation that were found (`PASEO(blind=…)`), and NAME_std how far each may be off,
    # one number per draw
    found: dict[str, list[float]] = field(default_factory=dict)
    windows: Windows | None = None  # that the canvas was walked in; None: it was taken whole
    record: Mapping[str, Any] | None = None  # how it was made, where `paseo.restore` chose what was left open
    origin: Origin = field(
        default_factory=Origin
    )  # what the file had besides colours: opacity, profile, EXIF

    @property
    def mean(self) -> Tensor:
        """(3, H, W): the average of the draws, the sharpest honest guess of each pixel."""
        return self.images.mean(0)

    @property
    def std(self) -> Tensor:
        """(1, H, W): how far the draws disagree, the root of the variance averaged over the colours."""
        if len(self.images) < 2:
            raise BadInput("A standard deviation needs at least two draws; give more seeds.")
        return self.images.var(0).mean(0, keepdim=True).sqrt()

    @property
    def pil(self) -> Image.Image:
        """The first draw as an 8-bit picture; `pils` has all of them."""
        return self.pils[0]

    @property
    def pils(self) -> list[Image.Image]:
        return [to_pil(image, self.origin.alpha) for image in self.images]

    def save(self, path: str | Path, *, record: bool = False) -> list[Path]:
        """Write the draws in the format of the name's ending (.png, .jpg, .webp, .tif), as the command line
        does: one as `path`, several as path_s0 … with their mean and deviation. `record` adds the JSON.
        """
        path = Path(path)
        written = [
            save_picture(
                path.with_name(f"{path.stem}{mark}{path.suffix or '.png'}"),
                image,
                origin=self.origin,
                record=self._note(seed),
            )
            for mark, seed, image in self._parts()
        ]
        if len(self.images) > 1:
            name = path.with_name(f"{path.stem}_std.png")
            written.append(save_picture(name, deviation_map(self.std), record=STD_NOTE))
        if record:
            if self.record is None:
                raise BadInput(
                    "There is no record: everything was passed by hand. Name the task and the model."
                )
            files = [{"file": p.name, "sha256": file_sha256(p)} for p in written]
            write_json(path.with_suffix(".json"), {**self.record, "outputs": files})
        return written

    def _parts(self) -> list[tuple[str, int | None, Tensor]]:
        """(what is added to the name, seed, image) of every picture."""
        if len(self.images) == 1:
            return [("", self.seeds[0], self.images[0])]
        draws: list[tuple[str, int | None, Tensor]] = [
            (f"_s{k}", seed, image)
            for k, (seed, image) in enumerate(zip(self.seeds, self.images, strict=True))
        ]
        return [*draws, ("_mean", None, self.mean)]

    def _note(self, seed: int | None) -> str | None:
        return None if self.record is None else short(dict(self.record), seed)

    def __repr__(self) -> str:
        n, (height, width) = len(self.images), self.images.shape[-2:]
        task = f", {self.record['task']}" if self.record else ""
        return (
            f"<Restored {n} draw{'s' if n > 1 else ''} of {width}×{height}{task}, "
            f"{self.nfe} denoiser calls, {self.seconds:.1f} s>"
        )

    def _repr_png_(self) -> bytes:
        """The draws side by side, for notebooks."""
        row = self.pils[:8]
        sheet = Image.new("RGB", (sum(p.width for p in row), row[0].height))
        for k, picture in enumerate(row):
            sheet.paste(picture.convert("RGB"), (k * picture.width, 0))
        data = io.BytesIO()
        sheet.save(data, format="PNG")
        return data.getvalue()
