"""The one door for stored weights: every safetensors file is checked here before it becomes a network.

    header     its length against the file's, JSON of a bounded size, known dtypes, offsets that tile the
    data exactly
    SHA-256    where config.json or SHA256SUMS names one
    names      and shapes, against the network that is to hold them, before any memory is taken
    values     finite

A folder that fails is never half-loaded: the error names the file and what to do. The same header gives the
sizes that
memory estimates need.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paseo.errors import BadInput, MissingWeights, PaseoError
from paseo.files import bounded_json, read_json

if TYPE_CHECKING:
    from torch import Tensor, nn

Net = TypeVar("Net", bound="nn.Module")

MAX_HEADER = 50_000_000  # bytes; the largest public models need about one million
SIZES = {  # bytes per number
    **{"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2},
    **{"F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1},
}
MAX_COUNT, MAX_LAYERS = 2**20, 256  # in the settings of a network
AGAIN = "Copy, download or train it again."


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file, by its header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@contextmanager
def damaged(what: str | Path) -> Generator[None]:
    """Whatever a library raises while it builds something from the files of `what` is the fault of those
    files.
    """
    try:
        yield
    except (PaseoError, KeyboardInterrupt):
        raise
    except Exception as error:
        told = " ".join(str(error).split())[:300] or "no reason given"
        raise BadInput(
            f"{what} is damaged or was not made for this version ({type(error).__name__}: {told}). {AGAIN}"
        ) from error


def header(path: Path) -> dict[str, TensorEntry]:
    """Name → tensor, after every check that needs no data; MissingWeights says what is wrong."""
    if fault := header_fault(path):
        raise MissingWeights(f"{path} {fault} {AGAIN}")
    return _entries(path)


def header_fault(path: Path) -> str | None:
    """What is wrong with a safetensors file, in half a sentence; None where nothing is."""
    try:
        size = path.stat().st_size
        entries = _entries(path)
        expected = _data_start(path) + max((e.end for e in entries.values()), default=0)
    except FileNotFoundError:
        return "is missing."
    except _Fault as fault:
        return str(fault)
    except OSError as error:
        return f"cannot be read: {error.strerror}."
    if size == expected:
        return None
    return f"is {'cut short' if size < expected else 'too long'}: {size:,} of {expected:,} bytes."


class _Fault(Exception):
    pass


def _data_start(path: Path) -> int:
    with path.open("rb") as file:
        first, size = file.read(20), path.stat().st_size
    if first.startswith(b"version https://git"):
        raise _Fault("is a Git LFS pointer, not the file itself: run `git lfs pull`.")
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= min(MAX_HEADER, size - 8):
        raise _Fault("is damaged: it is cut short, or is no safetensors file.")
    return 8 + length


def _entries(path: Path) -> dict[str, TensorEntry]:
    start = _data_start(path)
    with path.open("rb") as file:
        raw = file.read(start)[8:]
    try:
        table = bounded_json(raw, MAX_HEADER)
        found = {name: _entry(value) for name, value in table.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Fault(f"is damaged: its table of contents cannot be read ({type(error).__name__}).") from None
    position = 0
    for name, entry in sorted(found.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != position or entry.end - entry.start != math.prod(entry.shape) * SIZES[entry.dtype]:
            raise _Fault(f"is damaged: the place of {name!r} does not fit its shape.")
        position = entry.end
    return found


def _entry(value: Mapping[str, Any]) -> TensorEntry:
    (start, end), shape = value["data_offsets"], tuple(value["shape"])
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or value["dtype"] not in SIZES:
        raise ValueError("not an entry")
    return TensorEntry(value["dtype"], shape, start, end)


def read_weights(path: Path, sums: Collection[str] = ()) -> tuple[dict[str, Tensor], str]:
    """All tensors as stored, and the file's SHA-256, which must be one of `sums` where there are any; all
    values are
    finite.
    """
    from safetensors.torch import load

    header(path)
    with damaged(path):
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if sums and digest not in sums:
            raise MissingWeights(
                f"{path} is not the file that its folder describes: its SHA-256, {digest[:12]}…, is "
                f"another one. {AGAIN} "
                "If you changed it on purpose, write the new sum into the folder."
            )
        state = load(data)
    check_finite(state, path)
    return state, digest


def check_finite(state: Mapping[str, Tensor], where: str | Path) -> None:
    """A sum of finite numbers is finite; where it is not, look closely."""
    import torch

    for name, value in state.items():
        if (
            value.is_floating_point()
            and not torch.isfinite(value.sum(dtype=torch.float32))
            and not torch.isfinite(value).all()
        ):
            raise BadInput(f"{where}: {name} holds NaN or infinite values. {AGAIN}")


def check_shapes(
    found: Mapping[str, tuple[int, ...]],
    want: Mapping[str, tuple[int, ...]],
    where: str | Path,
    described: str = "config.json",
) -> None:
    """The tensors of a file are those of the network, no more, no fewer, of the same shapes."""
    if missing := sorted(want.keys() - found.keys()):
        raise MissingWeights(
            f"{where}: {len(missing)} of {len(want)} tensors are missing, the first is {missing[0]}. {AGAIN}"
        )
    if extra := sorted(found.keys() - want.keys()):
        raise BadInput(
            f"{where}: {len(extra)} tensors do not belong to the network, the first is {extra[0]}. {AGAIN}"
        )
    for name, shape in want.items():
        if found[name] != shape:
            raise BadInput(
                f"{where}: {name} has the shape {found[name]}, but {described} asks for {shape}. {AGAIN}"
            )


def build(
    make: Callable[[], Net],
    path: Path,
    sums: Collection[str] = (),
    described: str = "config.json",
    any_size: bool = True,
) -> tuple[Net, str]:
    """The network that `make` describes with the weights of a file in float32, and the file's SHA-256.

    The network is first made without memory (`torch.device("meta")`), so that a config that asks for a
    terabyte is refused, not tried; and never with random numbers, which would be overwritten.
    `any_size=False` is for networks whose size is not the file's to say.
    """
    import torch

    stored = {name: entry.shape for name, entry in header(path).items()}
    with damaged(path.parent), uninitialised():
        with torch.device("meta" if any_size else "cpu"):
            empty = make()
        check_shapes(
            stored, {name: tuple(v.shape) for name, v in empty.state_dict().items()}, path, described
        )
        net = make() if any_size else empty
    state, digest = read_weights(path, sums)
    with damaged(path.parent):
        net.load_state_dict({name: value.to(torch.float32) for name, value in state.items()})
    return net, digest


@contextmanager
def uninitialised() -> Generator[None]:
    """While the block lasts, new layers keep whatever their memory holds: it is about to be overwritten."""
    from torch.nn import init

    before = {
        name: value for name, value in vars(init).items() if name.endswith("_") and not name.startswith("_")
    }
    try:
        for name in before:
            setattr(init, name, _as_it_is)
        yield
    finally:
        for name, function in before.items():
            setattr(init, name, function)


def _as_it_is(tensor: Tensor, *_: object, **__: object) -> Tensor:
    return tensor


def check_counts(config: Mapping[str, Any], where: str | Path) -> None:
    """No count in a network's settings is larger than any network has: a loop over 10⁹ layers is not
    begun.
    """
    waiting: list[tuple[str, object]] = list(config.items())
    while waiting:
        name, here = waiting.pop()
        if isinstance(here, Mapping):
            waiting += here.items()
        elif isinstance(here, list | tuple):
            waiting += [(name, inner) for inner in here]
        elif isinstance(here, int | float) and not isinstance(here, bool):
            most = MAX_LAYERS if "layers" in name or "blocks" in name else MAX_COUNT
            if not abs(here) <= most:
                raise BadInput(
                    f"{where}: {name}={here} is more than any network of this kind has ({most}). {AGAIN}"
                )


def pretrained(cls: Any, folder: Path, files: Sequence[Path], **options: Any) -> Any:
    """A network of diffusers or transformers from its folder: `files` are its weights, which must be all
    there and finite.
    """
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise MissingWeights(f"{folder / 'config.json'} does not describe a network. {AGAIN}")
    check_counts(config, folder / "config.json")
    for file in files:
        header(file)
    try:
        net, told = cls.from_pretrained(
            str(folder), output_loading_info=True, use_safetensors=True, **options
        )
    except (PaseoError, MemoryError, torch_out_of_memory()):
        raise
    except Exception as error:  # these libraries raise whatever a damaged file leads them to
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise MissingWeights(
            f"{folder} could not be loaded as {cls.__name__}: {reason}. Try `paseo doctor`."
        ) from error
    if lost := sorted(map(str, (*told.get("missing_keys", ()), *told.get("mismatched_keys", ())))):
        raise MissingWeights(
            f"{folder}: {len(lost)} tensors are missing or of another shape, the first is {lost[0]}. {AGAIN}"
        )
    check_finite(net.state_dict(), folder)
    return net


def torch_out_of_memory() -> type[BaseException]:
    """What torch raises when an accelerator is full."""
    import torch

    return torch.OutOfMemoryError


def part_of(folder: Path, name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of a part ("codec" or "prior") in a model's config.json, and the SHA-256 of its weights
    if it is known.
    """
    config = read_json(folder / "config.json")
    settings = config.get(name) if isinstance(config, dict) else None
    if not isinstance(settings, dict):
        raise BadInput(f"{folder / 'config.json'} does not describe a {name}. {AGAIN}")
    check_counts(settings, folder / "config.json")
    sums = config.get("sha256", {})
    if not isinstance(sums, dict):
        raise BadInput(f"{folder / 'config.json'}: sha256 is not a table of file names and sums. {AGAIN}")
    named = sums.get(f"{name}.safetensors")
    return settings, () if named is None else (str(named),)


def parameter_bytes(path: Path, element: int | None = None) -> int:
    """Bytes that a file takes in memory, with `element` bytes per number or as stored."""
    return sum(math.prod(e.shape) * (element or SIZES[e.dtype]) for e in header(path).values())


def metadata(path: Path) -> dict[str, str]:
    """What the writer noted beside the tensors."""
    header(path)
    with path.open("rb") as file:
        raw = file.read(_data_start(path))[8:]
    found = json.loads(raw).get("__metadata__") or {}
    return found if isinstance(found, dict) else {}
