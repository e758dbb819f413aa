"""The page answers nobody else and gives no file but its own: real requests to the real server, with and
without `meta`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from paseo.apps.ui.admit import MAX_FILES, Hosts, admitted
from paseo.errors import BadInput
from paseo.models import ROOT

gradio = pytest.importorskip("gradio", reason="the page needs gradio: pip install 'paseo[ui]'")
httpx = pytest.importorskip("httpx")

SAMPLE = sorted((ROOT / "faces-128" / "samples").iterdir())[0]
META = {"_type": "gradio.FileData"}


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    from paseo.apps.ui.server import running

    with running(port=0) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def visitor(page: str) -> Iterator[Any]:
    with httpx.Client(base_url=page, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def events(visitor: Any) -> list[dict[str, Any]]:
    """Everything the page can be asked to do."""
    return visitor.get("/config").json()["dependencies"]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A picture of the host that was never uploaded."""
    path = tmp_path / "private.png"
    Image.new("RGB", (64, 64), "red").save(path)
    return path


def png() -> bytes:
    return SAMPLE.read_bytes()


def join(visitor: Any, event: dict[str, Any], data: list[Any], **headers: str) -> Any:
    body = {"data": data, "fn_index": event["id"], "session_hash": uuid.uuid4().hex}
    return visitor.post("/gradio_api/queue/join", json=body, headers=headers)


def answer(visitor: Any, session: str) -> str:
    """What became of a queued event."""
    lines: list[str] = []
    with visitor.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
        for line in stream.iter_lines():
            lines.append(line)
            if "process_completed" in line or "close_stream" in line:
                break
    return "\n".join(lines)


def ask(visitor: Any, event: dict[str, Any], data: list[Any]) -> tuple[int, str]:
    session = uuid.uuid4().hex
    body = {"data": data, "fn_index": event["id"], "session_hash": session}
    sent = visitor.post("/gradio_api/queue/join", json=body)
    return sent.status_code, answer(visitor, session) if sent.status_code == 200 else sent.text


def named(path: Path | str, meta: bool) -> dict[str, Any]:
    return {"path": str(path), **({"meta": META} if meta else {}), "url": f"http://127.0.0.1:9/file={path}"}


def test_the_page_is_there(visitor: Any, events: list[dict[str, Any]]) -> None:
    answer = visitor.get("/")
    assert answer.status_code == 200
    assert len(events) > 5
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("meta", [True, False], ids=["meta", "bare"])
def test_no_event_takes_a_file_of_the_host(
    visitor: Any, events: list[dict[str, Any]], private: Path, meta: bool
) -> None:
    for event in events:
        count = max(1, len(event["inputs"]))
        for shape in (
            named(private, meta),
            {"layers": [named(private, meta)], "background": named(private, meta)},
        ):
            assert join(visitor, event, [shape] * count).status_code == 403, event["id"]
            body = {"data": [shape] * count, "fn_index": event["id"], "session_hash": "s"}
            for door in ("run/predict", "api/predict", "call/predict", "run/x/", "call/v2/x"):
                assert visitor.post(f"/gradio_api/{door}", json=body).status_code in (403, 404)


def test_what_is_there_and_what_is_not_are_refused_alike(
    visitor: Any, events: list[dict[str, Any]], private: Path
) -> None:
    event = next(e for e in events if e["inputs"])
    told = set()
    for path in (
        private,
        private.with_name("absent"),
        private.parent,
        "/etc/passwd",
        "relative.png",
        "a\0b",
        "..",
        "",
    ):
        sent = join(visitor, event, [named(path, False)] * len(event["inputs"]))
        told.add((sent.status_code, sent.text))
        got = visitor.get(f"/gradio_api/file={path!s}".replace("\0", "%00"))
        told.add((got.status_code, got.text))
    assert len(told) == 1
    assert told.pop()[0] == 403


def test_a_link_in_the_upload_folder_leads_nowhere(private: Path, tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    (uploads / "link.png").symlink_to(private)
    (uploads / "own.png").write_bytes(png())
    assert admitted(str(uploads / "own.png"), uploads) == uploads / "own.png"
    assert admitted(str(SAMPLE), uploads, frozenset({SAMPLE.resolve()})) == SAMPLE.resolve()
    for path in (
        uploads / "link.png",
        uploads / ".." / "private.png",
        uploads,
        SAMPLE,
        None,
        3,
        ["x"],
        "a" * 5000,
    ):
        with pytest.raises(BadInput):
            admitted(path, uploads)


def test_an_upload_is_taken_and_shown(visitor: Any, events: list[dict[str, Any]]) -> None:
    (path,) = visitor.post("/gradio_api/upload", files={"files": ("a.jpg", png(), "image/jpeg")}).json()
    event = next(e for e in events if len(e["inputs"]) == 4)  # what the picture is
    status, told = ask(visitor, event, [named(path, True), "show", True, "faces-128"])
    assert status == 200
    assert "128" in told
    assert visitor.get(f"/gradio_api/file={path}").content == png()


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7860", "127.0.0.1.evil.example", "", "[::2]", "10.0.0.9"),
        *("evil.example@localhost", "localhost:7860@evil.example", "127.0.0.1, evil.example", "2130706433"),
    ],
)
def test_other_hosts_are_not_answered(visitor: Any, host: str) -> None:
    for answer in (
        visitor.get("/", headers={"Host": host}),
        visitor.get("/config", headers={"Host": host}),
        visitor.post("/gradio_api/queue/join", json={}, headers={"Host": host}),
        visitor.post("/gradio_api/upload", files={"files": png()}, headers={"Host": host}),
    ):
        assert answer.status_code in (400, 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "file://", "http://localhost:1", "https://127.0.0.1"]
)
def test_other_origins_are_not_answered(visitor: Any, events: list[dict[str, Any]], origin: str) -> None:
    headers = {"Origin": origin}
    event = events[0]
    assert join(visitor, event, [None] * len(event["inputs"]), **headers).status_code == 403
    for door in ("upload", "reset", "cancel", "run/predict", "call/x", "component_server"):
        assert visitor.post(f"/gradio_api/{door}", files={"files": png()}, headers=headers).status_code == 403
    assert visitor.get("/config", headers=headers).status_code == 403


def test_another_scheme_is_another_origin(visitor: Any, page: str) -> None:
    for origin in (
        page.replace("http", "https"),
        page.replace("127.0.0.1", "x@127.0.0.1"),
        f"{page}.evil.example",
    ):
        assert visitor.get("/config", headers={"Origin": origin}).status_code == 403, origin
    assert visitor.get("/config", headers={"X-Forwarded-Host": "evil.example"}).status_code == 421
    assert Hosts("127.0.0.1", ("Paseo.example",)).same_origin("https://paseo.example", "paseo.example:7860")
    assert Hosts(shared=True).same_origin("https://x.gradio.live", "x.gradio.live")


def test_the_pages_own_origin_is_answered(visitor: Any, page: str, events: list[dict[str, Any]]) -> None:
    sent = visitor.post("/gradio_api/upload", files={"files": ("a.jpg", png())}, headers={"Origin": page})
    assert sent.status_code == 200
    assert visitor.get("/config", headers={"Host": "localhost"}).status_code == 200


def test_limits(visitor: Any) -> None:
    many = [("files", (f"{i}.png", b"x")) for i in range(MAX_FILES + 1)]
    assert visitor.post("/gradio_api/upload", files=many).status_code == 413
    assert visitor.post("/gradio_api/upload", files={"files": b"x" * (21 << 20)}).status_code == 413
    assert visitor.post("/gradio_api/queue/join", content=b"[" * 100_000).status_code == 400
    assert visitor.post("/gradio_api/queue/join", content=b" " * (5 << 20)).status_code == 413


@pytest.mark.parametrize(
    "place", ["proxy=http://127.0.0.1:9/", "process_recording", "vibe-edit/", "runs", "deep_link"]
)
def test_corners_that_are_not_needed_are_closed(visitor: Any, place: str) -> None:
    assert visitor.get(f"/gradio_api/{place}").status_code == 404
    assert visitor.post(f"/gradio_api/{place}", json={}).status_code == 404
    assert visitor.get("/monitoring").status_code == 404


def test_choices_are_checked_by_our_code(tmp_path: Path) -> None:
    from paseo.apps.ui.handlers import PageState
    from paseo.apps.ui.wiring import ASKED, filled_in

    desk = PageState(tmp_path)
    good = dict(
        picture=str(SAMPLE),
        way="show",
        model="faces-128",
        preset="",
        task="sr4",
        first=0,
        second=0,
        seed=0,
        sigma=0.01,
        fit=True,
        keep_known=False,
    )

    def fill(method: Any = "paseo", draws: Any = 1, names: Any = (), pool: Any = (), **changes: Any) -> Any:
        values = {**good, "editor": None, "faces": False, **changes}
        return filled_in(desk, {}, [values[k] for k in ASKED], [method, draws, list(names), *pool])

    assert fill().picture == str(SAMPLE.resolve())
    private = tmp_path.parent / "x.png"
    bad: list[dict[str, Any]] = [
        {"picture": str(private)},
        {"picture": 7},
        {"way": "x"},
        {"way": ["show"]},
        {"model": "/etc"},
        {"model": None},
        {"task": "os:system"},
        {"task": {"a": 1}},
        {"preset": "/etc"},
        {"preset": ["coco/sd35"]},
        {"preset": None},
        {"method": "nothing"},
        {"method": ["paseo"]},
        {"draws": "many"},
        {"draws": float("nan")},
        {"seed": float("inf")},
        {"sigma": "x"},
        {"first": "x"},
        {"names": ["steps"], "pool": ["1000000000"]},
        {"names": ["cg_budget"], "pool": ["1000000000"]},
        {"names": ["steps"], "pool": ["x"]},
    ]
    for change in bad:
        assert isinstance(fill(**change), BadInput), change


def test_names_of_the_page() -> None:
    here = Hosts("127.0.0.1")
    assert all(
        here.admits(h) for h in ("localhost:7860", "127.0.0.1", "[::1]:7860", "LOCALHOST", "localhost.")
    )
    assert not any(
        here.admits(h) for h in ("a.example", "192.168.0.2", "", "[", "localhost.a.example", "a@b")
    )
    assert Hosts("0.0.0.0").admits("192.168.0.2:7860")
    assert not Hosts("0.0.0.0").admits("a.example")
    proxied = Hosts("127.0.0.1", ("Paseo.example",))
    assert proxied.admits("paseo.example")
    assert not proxied.admits("x.paseo.example")
    assert Hosts("192.168.0.2").admits("192.168.0.2:1")
    assert not Hosts("192.168.0.2").admits("192.168.0.3")
    assert not Hosts().admits("x.gradio.live")
    assert Hosts(shared=True).admits("x.gradio.live")
