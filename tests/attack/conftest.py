"""The tiny model and the toy training of the other folders are attacked here too."""

from __future__ import annotations

import sys
from pathlib import Path

for _folder in ("lab", "train"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))
