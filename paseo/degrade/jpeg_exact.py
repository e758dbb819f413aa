"""The JPEG round trip in integers, bit for bit what libjpeg-turbo's encoder and decoder give (4:2:0,
baseline).

Encoding and decoding with entropy coding left out, because that part loses nothing. All on int32 tensors, so
it runs in batches on any device and gives the same bytes everywhere, whatever library the local Pillow was
built with:

    RGB → YCbCr in 16-bit fixed point → chroma averaged 2×2 → 8×8 integer DCT → quantised → dequantised
        → integer inverse DCT → chroma up-sampled with the triangle filter → RGB

The transforms are those of Loeffler, Ligtenberg and Moschytz (1989) with 13-bit constants ("islow"). The
tests compare with files written and read by Pillow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.degrade.jpeg_tables import quantisation_tables

_CONST_BITS, _PASS1_BITS = 13, 2


def _fix(value: float, bits: int = _CONST_BITS) -> int:
    return int(value * (1 << bits) + 0.5)


def round_trip(rgb: Tensor, quality: int) -> Tensor:
    """(B,3,H,W) int32 in 0 … 255 → the same after JPEG at this quality."""
    luma, chroma = (t.to(rgb.device) for t in quantisation_tables(quality))
    y, cb, cr = _to_ycc(rgb)
    y, cb, cr = _round_trip([y, _downsample(cb), _downsample(cr)], [luma, chroma, chroma])
    return _to_rgb(y, *(_upsample(c, *rgb.shape[-2:]) for c in (cb, cr)))


def _to_ycc(rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = rgb.unbind(1)
    half, centre = 1 << 15, 128 << 16
    y = (_fix(0.29900, 16) * r + _fix(0.58700, 16) * g + _fix(0.11400, 16) * b + half) >> 16
    cb = (-_fix(0.16874, 16) * r - _fix(0.33126, 16) * g + half * b + centre + half - 1) >> 16
    cr = (half * r - _fix(0.41869, 16) * g - _fix(0.08131, 16) * b + centre + half - 1) >> 16
    return y, cb, cr


def _to_rgb(y: Tensor, cb: Tensor, cr: Tensor) -> Tensor:
    u, v, half = cb - 128, cr - 128, 1 << 15
    r = y + ((_fix(1.40200, 16) * v + half) >> 16)
    g = y + ((-_fix(0.34414, 16) * u - _fix(0.71414, 16) * v + half) >> 16)
    b = y + ((_fix(1.77200, 16) * u + half) >> 16)
    return torch.stack([r, g, b], dim=1).clamp(0, 255)


def _extend(x: Tensor, height: int, width: int) -> Tensor:
    """Repeat the last row and column up to the given size."""
    rows, columns = (
        torch.arange(n, device=x.device).clamp_max(m - 1)
        for n, m in zip((height, width), x.shape[-2:], strict=True)
    )
    return x.index_select(-2, rows).index_select(-1, columns)


def _downsample(c: Tensor) -> Tensor:
    """Means of 2×2 pixels, rounded down and up in alternating columns."""
    h, w = c.shape[-2:]
    m, n = (
        (h + 1) // 2,
        -(-((w + 1) // 2) // 8) * 8,
    )  # columns are repeated to whole blocks before the mean, rows after it
    c = _extend(c, 2 * m, 2 * n)
    total = c[..., 0::2, 0::2] + c[..., 0::2, 1::2] + c[..., 1::2, 0::2] + c[..., 1::2, 1::2]
    return (total + 1 + torch.arange(n, device=c.device, dtype=c.dtype) % 2) >> 2


def _upsample(c: Tensor, height: int, width: int) -> Tensor:
    """Twice the size by the triangle filter (¾, ¼) per side; very narrow images are repeated instead, as
    libjpeg does.
    """
    c = c[..., : (width + 1) // 2]
    if c.shape[-1] <= 2:
        return c.repeat_interleave(2, -2).repeat_interleave(2, -1)[..., :height, :width]
    above, below = (
        torch.cat(parts, -2) for parts in ((c[..., :1, :], c[..., :-1, :]), (c[..., 1:, :], c[..., -1:, :]))
    )
    rows = torch.stack([3 * c + above, 3 * c + below], dim=-2).flatten(-3, -2)  # ×4
    left, right = (
        torch.cat(parts, -1) for parts in ((rows[..., :1], rows[..., :-1]), (rows[..., 1:], rows[..., -1:]))
    )
    both = torch.stack([(3 * rows + left + 8) >> 4, (3 * rows + right + 7) >> 4], dim=-1).flatten(-2, -1)
    return both[..., :height, :width]


def _round_trip(planes: list[Tensor], tables: list[Tensor]) -> list[Tensor]:
    """Each (B,H,W) plane of samples after DCT, quantisation by its table, and back. The blocks of all planes
    go through together: at the size of a thumbnail the number of operations is what takes the time.
    """
    blocks = [_blocks(plane) for plane in planes]
    counts = [b.shape[1] for b in blocks]
    table = torch.cat([t.expand(n, 8, 8) for t, n in zip(tables, counts, strict=True)])
    coefficients = _forward_dct(
        _forward_dct(torch.cat(blocks, dim=1), -1, first=True), -2, first=False
    )  # 8 times the orthonormal ones
    step = table * 8
    quantised = coefficients.sign() * ((coefficients.abs() + step // 2) // step)
    samples = _inverse_dct(_inverse_dct(quantised * table, -2, first=True), -1, first=False)
    parts = (samples + 128).clamp(0, 255).split(counts, dim=1)
    return [_plane(part, *plane.shape[-2:]) for part, plane in zip(parts, planes, strict=True)]


def _blocks(plane: Tensor) -> Tensor:
    """(B,H,W) → (B,N,8,8), centred, row by row; the last row and column are repeated to whole blocks."""
    m, n = (-(-side // 8) for side in plane.shape[-2:])
    whole = _extend(plane, 8 * m, 8 * n).unflatten(-1, (n, 8)).unflatten(-3, (m, 8))
    return whole.transpose(-3, -2).flatten(1, 2) - 128


def _plane(blocks: Tensor, height: int, width: int) -> Tensor:
    """The way back."""
    rows = blocks.unflatten(1, (-(-height // 8), -(-width // 8))).transpose(-3, -2)
    return rows.flatten(-2, -1).flatten(-3, -2)[..., :height, :width]


def _descale(x: Tensor, bits: int) -> Tensor:
    return (x + (1 << (bits - 1))) >> bits


def _odd_part(t: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rotations that forward and inverse transform share."""
    a, b, c, d = t
    z1, z2, z3, z4 = a + d, b + c, a + c, b + d
    z5 = (z3 + z4) * _fix(1.175875602)
    z1, z2 = z1 * -_fix(0.899976223), z2 * -_fix(2.562915447)
    z3, z4 = z3 * -_fix(1.961570560) + z5, z4 * -_fix(0.390180644) + z5
    return (
        a * _fix(0.298631336) + z1 + z3,
        b * _fix(2.053119869) + z2 + z4,
        c * _fix(3.072711026) + z2 + z3,
        d * _fix(1.501321110) + z1 + z4,
    )


def _forward_dct(x: Tensor, dim: int, *, first: bool) -> Tensor:
    d = x.unbind(dim)
    s, t = [d[i] + d[7 - i] for i in range(4)], [d[i] - d[7 - i] for i in range(4)]
    t10, t13, t11, t12 = s[0] + s[3], s[0] - s[3], s[1] + s[2], s[1] - s[2]
    z = (t12 + t13) * _fix(0.541196100)
    even = [z + t13 * _fix(0.765366865), z - t12 * _fix(1.847759065)]
    o7, o5, o3, o1 = _odd_part((t[3], t[2], t[1], t[0]))
    bits = _CONST_BITS - _PASS1_BITS if first else _CONST_BITS + _PASS1_BITS
    o0, o4 = ((v << _PASS1_BITS) if first else _descale(v, _PASS1_BITS) for v in (t10 + t11, t10 - t11))
    o1, o2, o3, o5, o6, o7 = (_descale(v, bits) for v in (o1, even[0], o3, o5, even[1], o7))
    return torch.stack([o0, o1, o2, o3, o4, o5, o6, o7], dim=dim)


def _inverse_dct(x: Tensor, dim: int, *, first: bool) -> Tensor:
    c = x.unbind(dim)
    z = (c[2] + c[6]) * _fix(0.541196100)
    t2, t3 = z - c[6] * _fix(1.847759065), z + c[2] * _fix(0.765366865)
    t0, t1 = (c[0] + c[4]) << _CONST_BITS, (c[0] - c[4]) << _CONST_BITS
    even = [t0 + t3, t1 + t2, t1 - t2, t0 - t3]
    odd = _odd_part((c[7], c[5], c[3], c[1]))[::-1]
    bits = _CONST_BITS - _PASS1_BITS if first else _CONST_BITS + _PASS1_BITS + 3
    out = [e + o for e, o in zip(even, odd, strict=True)] + [
        e - o for e, o in zip(even[::-1], odd[::-1], strict=True)
    ]
    return torch.stack([_descale(v, bits) for v in out], dim=dim)
