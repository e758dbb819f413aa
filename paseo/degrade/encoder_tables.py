"""The tables that encoders start from, at quality 50: the standard's, and mozjpeg's presets (`-quant-table`).

Every encoder here scales its tables by libjpeg's rule (`jpeg_tables.py`), so a file's luma table tells both
the preset and the quality that was asked for. As mozjpeg 4 writes them at quality 50, its chroma tables are
the luma's unless a second one is given.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from paseo.degrade.jpeg_tables import quantisation_tables, table_scale

STANDARD = "standard"
LARGEST = 255  # of a baseline file; others may have more, and are compared up to here

_PRESETS: dict[str, tuple[str, ...]] = {
    "flat": (" ".join(["16"] * 64),),
    # N. Robidoux's, mozjpeg's default
    "Robidoux": (
        """
     16  16  16  18  25  37  56  85
     16  17  20  27  34  40  53  75
     16  20  24  31  43  62  91 135
     18  27  31  40  53  74 106 156
     25  34  43  53  69  94 131 189
     37  40  62  74  94 124 169 238
     56  53  91 106 131 169 226 311
     85  75 135 156 189 238 311 418
    """,
    ),
    # tuned for MS-SSIM
    "MS-SSIM": (
        """
     12  17  20  21  30  34  56  63
     18  20  20  26  28  51  61  55
     19  20  21  26  33  58  69  55
     26  26  26  30  46  87  86  66
     31  33  36  40  46  96 100  73
     40  35  46  62  81 100 111  91
     46  66  76  86 102 121 120 101
     68  90  90  96 113 102 105 103
    """,
        """
      8  12  15  15  86  96  96  98
     13  13  15  26  90  96  99  98
     12  15  18  96  99  99  99  99
     17  16  90  96  99  99  99  99
     96  96  99  99  99  99  99  99
     99  99  99  99  99  99  99  99
     99  99  99  99  99  99  99  99
     99  99  99  99  99  99  99  99
    """,
    ),
    # tuned for PSNR-HVS-M
    "PSNR-HVS-M": (
        """
      9  10  12  14  27  32  51  62
     11  12  14  19  27  44  59  73
     12  14  18  25  42  59  79  78
     17  18  25  42  61  92  87  92
     23  28  42  75  79 112 112  99
     40  42  59  84  88 124 132 111
     42  64  78  95 105 126 125  99
     70  75 100 102 116 100 107  98
    """,
        """
      9  10  17  19  62  89  91  97
     12  13  18  29  84  91  88  98
     14  19  29  93  95  95  98  97
     20  26  84  88  95  95  98  94
     26  86  91  93  97  99  98  99
     99 100  98  99  99  99  99  99
     99  99  99  99  99  99  99  99
     97  97  99  99  99  99  97  99
    """,
    ),
    # Klein, Silverstein and Carney (1992)
    "Klein": (
        """
     10  12  14  19  26  38  57  86
     12  18  21  28  35  41  54  76
     14  21  25  32  44  63  92 136
     19  28  32  41  54  75 107 157
     26  35  44  54  70  95 132 190
     38  41  63  75  95 125 170 239
     57  54  92 107 132 170 227 312
     86  76 136 157 190 239 312 419
    """,
    ),
    # Watson, Taylor and Borthwick (1997)
    "Watson": (
        """
      7   8  10  14  23  44  95 241
      8   8  11  15  25  47 102 255
     10  11  13  19  31  58 127 255
     14  15  19  27  44  83 181 255
     23  25  31  44  72 136 255 255
     44  47  58  83 136 255 255 255
     95 102 127 181 255 255 255 255
    241 255 255 255 255 255 255 255
    """,
    ),
    # Ahumada, Watson and Peterson (1993)
    "Ahumada": (
        """
     15  11  11  12  15  19  25  32
     11  13  10  10  12  15  19  24
     11  10  14  14  16  18  22  27
     12  10  14  18  21  24  28  33
     15  12  16  21  26  31  36  42
     19  15  18  24  31  38  45  53
     25  19  22  28  36  45  55  65
     32  24  27  33  42  53  65  77
    """,
    ),
    # Peterson, Ahumada and Watson (1993)
    "Peterson": (
        """
     14  10  11  14  19  25  34  45
     10  11  11  12  15  20  26  33
     11  11  15  18  21  25  31  38
     14  12  18  24  28  33  39  47
     19  15  21  28  36  43  51  59
     25  20  25  33  43  54  64  74
     34  26  31  39  51  64  77  91
     45  33  38  47  59  74  91 108
    """,
    ),
}
PRESETS = (STANDARD, "Robidoux", *(name for name in _PRESETS if name != "Robidoux"))  # the likeliest first


@lru_cache(maxsize=16)
def scaled(preset: str) -> Tensor:
    """(100, 2, 64): luma and chroma of a preset at qualities 1 … 100."""
    bases = quantisation_tables(50) if preset == STANDARD else tuple(map(_table, _PRESETS[preset]))
    luma, chroma = bases[0].flatten(), bases[-1].flatten()
    with torch.inference_mode(False):
        both = torch.stack([luma, chroma])
        return torch.stack(
            [((both * table_scale(q) + 50) // 100).clamp(1, LARGEST) for q in range(1, 101)]
        ).double()


def _table(text: str) -> Tensor:
    return torch.tensor([int(number) for number in text.split()])
