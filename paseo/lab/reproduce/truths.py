"""The images of an experiment that is no benchmark: those beside a model, or a part of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from paseo.errors import BadInput
from paseo.lab.bench.pictures import Part, Truth, load_pictures
from paseo.models import load_model


def load_truths(model: str, data: str, part: str, images: int, first: int = 0) -> list[Truth]:
    """`images` pictures at the model's size; "samples" are those beside it, of which there may be fewer."""
    loaded = load_model(model)
    if data == "samples":
        folder = loaded.folder / "samples" if loaded.folder is not None else Path("samples")
        if not folder.is_dir():
            raise BadInput(
                f"The model {model} brings no sample images: give a folder with --set data=FOLDER."
            )
        return load_pictures(folder, "all", first, None, loaded.size)[:images]
    chosen = next((p for p in get_args(Part) if p == part), None)
    if chosen is None:
        raise BadInput(f"part={part!r} is none of {', '.join(get_args(Part))}.")
    return load_pictures(data, chosen, first, images, loaded.size)
