"""Ray, one way for all who use it: loading it, starting a cluster of our own or joining one, ending it.

A cluster that is started here listens on this machine alone, takes orders only from those who know its token,
and sends no statistics. Ray reads all of this from the environment when it is *imported*: it must stand there
before, or its processes and this one disagree and none is let in. Ray's processes tell of lost workers on
stdout, where `--json -` puts its result: while the cluster lasts, stdout is stderr.

    with cluster(RayOptions(workers=4)) as ray:
        ray.get(ray.remote(work).remote())
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from paseo.errors import BadInput

LOOPBACK = "127.0.0.1"
ALONE = {  # what Ray is to find in the environment besides its token
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else 127.0.0.1 is replaced by an address others can reach
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class RayOptions:
    """How a cluster is used."""

    address: str | None = None  # of a running cluster ("auto" finds one); None starts one here
    workers: int | None = None  # CPUs of a cluster that is started here; None: all
    cpus: float = 1.0  # that one unit takes
    gpus: float = 0.0  # that one unit takes; 0.25 lets four share one
    retries: int = 3  # of a unit whose worker is lost


@contextmanager
def cluster(options: RayOptions) -> Generator[Any]:
    """The module `ray`, connected; a cluster that was started for the block ends with it."""
    ray = load_ray(own=options.address is None)
    started = not ray.is_initialized()
    with stdout_kept_clean():
        if started:
            _connect(ray, options)
        try:
            yield ray
        finally:
            if started:
                ray.shutdown()


def load_ray(own: bool) -> Any:
    """Ray itself; `own` says that a cluster is going to be started here. Whoever imported Ray before has
    decided about its token and where it listens, and whoever set these variables too.
    """
    if own and "ray" not in sys.modules:
        os.environ |= {k: v for k, v in {**ALONE, **credentials()}.items() if k not in os.environ}
    try:
        return import_module("ray")
    except ImportError:
        raise BadInput(
            "--engine ray needs Ray, which is not installed. Run: pip install 'ray[data]>=2.52'"
        ) from None


def credentials() -> dict[str, str]:
    """A token that is new for each process."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def init_options(o: RayOptions) -> dict[str, Any]:
    """For `ray.init`: a cluster that is started here listens on this machine alone."""
    quiet = {"include_dashboard": False, "log_to_driver": False}
    if o.address is not None:
        return {"address": o.address, "log_to_driver": False}
    return {"num_cpus": o.workers, "_node_ip_address": LOOPBACK, "dashboard_host": LOOPBACK, **quiet}


def _connect(ray: Any, options: RayOptions) -> None:
    try:
        ray.init(**init_options(options))
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        where = "A cluster could not be started here" if options.address is None else options.address
        told = " ".join(str(error).split())[:300] or type(error).__name__
        raise BadInput(
            f"{where}: {told} Give --address of a running cluster (auto finds one of this machine; its token "
            "in RAY_AUTH_TOKEN), or leave it out to start one here."
        ) from error


@contextmanager
def stdout_kept_clean() -> Generator[None]:
    """While the block lasts, whatever is written to stdout arrives at stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
