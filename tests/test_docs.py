"""What README and documentation show exists: commands and their options, files, symbols, and the algorithm's
lines.
"""

from __future__ import annotations

import re
import runpy
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from paseo import errors
from paseo.apps.cli.main import app
from paseo.degrade import tasks
from paseo.samplers import METHODS, PASEO

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in PAGES}
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.S | re.M)
GROUPS = {"bench", "train"}  # verbs with verbs of their own


def commands(text: str, program: str) -> list[list[str]]:
    """Calls of a program in fenced blocks and in `inline code`, as words; what follows # and what joins
    commands is left out.
    """
    code = [*FENCE.findall(text), *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))]
    lines = re.sub(r"\\\n\s*", " ", "\n".join(code)).splitlines()
    quoted = [inner for line in lines for inner in re.findall(r'--wrap "([^"]+)"', line)]
    calls = [part for line in lines + quoted for part in re.split(r"\s[&|;]+\s|\s#\s", line)]
    starts = re.compile(rf"^(?:torchrun .*?-m |python -m )?{program}(?= )")
    return [shlex.split(starts.sub("", call)) for call in calls if starts.match(call.strip())]


SHOWN = [
    pytest.param(words, id=f"{page}: {' '.join(words)[:60]}")
    for page, text in TEXTS.items()
    for words in commands(text, "paseo")
]
SCRIPTS = [
    pytest.param(words, id=f"{page}: {' '.join(words)[:60]}")
    for page, text in TEXTS.items()
    for words in commands(text, "python")
]


@cache
def options(verb: tuple[str, ...]) -> frozenset[str]:
    """All options of a verb, from its help."""
    result = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert result.exit_code == 0, f"There is no verb {' '.join(verb)}"
    return frozenset(re.findall(r"(?<![\w-])--?[a-z][\w-]*", result.output))


def test_commands_are_found() -> None:
    assert commands("`paseo ui`\n```\npaseo a -b  # c\ntorchrun -n 2 -m paseo d & paseo e\n```", "paseo") == [
        ["a", "-b"],
        ["d"],
        ["e"],
        ["ui"],
    ]
    assert len(SHOWN) > 30


@pytest.mark.parametrize("words", SHOWN)
def test_a_command_that_is_shown_can_be_typed(words: list[str]) -> None:
    if words[0].startswith("-"):  # of the program itself
        assert words[0] in options(())
        return
    verb = tuple(words[: 2 if words[0] in GROUPS and len(words) > 1 else 1])
    given = [w for w in words[len(verb) :] if w.startswith("-") and w != "-"]
    assert set(given) <= options(verb), f"paseo {' '.join(verb)} does not know {set(given) - options(verb)}"
    values = dict(pairwise(words))
    known = {t.name for t in tasks()} | ({"family"} if verb == ("train", "operator") else set())
    assert values.get("--task", "sr4") in known or ":" in values["--task"] or values["--task"].isupper()
    assert values.get("--method", "paseo") in METHODS or values["--method"].isupper()
    if verb == ("restore",):
        fields = {v.split("=")[0] for w, v in pairwise(words) if w == "--set"}
        assert fields <= set(PASEO.__dataclass_fields__)


@pytest.mark.parametrize("words", SCRIPTS)
def test_a_script_that_is_shown_is_there(words: list[str]) -> None:
    if words[0] == "-m":
        return
    script = ROOT / words[0]
    source = script.read_text(encoding="utf-8")
    assert all(f'"{w}"' in source for w in words[1:] if w.startswith("--"))


@pytest.mark.parametrize(("page", "text"), TEXTS.items(), ids=TEXTS)
def test_files_that_are_named_exist(page: str, text: str) -> None:
    folder = (ROOT / page).parent
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", FENCE.sub("", text))
    included = re.findall(r"^```\{(?:literalinclude|include|beside)\} (\S+)", text, re.M)
    missing = [target for target in linked + included if not (folder / target).exists()]
    named = re.findall(r"`((?:examples|paseo|docs|benchmarks)/[\w./-]+)`", text)
    missing += [target for target in named if not (ROOT / target).exists()]
    assert missing == []


def test_the_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"^```python\n(.*?)^```", TEXTS["README.md"], re.S | re.M)
    assert found is not None
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 10
    face = Image.open(ROOT / "paseo/models/faces-128/samples/2000001.jpg")
    face.save(tmp_path / "photo.jpg", quality=40)
    face.resize((32, 32)).save(tmp_path / "small.png")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    code = found[1].replace('"photo.jpg"', '"photo.jpg", steps=3').replace("samples=4", "samples=4, steps=3")
    exec(code, {}, names)  # the same, in seconds
    assert {"out.png", "out_s3.png", "out_mean.png"} <= {p.name for p in tmp_path.iterdir()}
    assert names["result"].images.shape == (4, 3, 128, 128)
    assert names["result"].std.shape == (1, 128, 128)


def test_the_readme_has_a_place_for_the_results() -> None:
    assert re.search(r"<!-- results: begin -->\n.+?<!-- results: end -->", TEXTS["README.md"], re.S)


def test_the_notation_names_files_that_hold_its_names() -> None:
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|[^|]+\|\s*`([^`]+)`\s*\|", TEXTS["docs/notation.md"], re.M)
    assert len(rows) > 15
    for names, place in rows:
        files = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).glob("*.py"))
        source = "\n".join(p.read_text(encoding="utf-8") for p in files)
        for name in re.findall(r"`([^`]+)`", names):
            word = re.split(r"[.(]", name.rstrip(")").removesuffix("(x, t"))[-1]
            assert re.search(rf"\b{re.escape(word)}\b", source), f"{name} is not in {place}"


def test_the_algorithm_and_its_code_name_the_same_lines() -> None:
    marks = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "extensions" / "marks.py")))
    text = TEXTS["docs/algorithm.md"]
    content = re.search(r"^```\{beside\} \S+\n(.*?)^```", text, re.S | re.M)
    assert content is not None
    source = (ROOT / "paseo" / "samplers" / "paseo.py").read_text(encoding="utf-8")
    lines = content[1].splitlines()
    assert marks.missing(source, lines) == []
    assert marks.missing(source, lines[1:]) == ["'# 1' has no row"]
    numbers = [int(n) for mark, *_ in marks.rows(lines) if "to" not in mark for n in mark.split(", ")]
    assert numbers == list(range(1, 27))  # the algorithm has 26 lines
    assert marks.marked(source)["22"] == ["z = z + self.relaxation * (z_star - z)"]


def test_messages_of_the_troubleshooting_page_are_ours() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "paseo").rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # strings over several lines
    quoted = re.findall(r"^\| \*([^*]+)\*", TEXTS["docs/troubleshooting.md"], re.M)
    parts = {part.strip() for message in quoted for part in message.split("…")} - {""}
    assert len(quoted) > 10
    assert sorted(part for part in parts if part not in source) == [
        "exceed the maximum allowed size"
    ]  # gradio's
    names = set(re.findall(r"\(`(\w+)`\)", TEXTS["docs/troubleshooting.md"]))
    assert all(issubclass(getattr(errors, name), errors.PaseoError) for name in names)


def test_every_example_is_shown_somewhere() -> None:
    everything = "\n".join(TEXTS.values())
    assert [
        p.name for p in sorted((ROOT / "examples").glob("*.py")) if f"examples/{p.name}" not in everything
    ] == []
