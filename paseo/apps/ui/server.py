"""Starting the page: a temporary folder of its own, no analytics, one run at a time, only its own files."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paseo.apps.ui.form import MAX_MEGABYTES, MAX_PIXELS
from paseo.apps.ui.handlers import PageState
from paseo.errors import BadInput

QUIET = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_SHARE": "False",
    "GRADIO_MCP_SERVER": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def serve(
    *,
    host: str,
    port: int,
    models: tuple[str, ...],
    share: bool = False,
    browser: bool = False,
    allow_hosts: tuple[str, ...] = (),
) -> None:
    """Until interrupted."""
    try:
        with running(
            host=host, port=port, models=models, share=share, browser=browser, allow_hosts=allow_hosts
        ) as address:
            print(f"PASEO is at {address} (Ctrl-C ends it)", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        print("Ended.")


@contextmanager
def running(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    models: tuple[str, ...] = ("auto",),
    share: bool = False,
    browser: bool = False,
    allow_hosts: tuple[str, ...] = (),
) -> Generator[str]:
    """The page's address, while the block lasts; then the page and its temporary folder are gone."""
    with (
        tempfile.TemporaryDirectory(prefix="paseo-ui-", ignore_cleanup_errors=True) as folder,
        temporary_files_in(folder),
    ):
        os.environ.update(
            QUIET | {"GRADIO_TEMP_DIR": str(Path(folder) / "files")}
        )  # before gradio is imported
        (Path(folder) / "files").mkdir()
        import gradio as gr
        from PIL import Image
        from starlette.middleware import Middleware

        from paseo.apps.ui.admit import Gate, Hosts
        from paseo.apps.ui.look import CSS, theme
        from paseo.apps.ui.page import build
        from paseo.apps.ui.wiring import samples_of

        Image.MAX_IMAGE_PIXELS = MAX_PIXELS  # for what gradio decodes itself: the layers of the mask
        state = PageState(Path(folder) / "files", models)
        for name in state.models:
            state.model(name)  # what is missing is said now
        page: Any = build(state)
        gate = Middleware(
            Gate,  # type: ignore[arg-type]  (a dataclass of the right shape)
            hosts=Hosts(host, allow_hosts, share),
            root=state.root,
            samples=frozenset(Path(p).resolve() for p in samples_of(state.models)),
        )
        page.queue(default_concurrency_limit=1, max_size=16)
        _, local, public = page.launch(
            server_name=host,
            server_port=usable_port(host, port),
            share=share,
            inbrowser=browser,
            prevent_thread_lock=True,
            quiet=True,
            show_error=False,  # tracebacks stay here
            max_file_size=f"{MAX_MEGABYTES}mb",
            allowed_paths=[],
            enable_monitoring=False,
            app_kwargs={"middleware": [gate]},
            ssr_mode=False,
            pwa=False,
            footer_links=[],
            theme=theme(gr),
            css=CSS,
        )
        try:
            yield public or local
        finally:
            for event in state.running.values():
                event.set()
            page.close(verbose=False)


@contextmanager
def temporary_files_in(folder: str) -> Generator[None]:
    """Gradio and torch make folders where temporary files belong: let that be ours, which is deleted."""
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def usable_port(host: str, port: int) -> int:
    """The port itself if it is free; for 0 any free one."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # one that was closed a moment ago is free
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"Port {port} is taken, perhaps by another page. Close that one, or take a free one with "
                "--port 0."
            ) from None
        raise BadInput(
            f"Cannot listen on {host}: {error.strerror}. Give an address of this machine."
        ) from None
