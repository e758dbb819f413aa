"""Does `auto` find the quality that a JPEG's encoder was asked for? Files of real encoders, and the hits.

    apt-get install imagemagick libjpeg-turbo-progs
    npm install --prefix out/encoders @jsquash/jpeg sharp
    python benchmarks/encoders.py --data photos-256/test.tar --out out/encoders

100 photographs, each written by one encoder at one quality from 5 to 95: Pillow, ImageMagick, `cjpeg`,
mozjpeg (compiled for node as @jsquash/jpeg) with its table presets, and mozjpeg inside sharp; subsampling,
progressive and chroma's own quality are drawn at random. A tool that is not there is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from paseo.degrade.jpeg_file import read_jpeg
from paseo.files import write_json, write_text
from paseo.lab.bench.pictures import load_pictures

SHARES = {"Pillow": 20, "ImageMagick": 20, "cjpeg": 15, "mozjpeg": 30, "sharp": 15}
NEAR = 2  # a hit is that close
NODE = """
import fs from 'fs'; import sharp from 'sharp'; import encode, {init} from '@jsquash/jpeg/encode.js';
const [wasm, jobs] = process.argv.slice(2);
await init(await WebAssembly.compile(fs.readFileSync(wasm)));
for (const {encoder, source, target, options} of JSON.parse(fs.readFileSync(jobs))) {
  if (encoder === 'sharp') { await sharp(source).jpeg(options).toFile(target); continue; }
  const {data, info} = await sharp(source).ensureAlpha().raw().toBuffer({resolveWithObject: true});
  const pixels = {data: new Uint8ClampedArray(data), width: info.width, height: info.height};
  fs.writeFileSync(target, Buffer.from(await encode(pixels, options)));
}
"""


@dataclass(frozen=True)
class File:
    """One photograph and what its encoder is asked for."""

    encoder: str
    quality: int
    source: Path  # a PNG
    target: Path

    def options(self, rng: random.Random) -> dict[str, object]:
        """Of the two that run in node."""
        if self.encoder == "sharp":
            colours = rng.choice(["4:2:0", "4:4:4"])
            return {"quality": self.quality, "mozjpeg": True, "chromaSubsampling": colours}
        found: dict[str, object] = {"quality": self.quality, "baseline": rng.random() < 0.4}
        found["quant_table"] = 3 if rng.random() < 0.5 else rng.choice([0, 1, 2, 4, 5, 6, 7, 8])
        found |= {"auto_subsample": False, "chroma_subsample": rng.choice([1, 2])}
        if rng.random() < 0.2:
            found |= {"separate_chroma_quality": True, "chroma_quality": max(1, self.quality - 20)}
        return found

    def write(self, rng: random.Random) -> None:
        """By one of the three that need no node."""
        q, source, target = str(self.quality), str(self.source), str(self.target)
        if self.encoder == "Pillow":
            colours, spread = rng.choice([0, 1, 2]), rng.random() < 0.5
            Image.open(source).save(target, quality=self.quality, subsampling=colours, progressive=spread)
        elif self.encoder == "ImageMagick":
            more = rng.choice([[], ["-interlace", "JPEG"], ["-colorspace", "Gray"]])
            colours = rng.choice(["4:2:0", "4:2:2", "4:4:4", "4:1:1"])
            run("convert", source, "-sampling-factor", colours, *more, "-quality", q, target)
        else:
            plain = self.source.with_suffix(".ppm")
            Image.open(source).save(plain)
            q = q if rng.random() < 0.6 else f"{q},{max(1, self.quality - 25)}"
            more = rng.choice([[], ["-progressive"], ["-baseline"]])
            colours = rng.choice(["1x1", "2x1", "2x2"])
            run("cjpeg", "-quality", q, "-sample", colours, *more, "-outfile", target, str(plain))


def run(*words: str) -> None:
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def plan(data: str, out: Path, rng: random.Random) -> list[File]:
    """The photographs as PNG, shared out between the encoders."""
    encoders = [name for name, count in SHARES.items() for _ in range(count)]
    qualities = [round(5 + 90 * i / (len(encoders) - 1)) for i in range(len(encoders))]
    rng.shuffle(qualities)
    found = []
    for i, picture in enumerate(load_pictures(data, count=len(encoders), size=192)):
        source = out / "sources" / f"{i:03d}.png"
        Image.fromarray(picture.pixels).save(source)
        target = out / "files" / f"{i:03d}-{encoders[i]}-{qualities[i]}.jpg"
        found.append(File(encoders[i], qualities[i], source, target))
    return found


def write_all(files: Sequence[File], out: Path, rng: random.Random) -> None:
    """Each by its encoder; those whose tool is missing are not written."""
    by_node = [file for file in files if file.encoder in ("mozjpeg", "sharp")]
    for file in files:
        tool = {"ImageMagick": "convert", "cjpeg": "cjpeg"}.get(file.encoder)
        if file not in by_node and (tool is None or shutil.which(tool)):
            file.write(rng)
    wasm = out / "node_modules" / "@jsquash" / "jpeg" / "codec" / "enc" / "mozjpeg_enc.wasm"
    if wasm.is_file() and shutil.which("node"):
        script = write_text(out / "encode.mjs", NODE)
        where = {file: {"source": str(file.source), "target": str(file.target)} for file in by_node}
        jobs = [{"encoder": f.encoder, "options": f.options(rng), **where[f]} for f in by_node]
        run("node", str(script), str(wasm), str(write_json(out / "jobs.json", jobs)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder or tar of at least 100 photographs")
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    rng, out = random.Random(0), o.out.resolve()
    for name in ("sources", "files"):
        (out / name).mkdir(parents=True, exist_ok=True)
    files = plan(o.data, out, rng)
    write_all(files, out, rng)
    hits, exact, written = Counter[str](), Counter[str](), Counter[str]()
    for file in files:
        found = read_jpeg(Image.open(file.target)) if file.target.is_file() else None
        if found is None:
            continue
        written[file.encoder] += 1
        hits[file.encoder] += abs(found.typed - file.quality) <= NEAR
        exact[file.encoder] += found.typed == file.quality
        if abs(found.typed - file.quality) > NEAR:
            print(f"missed: {file.target.name}: {found}")
    for name in SHARES:
        print(f"{name}: {hits[name]} of {written[name]} within {NEAR}, {exact[name]} exactly")
    print(f"all: {hits.total()} of {written.total()} within {NEAR}, {exact.total()} exactly")
    print(json.dumps({"left out": [name for name in SHARES if not written[name]]}))


if __name__ == "__main__":
    main()
