"""COCO's captions as a benchmark takes them: file stem → first caption.

python benchmarks/captions.py annotations/captions_val2017.json coco-captions.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from paseo.files import write_json


def first_captions(annotations: Path) -> dict[str, str]:
    """The caption of lowest id for every image."""
    document = json.loads(annotations.read_text(encoding="utf-8"))
    stems = {image["id"]: Path(image["file_name"]).stem for image in document["images"]}
    found: dict[str, str] = {}
    for entry in sorted(document["annotations"], key=lambda a: a["id"]):
        found.setdefault(stems[entry["image_id"]], " ".join(entry["caption"].split()))
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_json(Path(sys.argv[2]), first_captions(Path(sys.argv[1])))
