"""Several degradations, one after the other:  A = A_n ∘ … ∘ A_1.

    Compose(GaussianBlur(1.0), Downsample(4), JPEG(30))     # blur first, JPEG last

The adjoint is A_1ᵀ ∘ … ∘ A_nᵀ and exists where all parts are linear. Sizes in between are worked out from the
image's.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from paseo.base import Degradation, LinearDegradation
from paseo.degrade.common import Size, check_size, params_of
from paseo.degrade.grain import Grain
from paseo.errors import BadInput, Unsupported


class Compose:
    """A(x): parts applied from the first to the last, on images (B,C,H,W) in [-1,1]."""

    def __init__(self, *parts: Degradation, name: str | None = None) -> None:
        if not parts:
            raise BadInput("Compose needs at least one degradation.")
        for part in parts:
            if not isinstance(part, Degradation):
                raise BadInput(
                    f"Compose takes degradations, got {part!r}. Wrap functions with paseo.degrade.Custom "
                    "first."
                )
        self.parts = parts
        self.name = name or "+".join(part.name for part in parts)

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.parts))})"

    @property
    def linear(self) -> bool:
        return all(part.linear for part in self.parts)

    @property
    def params(self) -> dict[str, object]:
        return {"parts": [{"name": part.name, **params_of(part)} for part in self.parts]}

    def output_size(self, height: int, width: int) -> Size:
        return self._sizes((height, width))[-1]

    def __call__(self, x: Tensor) -> Tensor:
        """The measurement without noise."""
        for part in self.parts:
            x = part(x)
        return x

    def draw(self, x: Tensor, normal: Callable[[Tensor], Tensor]) -> Tensor:
        """The measurement with the noise that lies inside the chain; `normal(x)` is standard normal of x's
        shape.
        """
        for part in self.parts:
            x = part.draw(x, normal(x)) if isinstance(part, Grain) else part(x)
        return x

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Each part's lift, from the last to the first."""
        for part, before in self._backwards(y, size):
            y = part.lift(y, before)
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """A_1ᵀ … A_nᵀ y; raises Unsupported if a part is not linear."""
        if not self.linear:
            broken = ", ".join(part.name for part in self.parts if not part.linear)
            raise Unsupported(
                f"{self.name} has no adjoint: {broken} is not linear. Use a method that needs none."
            )
        for part, before in self._backwards(y, size):
            y = transposed(part).adjoint(y, before)
        return y

    def _sizes(self, size: Size) -> list[Size]:
        """The image's size, then the size after each part."""
        sizes = [size]
        for part in self.parts:
            sizes.append(part.output_size(*sizes[-1]))
        return sizes

    def _backwards(self, y: Tensor, size: Size | None) -> list[tuple[Degradation, Size | None]]:
        """Parts from the last to the first, each with the size of what it was applied to."""
        if size is None:
            return [(part, None) for part in reversed(self.parts)]
        sizes = self._sizes(size)
        check_size(size, y, sizes[-1], self.name)
        return list(zip(reversed(self.parts), reversed(sizes[:-1]), strict=True))


def transposed(part: Degradation) -> LinearDegradation:
    """The part as one with an adjoint, which a linear one has."""
    if not isinstance(part, LinearDegradation):
        raise Unsupported(f"{part.name} is linear and has no adjoint. Use a method that needs none.")
    return part
