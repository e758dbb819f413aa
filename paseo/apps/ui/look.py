"""How the page looks: a few lines of CSS, and the HTML of the progress bar, the scores and the notes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from types import ModuleType

from paseo.apps.ui.results import ShownResult, score_text
from paseo.apps.ui.work import RunProgress

TITLE = """# PASEO
Give it a picture that is too small, blurred, noisy, damaged or badly compressed, and it draws how the
picture may have looked. Made for {pictures}. Nothing leaves this machine."""

CSS = """
.gradio-container { max-width: 1280px !important; margin: auto; }
#title h1 { margin-bottom: 0; } #title p { margin-top: .2rem; opacity: .8; }
.bar { height: .7rem; border-radius: .35rem; background: var(--border-color-primary); overflow: hidden; }
.bar > div { height: 100%; background: var(--color-accent); transition: width .25s linear; }
.bar-text { display: flex; justify-content: space-between; gap: .2rem 1rem; flex-wrap: wrap;
  margin-top: .35rem; font-variant-numeric: tabular-nums; }
.note { padding: .55rem .8rem; border-radius: .4rem; background: var(--background-fill-secondary);
  border-left: .25rem solid var(--color-accent); }
.note.bad { border-left-color: #c0392b; } .note.quiet { border-left-color: var(--border-color-primary); }
table.scores { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
table.scores, table.scores tr, table.scores th, table.scores td { border: none !important; }
table.scores th, table.scores td { padding: .25rem .4rem; text-align: right; white-space: nowrap; }
table.scores tr + tr td { border-top: 1px solid var(--border-color-primary) !important; }
table.scores th:first-child, table.scores td:first-child { text-align: left; }
.legend { display: flex; align-items: center; gap: .5rem; font-size: .85rem; }
.legend span.scale { flex: 1 0 4rem; height: .6rem; border-radius: .3rem;
  background: linear-gradient(90deg, rgb(0,0,4), rgb(87,16,110), rgb(188,55,84), rgb(249,142,9),
  rgb(252,255,164)); }
.wide { overflow-x: auto; contain: inline-size; }
@media (max-width: 480px) {
  .gradio-container .main.fillable { padding: .6rem !important; }
  #go { position: fixed; left: 0; right: 0; bottom: 0; z-index: 40; margin: 0; padding: .5rem .6rem;
    background: var(--body-background-fill); border-top: 1px solid var(--border-color-primary); }
  .gradio-container { padding-bottom: 4.5rem !important; }
  table.scores { font-size: .8rem; } table.scores :is(th, td) { padding: .25rem .15rem; }
}
#advanced .label-text { overflow-wrap: anywhere; }
#picture .image-frame, #picture .image-frame img { width: 100%; height: 100%; object-fit: contain; }
#gallery .fixed-height, #side-by-side .fixed-height {
  min-height: 0 !important; max-height: none !important; overflow: visible; }
#gallery .grid-container, #side-by-side .grid-container {
  grid-template-columns: repeat(auto-fill, minmax(max(8.5rem, 20%), 1fr)) !important; }
#gallery .caption-label, #side-by-side .caption-label { opacity: 1; max-width: 94%; }
#advanced .form { align-items: stretch; }
#advanced .block:not(:has(input[type=checkbox])),
#advanced .block:not(:has(input[type=checkbox])) > :is(label, .container) {
  display: flex; flex-direction: column; flex-grow: 1; }
#advanced [data-testid=block-info] { align-self: flex-start; }
#advanced .input-container, #advanced .container > .wrap { margin-top: auto; }
#run, #cancel, #compare, #stop { min-height: 2.8rem; }
#mask { border: 1px solid var(--border-color-primary) !important; }
#mask-note { background: var(--block-background-fill); }
#command, #command * { min-width: 0; }
#command .cm-content { white-space: pre-wrap !important; overflow-wrap: anywhere; flex-shrink: 1 !important; }
footer { display: none !important; }
"""


def title(pictures: str) -> str:
    """The head of the page: what it does, in a sentence for everybody."""
    return TITLE.format(pictures=pictures)


def theme(gr: ModuleType) -> object:
    """Gradio's soft theme with fonts of this machine (none is fetched) and buttons that can be read."""
    soft = gr.themes.Soft(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    return soft.set(
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_text_color="white",
        button_cancel_background_fill="*neutral_100",
    )


LEGEND = (
    '<div class="legend"><span>draws agree</span><span class="scale"></span>'
    "<span>differ by ≥ 0.2</span></div>"
)
# with braces: what scrollIntoView returns (a promise, in Chromium 150) would be taken for the run's inputs
TO_STATUS = "() => {document.querySelector('#status').scrollIntoView({block: 'center', behavior: 'smooth'});}"
IDLE = '<div class="note quiet">Ready.</div>'
WAITING = '<div class="note quiet">Waiting for a free place: one run at a time.</div>'


def note(text: str, *, bad: bool = False) -> str:
    return (
        f'<div class="note{" bad" if bad else ""}" role="{"alert" if bad else "status"}">{escape(text)}</div>'
    )


def bar(progress: RunProgress, what: str = "") -> str:
    """A bar with step, denoiser calls and time left."""
    percent = 100 * progress.fraction
    left = "starting" if progress.left is None else f"{clock(progress.left)} left"
    step = f"step {progress.step} of {progress.steps}" if progress.steps else "preparing"
    calls = f"{progress.nfe} of {max(progress.nfe, progress.all_nfe)} denoiser calls (NFE)"  # faces need more
    parts = [
        what,
        step,
        calls,
        f"{clock(progress.seconds)} passed, {left}",
    ]
    cells = "".join(f"<span>{escape(p)}</span>" for p in parts if p)
    return (
        f'<div class="bar" role="progressbar" aria-valuenow="{percent:.0f}" aria-valuemin="0" '
        'aria-valuemax="100">'
        f'<div style="width:{percent:.1f}%"></div></div><div class="bar-text">{cells}</div>'
    )


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def estimate(seconds: float | None) -> str:
    """Before a run: how long it will take."""
    if seconds is None:
        return IDLE
    rough = clock(max(1.0, float(f"{seconds:.2g}")))
    return f'<div class="note quiet">Ready. It will take about {rough} on this machine.</div>'


def finished(result: ShownResult) -> str:
    draws = sum(row.name != "mean" for row in result.rows)
    if result.nfe == 0:
        return note(result.said or "Nothing to restore.")
    return note(
        f"Done: {draws} {'draw' if draws == 1 else 'draws'}, {result.nfe} denoiser calls each, "
        f"{clock(result.seconds)}." + (f" {result.said}." if result.said else "") + _faces(result.faces)
    )


def _faces(sentence: str) -> str:
    return f" {sentence[0].upper()}{sentence[1:]}." if sentence else ""


def scores(
    rows: Sequence[tuple[str, dict[str, float]]],
    sigma_y: float,
    extra: dict[str, Sequence[str]] | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """A table; below it, what the last column means, and what speaks against trusting it."""
    columns = list(rows[0][1])
    more = extra or {}
    head = "".join(f"<th>{escape(c)}</th>" for c in ["", *columns, *more])
    lines = []
    for i, (name, values) in enumerate(rows):
        text = score_text(values)
        cells = [name, *(text.get(c, "-") for c in columns), *(more[m][i] for m in more)]
        lines.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
    foot = (
        "Misfit: RMS of A(x̂) − y over the pixels that were seen, on the [0,1] scale. "
        f"About σ_y = {sigma_y:g} means that the picture explains the measurement."
    )
    table = f'<table class="scores"><tr>{head}</tr>{"".join(lines)}</table>'
    told = "".join(note(text, bad=True) for text in warnings)
    return f'<div class="wide">{table}</div><small>{escape(foot)}</small>{told}'
