"""The tables that the paper printed, as Markdown beside the benchmarks that repeat them.

python benchmarks/expected.py        writes ffhq-rv51.md, ffhq-sd35.md and coco-sd35.md
"""

from __future__ import annotations

from pathlib import Path

from paseo.files import write_text
from paseo.lab.bench.tables import method_title, title_of
from paseo.lab.paper import TASKS, under

COLUMNS = {
    "nfe": "NFE",
    "psnr": "PSNR ↑",
    "lpips": "LPIPS ↓",
    "kid": "KID ×10³ ↓",
    "seconds": "s ↓",
    "gib": "GiB ↓",
}
DIGITS = {"psnr": ".2f", "lpips": ".3f", "kid": ".2f"}  # as printed
TABLES: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "ffhq-rv51": [("FFHQ, RV-v5.1, 1000 images of 512×512, one MI210", ("ffhq", "rv51"))],
    "ffhq-sd35": [("FFHQ, SD3.5-medium, 1000 images of 512×512, one MI210", ("ffhq", "sd35"))],
    "coco-sd35": [
        ("COCO-val2017, SD3.5-medium, 1000 images of 512×512, one MI210", ("coco", "full")),
        ("The flow methods at PASEO's number of calls", ("coco", "matched")),
    ],
}


def markdown(name: str) -> str:
    """One section per table, one block per task."""
    parts = ["Figures published in the paper, to compare a run with.\n"]
    for title, key in TABLES[name]:
        columns = [c for c in COLUMNS if any(c in row for row in under(*key, "sr4").values())]
        parts.append(f"## {title}\n")
        parts.append("| Task | Method | " + " | ".join(COLUMNS[c] for c in columns) + " |")
        parts.append("| --- | --- |" + " ---: |" * len(columns))
        for task in TASKS:
            for method, row in under(*key, task).items():
                cells = (f"{row[c]:{DIGITS.get(c, 'g')}}" if c in row else "–" for c in columns)
                parts.append(f"| {title_of(task)} | {method_title(method)} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    for name in TABLES:
        write_text(Path(__file__).with_name(f"{name}.md"), markdown(name))
