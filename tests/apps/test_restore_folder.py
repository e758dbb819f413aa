"""Many pictures: passes that follow from the list, resumed runs with the same bytes, lists, tars, shards."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.apps.far import count, entries_of, far_jobs
from paseo.apps.folder import Folder, Pass
from paseo.apps.inputs import Job
from paseo.apps.job import Plan, Restoration
from paseo.apps.progress import Progress, spell
from paseo.apps.sinks import Tars
from paseo.recipe import Request, resolve

FAST = ["-t", "sr4", "--set", "steps=3"]


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


def png(seed: int, size: tuple[int, int] = (16, 16)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, format="PNG")
    return data.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five pictures of one size, one of another, one broken; two of one name in sub-folders."""
    names = ["a.png", "b.png", "c.png", "x/a.png", "y/a.png"]
    for seed, name in enumerate(names):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(png(seed))
    (tmp_path / "in" / "wide.png").write_bytes(png(9, (16, 24)))
    (tmp_path / "in" / "broken.png").write_bytes(b"no picture")
    return tmp_path / "in"


def outputs(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*.png"))}


def work(together: int | None = 1) -> Restoration:
    recipe = resolve(Request(task="sr4", steps=3))
    return Restoration(Plan(recipe, together=together))


# ---- passes


def test_passes_follow_from_the_list_alone(folder: Path) -> None:
    jobs = [Job(p, folder, p.stem, p.name) for p in sorted(folder.rglob("*.png"))]
    passes = list(Folder(work(2)).passes(jobs))
    assert sorted(len(one.jobs) for one in passes) == [1, 1, 1, 2, 2]
    assert all(one.size == len(one.jobs) for one in passes)
    assert {job.source for one in passes for job in one.jobs} == {job.source for job in jobs}
    assert all(len(one.jobs) == 1 for one in Folder(work(1)).passes(jobs))
    assert max(len(one.jobs) for one in Folder(work(None)).passes(jobs * 4)) == 8


def test_a_batch_resumed_in_the_middle_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    base = ["restore", folder, *FAST, "--batch", 2]
    run(*base, "-o", tmp_path / "whole", code=1)
    run(*base, "-o", tmp_path / "parts", code=1)
    (tmp_path / "parts" / "a.json").unlink()  # as if it had been killed before this record was written
    (tmp_path / "parts" / "y" / "a.png").unlink()
    result = run(*base, "-o", tmp_path / "parts", "--skip-existing", "--json", "-", code=1)
    assert json.loads(result.stdout)["summary"] == {"done": 2, "skipped": 4, "failed": 1}
    assert outputs(tmp_path / "whole") == outputs(tmp_path / "parts")
    assert len(outputs(tmp_path / "whole")) == 6


def test_alone_and_in_company_differ_by_the_last_bit_and_replay_repeats_it(
    folder: Path, tmp_path: Path
) -> None:
    run("restore", folder, *FAST, "-o", tmp_path / "alone", code=1)
    run("restore", folder, *FAST, "--batch", 4, "-o", tmp_path / "four", code=1)
    record = json.loads((tmp_path / "four" / "a.json").read_text())
    assert record["together"] == 4
    assert "together" not in json.loads((tmp_path / "alone" / "a.json").read_text())
    one, four = (np.array(Image.open(tmp_path / w / "a.png")).astype(int) for w in ("alone", "four"))
    assert np.abs(one - four).max() <= 1
    again = run("restore", "--replay", tmp_path / "four" / "a.json", "-o", tmp_path / "again")
    assert "identical to the recorded files" in again.stderr


def test_failures_are_listed_and_forgotten_when_mended(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("restore", folder, *FAST, "-o", out, code=1)
    (line,) = (out / "failures.jsonl").read_text().splitlines()
    assert json.loads(line)["input"].endswith("broken.png")
    (folder / "broken.png").write_bytes(png(7))
    run("restore", folder, *FAST, "-o", out, "--skip-existing")
    assert not (out / "failures.jsonl").exists()


# ---- formats and places


@pytest.mark.parametrize("ending", ["jpg", "webp", "tif"])
def test_one_file_in_the_format_of_its_name(folder: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"result.{ending}"
    run("restore", folder / "a.png", *FAST, "-o", target)
    with Image.open(target) as image:
        assert image.size == (64, 64)
        assert image.format == {"jpg": "JPEG", "webp": "WEBP", "tif": "TIFF"}[ending]
    again = run("restore", "--replay", tmp_path / "result.json", "-o", tmp_path / "again")
    assert "identical" in again.stderr


def test_an_unwritable_place_is_found_before_computing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("restore", folder / "a.png", *FAST, "-o", tmp_path / "file" / "below", code=2)
    assert "Cannot write" in result.stderr
    assert "default model" not in result.stderr


# ---- lists, tars, shards


def test_a_list_in_shards_keeps_folders_and_survives_a_bad_file(folder: Path, tmp_path: Path) -> None:
    names = ["a.png", "x/a.png", "y/a.png", "broken.png", "wide.png"]
    (folder / "list.csv").write_text("id,path\n" + "".join(f"{i},{n}\n" for i, n in enumerate(names)))
    run("restore", folder, *FAST, "-o", tmp_path / "whole", code=1)
    codes = {0: 0, 1: 1}  # the broken one is in the second part
    for shard, code in codes.items():
        run("restore", folder / "list.csv", *FAST, "-o", tmp_path / "out", "--shard", f"{shard}/2", code=code)
    whole, found = outputs(tmp_path / "whole"), outputs(tmp_path / "out")
    assert sorted(found) == ["a.png", "wide.png", "x/a.png", "y/a.png"]
    assert all(whole[name] == data for name, data in found.items())
    assert (tmp_path / "out" / "failures-1-of-2.jsonl").is_file()


def test_the_shard_is_read_off_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "5")
    run("restore", folder / "a.png", folder / "b.png", folder / "c.png", *FAST, "-o", tmp_path / "out")
    assert list(outputs(tmp_path / "out")) == ["c.png"]


def test_tars_in_and_out_are_resumable(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        tar.add(folder, arcname="pictures")
    base = ["restore", tmp_path / "in.tar", *FAST, "-o", tmp_path / "out.tar"]
    run(*base, code=1)
    (part,) = tmp_path.glob("out-0-*.tar")
    with tarfile.open(part) as tar:
        names = tar.getnames()
        assert sorted(n for n in names if n.endswith(".png")) == [
            f"pictures/{n}" for n in ("a.png", "b.png", "c.png", "wide.png", "x/a.png", "y/a.png")
        ]
        assert len([n for n in names if n.endswith(".json")]) == 6
    again = run(*base, "--json", "-", code=1)
    assert json.loads(again.stdout)["summary"] == {"done": 0, "skipped": 6, "failed": 1}
    other = run(*base, "--seed", 1, "--json", "-", code=1)  # another recipe is another run
    assert json.loads(other.stdout)["summary"]["done"] == 6


def test_object_stores_by_fsspec(folder: Path, tmp_path: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/in/x/a.png", (folder / "a.png").read_bytes())
    base = ["restore", "memory://bucket/in", *FAST, "-o", "memory://bucket/out"]
    run(*base)
    assert store.exists("/bucket/out/x/a.png")
    assert store.exists("/bucket/out/x/a.json")
    assert "1 skipped" in run(*base).stderr
    run("restore", f"file://{folder}/a.png", *FAST, "-o", tmp_path / "out")
    assert (tmp_path / "out" / "a.png").read_bytes() == store.cat_file("/bucket/out/x/a.png")


@pytest.mark.slow
def test_a_million_entries_are_planned_in_constant_memory(tmp_path: Path) -> None:
    """The work is a stub: what is counted is what planning holds."""
    import tracemalloc

    n = 100_000
    with (tmp_path / "list.txt").open("w") as file:
        file.writelines(f"folder-{i % 97}/picture-{i}.png\n" for i in range(n))
    assert count([str(tmp_path / "list.txt")]) == n
    folder = Folder(work(1))

    def peak(hold: Callable[[Iterable[Pass]], int]) -> int:
        tracemalloc.start()
        assert hold(folder.passes(far_jobs([str(tmp_path / "list.txt")], "out", None))) == n
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    walked = peak(lambda passes: sum(1 for _ in passes))
    assert walked < peak(lambda passes: len(list(passes))) / 3  # what is read ahead, not the list


def test_lists_with_and_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a.png\nb.png\n")
    (tmp_path / "b.csv").write_text("id,url\n1,s3://b/a.png\n")
    (tmp_path / "c.txt").write_text("# pictures\na.png\n\nb.png\n")
    assert list(entries_of(str(tmp_path / "a.csv"))) == ["a.png", "b.png"]
    assert list(entries_of(str(tmp_path / "b.csv"))) == ["s3://b/a.png"]
    assert list(entries_of(str(tmp_path / "c.txt"))) == ["a.png", "b.png"]


def test_shards_of_several_inputs_share_everything(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0.png\n1.png\n2.png\n3.png\n4.png\n")
    (tmp_path / "b.txt").write_text("5.png\n6.png\n")
    lists = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    parts = [[j.stem for j in far_jobs(lists, "out", None, (i, 3))] for i in range(3)]
    assert parts == [["0", "3", "6"], ["1", "4"], ["2", "5"]]


def test_a_killed_part_leaves_no_tar(tmp_path: Path) -> None:
    tars = Tars(str(tmp_path / "out.tar"), per_part=1)
    tars.write("a.png", b"x")
    assert not list(tmp_path.glob("*.tar"))
    tars.write("a.json", b"{}")
    assert [p.name for p in tmp_path.glob("*.tar")] == ["out-0-00000.tar"]


# ---- progress and warnings


def test_progress_says_how_far_and_how_long() -> None:
    shown = io.StringIO()
    progress = Progress(4, "restore", shown)
    progress.begin("a.png")
    progress.done()
    line = progress.line(progress.start + 30)
    assert line == "restore 1/4  a.png  25 %  2.0 a minute  90 s left".replace("90 s", spell(90))
    assert shown.getvalue() == ""
    assert (spell(50), spell(720), spell(12600)) == ("50 s", "12 min", "3.5 h")


def test_warnings_are_one_line_of_ours(folder: Path, tmp_path: Path) -> None:
    result = run("restore", folder / "a.png", *FAST, "-o", tmp_path / "o", "--sigma", 0.5)
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert any("outside" in note for note in notes)
    assert "UserWarning" not in result.stderr
    with Image.open(folder / "a.png") as image:
        image.resize((64, 64)).save(tmp_path / "j.jpg", quality=60)
    run_ = run("restore", tmp_path / "j.jpg", "-t", "jpeg", "--set", "steps=3", "-o", tmp_path / "o")
    assert "but the file says: JPEG of quality 60" in run_.stderr
    filled = run("restore", tmp_path / "j.jpg", "-t", "inpaint", "--set", "steps=3", "-o", tmp_path / "o")
    assert "will be replaced" in filled.stderr
    Image.new("RGB", (300, 300)).save(tmp_path / "large.png")
    only = ["-m", "faces-128", "-t", "blur", "--set", "steps=3"]
    large = run("restore", tmp_path / "large.png", *only, "-o", tmp_path / "o")
    assert "far from the 128×128" in large.stderr


def test_a_plan_of_another_batch_is_the_same_run(folder: Path) -> None:
    one, many = work(1), work(8)
    job = Job(folder / "a.png", folder, "a", "a.png")
    first, second = (w.record(w.prepare(job)) for w in (one, replace(many, loaded=one.model)))
    assert first == second
