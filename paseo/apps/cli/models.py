"""`paseo models` and `paseo methods`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, table


def models(
    name: Annotated[str | None, typer.Argument(help="Show all about this one.")] = None,
    json: JsonOption = None,
) -> None:
    """List the models that come with the package, and the tasks they have operators for.

    \b
      paseo models              a table
      paseo models faces-128    the whole configuration, hashes and model card
    """
    from paseo.errors import BadInput
    from paseo.models import available

    names = available()
    if name is not None:
        if name not in names:
            raise BadInput(f"There is no embedded model named {name!r}. Known: {', '.join(names) or 'none'}.")
        entry = _describe(name)
        emit(json, entry, _text(entry))
        return
    rows = [_describe(n) for n in names]
    shown = [
        (r["name"], f"{r['size']} px", r["latent"], ", ".join(r["tasks"]) or "-", f"{r['megabytes']:.1f} MB")
        for r in rows
    ]
    emit(
        json,
        rows,
        table(("model", "size", "latent", "operators", "on disk"), shown)
        if rows
        else "No model is embedded in this installation.",
    )


def _describe(name: str) -> dict[str, Any]:
    from paseo.files import read_json
    from paseo.models import ROOT
    from paseo.record import file_sha256

    folder = ROOT / name
    config = read_json(folder / "config.json")
    weights = sorted(folder.rglob("*.safetensors"))
    operators = sorted(p.parent.name for p in folder.glob("operators/*/config.json"))
    side, channels = int(config.get("size", 0)), config.get("codec", {}).get("channels", "?")
    card = folder / "README.md"
    return {
        "name": name,
        "size": side,
        "latent": f"{channels}×{side // 8}×{side // 8}",
        "tasks": operators,
        "megabytes": round(sum(p.stat().st_size for p in weights) / 1e6, 2),
        "sha256": {p.relative_to(folder).as_posix(): file_sha256(p) for p in weights},
        "config": config,
        "card": card.read_text(encoding="utf-8") if card.is_file() else "",
    }


def _text(entry: dict[str, Any]) -> str:
    lines = [f"{entry['name']}: {entry['size']} px, latent {entry['latent']}, {entry['megabytes']} MB"]
    lines += [
        f"operators: {', '.join(entry['tasks']) or 'none'}",
        "",
        *(f"{sha}  {file}" for file, sha in entry["sha256"].items()),
    ]
    return "\n".join([*lines, *(["", entry["card"].rstrip()] if entry["card"] else [])])


def methods(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this one.")] = None,
    json: JsonOption = None,
) -> None:
    """List the samplers: PASEO and the methods it is compared with, what they need and what they
    differentiate.

    \b
      paseo methods           a table
      paseo methods paseo     its settings: symbol, default, what is allowed, what it is
    """
    from paseo.samplers import describe, method
    from paseo.settings.table import rows as settings_rows

    if name is not None:
        settings = settings_rows(method(name).cls)
        head = ("--set", "symbol", "default", "allowed", "tuned over", "what it is")
        emit(json, settings, table(head, [[str(value) for value in row.values()] for row in settings]))
        return
    rows = describe()
    shown = [
        (r["name"], r["paper"], r["needs"], r["differentiates"], r["nfe"], r["cannot"] or None) for r in rows
    ]
    emit(json, rows, table(("--method", "paper", "needs", "differentiates", "NFE", "cannot restore"), shown))
