"""A diffusers model on disk: finding it, by folder or hub id, and saying what is wrong with it before
anything is loaded.

A safetensors file begins with its own table of contents, so a file that was cut short is recognised by its
length.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paseo.errors import BadInput, MissingWeights
from paseo.files import is_file, is_folder, read_json
from paseo.hub.names import KNOWN, hub_id
from paseo.weights import header_fault
from paseo.weights import parameter_bytes as file_bytes

INDEX = "model_index.json"
_NO_WEIGHTS = ("scheduler", "tokenizer", "tokenizer_2", "tokenizer_3", "feature_extractor")
_UNUSED = ("safety_checker", "feature_extractor", "image_encoder")  # never loaded here


def resolve(name: str | Path, *, revision: str | None = None, variant: str | None = None) -> Path:
    """The folder of a model: as given, or from the hub's cache, or downloaded into it."""
    try:
        path = Path(name).expanduser()
    except RuntimeError:
        raise MissingWeights(f"{name} names the home of nobody known here. Give the whole path.") from None
    if is_folder(path):
        return path
    if is_file(path):
        raise BadInput(
            f"{path} is a single file, a folder in the diffusers layout was expected. Convert it once with "
            'diffusers: StableDiffusionPipeline.from_single_file("FILE").save_pretrained("FOLDER").'
        )
    plain, at, pinned = str(name).partition("@")  # user/name@revision: a branch, a tag or, best, a commit
    if at and revision is not None and revision != pinned:
        raise BadInput(
            f"{name} names the revision {pinned!r}, and {revision!r} was asked for. Give one of them."
        )
    revision, place = pinned or revision, hub_id(plain)
    if place.count("/") != 1 or place.startswith(("/", ".", "~")):
        raise MissingWeights(
            f"There is no folder {name}. Give a folder, a hub id such as {hub_id('sd35')} (with @REVISION to "
            f"pin it), or one of {', '.join(KNOWN)}."
        )
    return _from_hub(place, revision, variant)


def _from_hub(place: str, revision: str | None, variant: str | None) -> Path:
    from diffusers import DiffusionPipeline

    unused = dict.fromkeys(_UNUSED)
    try:
        return Path(
            DiffusionPipeline.download(
                place,
                revision=revision,
                variant=variant,
                use_safetensors=True,
                trust_remote_code=False,
                **unused,
            )
        )
    except Exception as error:  # the hub raises a dozen types of its own and of its HTTP library
        raise MissingWeights(explain_hub(place, error)) from error


def explain_hub(hub_id: str, error: BaseException) -> str:
    """Why a hub id gave no model, and what to do about it."""
    kinds, status = _chain(error)
    if "GatedRepoError" in kinds or status == 403:
        return (
            f"{hub_id} is gated: accept its licence at https://huggingface.co/{hub_id}, log in with "
            "`hf auth login`, and try again."
        )
    if "RevisionNotFoundError" in kinds:
        return f"{hub_id} has no such revision. Leave it out, or look at https://huggingface.co/{hub_id}/tree/main."
    if "RepositoryNotFoundError" in kinds or status in (401, 404):
        return (
            f"The hub has no public model {hub_id}. Check the spelling; if it is private or gated, log in "
            "with `hf auth login`."
        )
    if kinds & {
        "LocalEntryNotFoundError",
        "OfflineModeIsEnabled",
        "ConnectionError",
        "ConnectError",
        "NetworkError",
        "ConnectTimeout",
    }:
        return (
            f"{hub_id} is not (completely) in this machine's cache, and the hub cannot be reached (offline "
            "mode is on, or there is "
            f"no network). Run `hf download {hub_id} --local-dir FOLDER` where there is a connection, copy "
            "the folder here, "
            "and give its path."
        )
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{hub_id} could not be had from the hub: {first}"


def _chain(error: BaseException) -> tuple[set[str], int | None]:
    """Class names of the error and all its causes; the HTTP status where one is known."""
    kinds: set[str] = set()
    status: int | None = None
    seen: BaseException | None = error
    while seen is not None:
        kinds |= {kind.__name__ for kind in type(seen).__mro__}
        status = status or getattr(getattr(seen, "response", None), "status_code", None)
        seen = seen.__cause__ or seen.__context__
    return kinds, status


def read_index(folder: Path) -> dict[str, Any]:
    """model_index.json, or the reason why this is no diffusers folder."""
    path = folder / INDEX
    if not path.is_file():
        found = sorted(p.name for p in folder.iterdir())[:5]
        parent = folder.parent / INDEX
        hint = f" Its parent is one: give {folder.parent}." if parent.is_file() else ""
        raise MissingWeights(
            f"{folder} is not a diffusers model: it has no {INDEX} (it holds: "
            f"{', '.join(found) or 'nothing'}).{hint}"
        )
    index = _read(path)
    if not isinstance(index, dict):
        raise MissingWeights(f"{path} does not hold a JSON object. Download the model again.")
    return index


def _read(path: Path) -> object:
    try:
        return read_json(path)
    except BadInput as error:
        raise MissingWeights(f"{path} cannot be read: {error} Download the model again.") from error


def components(index: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Component → (library, class), without those that are empty or never used here."""
    found = {k: v for k, v in index.items() if isinstance(v, list) and len(v) == 2 and v[0] and v[1]}
    if strange := [k for k in found if not k.isidentifier()]:  # it is also the name of a folder
        raise MissingWeights(
            f"{INDEX} names a component {strange[0]!r}, which is no name. Download the model again."
        )
    return {k: (str(v[0]), str(v[1])) for k, v in found.items() if k not in _UNUSED}


def faults(folder: Path, skip: tuple[str, ...] = ()) -> list[str]:
    """Everything that is missing or cut short, one sentence each; empty for a complete model."""
    return [
        fault
        for name in components(read_index(folder))
        if name not in skip
        for fault in _faults_of(folder, name)
    ]


def check_complete(folder: Path, skip: tuple[str, ...] = ()) -> None:
    """Raise if something that will be loaded is missing."""
    if found := faults(folder, skip):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise MissingWeights(
            f"{folder} is not complete: {found[0]}{more} Download it again; `paseo doctor` lists all faults."
        )


def _faults_of(folder: Path, name: str) -> Iterator[str]:
    part = folder / name
    if not part.is_dir():
        yield f"the folder {name} is missing."
        return
    if name in _NO_WEIGHTS:
        if not any(part.glob("*.json")) and not any(part.glob("*.model")):
            yield f"{name} is empty."
        return
    if not (part / "config.json").is_file():
        yield f"{name}/config.json is missing."
    try:
        files = weight_files(part)
    except MissingWeights as error:
        yield str(error)
        return
    for file in files:
        if fault := file_fault(file):
            yield f"{name}/{file.name} {fault}"


def variant_of(folder: Path, name: str) -> str | None:
    """None where plain weights exist, else the variant that does, such as "fp16"."""
    stems = [_stem(f.name) for f in _candidates(folder / name)]
    variants = {stem.split(".", 1)[1] if "." in stem else None for stem in stems}
    return None if not variants or None in variants else sorted(v for v in variants if v)[0]


def weight_files(part: Path) -> list[Path]:
    """The safetensors files of a component that will be read: one, or all shards of its index."""
    found = _candidates(part)
    if not found:
        pickles = [p.name for pattern in ("*.bin", "*.ckpt", "*.pt") for p in part.glob(pattern)]
        hint = f" ({pickles[0]} is a pickle, which is never opened here.)" if pickles else ""
        raise MissingWeights(f"{part.name} has no safetensors weights.{hint}")
    chosen = min(found, key=lambda p: (_stem(p.name).count("."), p.name))  # plain before variants
    if chosen.suffix != ".json":
        return [chosen]
    index = _read(chosen)
    places = index.get("weight_map") if isinstance(index, dict) else None
    shards = list(places.values()) if isinstance(places, dict) else []
    if not shards or any(
        not isinstance(s, str) or Path(s).name != s or not s.endswith(".safetensors") for s in shards
    ):
        raise MissingWeights(f"{part.name}/{chosen.name} does not list the files of the weights.")
    return [part / shard for shard in sorted(set(shards))]


def _candidates(part: Path) -> list[Path]:
    names = ("diffusion_pytorch_model", "model")
    singles = [p for p in part.glob("*.safetensors") if p.name.startswith(names) and "-of-" not in p.name]
    return sorted(singles + [p for p in part.glob("*.safetensors.index*.json") if p.name.startswith(names)])


def _stem(file: str) -> str:
    """ "model.fp16.safetensors" and "model.safetensors.index.fp16.json" → "model.fp16"."""
    return ".".join(word for word in file.split(".") if word not in ("safetensors", "index", "json"))


def file_fault(path: Path) -> str | None:
    """What is wrong with a safetensors file, without reading its data; None if nothing is."""
    return header_fault(path)


def parameter_bytes(part: Path, element: int | None = None) -> int:
    """Bytes a component takes in memory, with `element` bytes per number or as stored."""
    return sum(file_bytes(file, element) for file in weight_files(part))
