"""What is carried over from the measurement: all of it where hardly anything was done, nothing where it is
spoilt.
"""

from __future__ import annotations

import pytest
import torch

from paseo.degrade import Mask, task
from paseo.degrade.carry import carried_share, carry_over, found_share
from paseo.trust import vouch


def share(name: str) -> float:
    known = task(name)
    found = carried_share(known, known.sigma_y, (64, 64))
    assert isinstance(found, float)
    return found


def test_the_formula() -> None:
    z, y, r = (torch.rand(1, 3, 8, 8) for _ in range(3))
    assert torch.equal(carry_over(z, y, r, 0.0), z)
    assert torch.allclose(carry_over(z, y, r, 0.5), z + 0.5 * (y - r))


def test_a_codec_that_holds_everything_has_nothing_to_carry() -> None:
    z, y = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
    assert torch.equal(carry_over(z, y, y, 1.0), z)


@pytest.mark.parametrize(
    "names",
    [
        ["jpeg:10", "jpeg:20", "jpeg:30", "jpeg:40", "jpeg:50", "jpeg:75", "jpeg:95"],
        ["blur:3", "blur:1.5", "blur:1", "blur:0.7", "blur:0.3"],
        ["sr:4", "sr:2", "sr:1.5", "sr:1.2", "sr:1"],
        ["noise:0.1", "noise:0.03", "noise:0.01", "noise:0"],
    ],
)
def test_it_grows_as_the_degradation_becomes_milder(names: list[str]) -> None:
    shares = [share(name) for name in names]
    assert shares == sorted(shares)
    assert shares[0] < 0.02
    assert shares[-1] > 0.4


def test_the_ends_that_were_measured() -> None:
    assert share("jpeg:10") == 0
    assert 0.2 < share("jpeg:20") < 0.6
    assert share("jpeg:35") == share("jpeg:75") == 1
    assert share("blur:1,sr:2,jpeg:90") == 0
    vouch("torch.nn.functional:relu")
    assert share("torch.nn.functional:relu") == 0  # unknown: nothing is trusted


def test_what_was_found_decides_where_the_number_was_not_known() -> None:
    """One share per sample: that of a run which was told the same."""
    found = found_share(task("blur:4").degradation, {"sigma": [0.7, 3.0], "sigma_std": [0.1, 0.1]}, 0.01)
    assert isinstance(found, torch.Tensor)
    assert found.shape == (2, 1, 1, 1)
    assert found.flatten().tolist() == pytest.approx([share("blur:0.7"), share("blur:3")], abs=2e-3)
    enlarged = found_share(task("sr:1").degradation, {"factor": [1.0, 3.0]}, 0.01)
    assert isinstance(enlarged, torch.Tensor)
    assert enlarged.flatten().tolist() == [pytest.approx(share("sr:1")), 0]
    vouch("torch.nn.functional:relu")
    assert found_share(task("torch.nn.functional:relu").degradation, {"sigma": [1.0]}, 0.01) == 0


def test_seen_pixels_are_carried_away_from_the_hole() -> None:
    seen = torch.ones(64, 64)
    seen[:, :10] = 0
    found = carried_share(Mask(seen), 0.0, (64, 64))
    assert isinstance(found, torch.Tensor)
    assert found.shape == (1, 1, 64, 64)
    assert not found[..., :22].any()
    assert bool((found[..., 22:] == 1).all())
