"""`paseo ui`: the page, on this machine alone unless asked otherwise."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from paseo.errors import PaseoError


def ui(
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than 127.0.0.1 let other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 7860,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Models to offer: names, folders or hub ids.")
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="A public address through Gradio's servers. Never on by itself.")
    ] = False,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the browser.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name the page answers under, such as that of a proxy before it. "
            "Otherwise localhost and the address it listens on.",
        ),
    ] = None,
) -> None:
    """Open a page to restore pictures in the browser.

    \b
      paseo ui                     http://127.0.0.1:7860, for this machine alone
      paseo ui --port 8000 --browser

    Uploads and results live in a temporary folder that is deleted when the page ends. Nothing is sent
    anywhere, unless --share is given. Ends with Ctrl-C.
    """
    if importlib.util.find_spec("gradio") is None:  # imported later, once its surroundings are set
        raise PaseoError("The page needs gradio. Install it with: pip install 'gradio>=6'")
    from paseo.apps.ui.server import serve
    from paseo.models import AUTO

    serve(
        host=host,
        port=port,
        models=tuple(model or (AUTO,)),
        share=share,
        browser=browser,
        allow_hosts=tuple(allow_host or ()),
    )
