"""``workbench lab``: what it copies, how it is reached, and that it asks nothing of the network."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import websocket

from tests.installs import borrowing_environment, build_wheel, clean_environment, copy_sources, pip_install
from tests.jupyter import Server, serve
from tests.waiting import SECONDS
from workbench import paths
from workbench.cli.lab import copy_notebooks, jupyter_command, jupyter_environment


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose home is empty, so that no settings of the user play a part."""
    return {**clean_environment(), "HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of an editable install of a checkout whose path has a space in it, as has the environment's."""
    folder = tmp_path_factory.mktemp("lab") / "path with a space"
    sources = copy_sources(folder / "my checkout")
    interpreter = borrowing_environment(sources / ".venv")
    pip_install(interpreter, "--editable", sources, cwd=folder)
    return interpreter


@pytest.fixture(scope="module")
def server(python: Path, home: dict[str, str]) -> Iterator[Server]:
    with serve(python, "--port", "18888", cwd=python.parent, env=home) as running:
        yield running


def listening_addresses(port: int) -> set[str]:
    """Addresses on which this machine listens at a TCP port, as the kernel writes them (hexadecimal)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not Path(table).is_file():
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            address, _, number = line.split()[1].partition(":")
            if line.split()[3] == "0A" and int(number, 16) == port:
                found.add(address)
    return found


def test_lab_opens_the_home_notebook(server: Server) -> None:
    assert urlsplit(server.page).path.endswith("/lab/tree/00_workbench.ipynb")
    status, _ = server.get("/api/contents/00_workbench.ipynb?content=0")
    assert status == 200


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="this system does not list its sockets in /proc")
def test_lab_listens_on_loopback_only(server: Server) -> None:
    assert listening_addresses(server.port) == {"0100007F"}


def test_lab_wants_the_token(server: Server) -> None:
    assert server.get("/api/contents", token=False)[0] == 403
    assert server.get("/api/contents")[0] == 200


def test_kernel_finds_the_workbench_where_the_path_has_a_space(server: Server, python: Path) -> None:
    status, body = server.get("/api/kernels", data={"name": "python3"})
    assert status == 201, body
    printed = execute(server, json.loads(body)["id"], "import workbench; print(workbench.__file__)")
    assert Path(printed.strip()) == python.parents[2] / "workbench" / "__init__.py"


def execute(server: Server, kernel: str, code: str) -> str:
    """What a kernel prints for some code."""
    header = {"msg_id": "1", "msg_type": "execute_request", "session": "test", "username": "", "version": "5.4"}
    request = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": []}
    request["content"] = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    channel = websocket.create_connection(
        f"ws://127.0.0.1:{server.port}/api/kernels/{kernel}/channels?token={server.token}", timeout=SECONDS
    )
    printed = ""
    try:
        channel.send(json.dumps(request))
        while True:
            message = json.loads(channel.recv())
            if message["parent_header"].get("msg_id") != "1":
                continue
            content = message["content"]
            assert message["msg_type"] != "error", content
            if message["msg_type"] == "stream":
                printed += content["text"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed
    finally:
        channel.close()


def test_announcements_and_index_are_off(server: Server) -> None:
    page = server.get("/lab")[1]
    config = json.loads(
        page.partition('<script id="jupyter-config-data" type="application/json">')[2].partition("</script>")[0]
    )
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]
    assert config["news"] == {"disabled": True}
    assert json.loads(server.get("/lab/api/news")[1])["news"] == []
    update = json.loads(server.get("/lab/api/update")[1])
    assert update["notification"] is None


@pytest.mark.browser
def test_page_asks_nothing_of_the_network(server: Server, chromium: Path) -> None:
    from tests.browser import expect, running_chromium

    asked: list[str] = []
    with running_chromium(chromium) as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.goto(f"{server.page}?token={server.token}")
        expect(page.locator(".jp-Notebook")).to_be_visible(timeout=180_000)
        expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_visible()
        page.wait_for_timeout(1_000)  # what JupyterLab asks for once it is idle
    hosts = {address.hostname for address in map(urlsplit, asked) if address.scheme not in {"data", "blob"}}
    assert any(url.startswith("ws:") for url in asked), "the page never reached its kernel"
    assert hosts == {"127.0.0.1"}
    assert not [url for url in asked if "/lab/api/news" in url or "/lab/api/update" in url]


def test_lab_from_a_wheel_copies_the_notebooks_and_overwrites_none(tmp_path: Path, home: dict[str, str]) -> None:
    sources = copy_sources(tmp_path / "sources")
    interpreter = borrowing_environment(tmp_path / "environment")
    pip_install(interpreter, build_wheel(sources, tmp_path / "wheel"), cwd=tmp_path)
    mine = tmp_path / "my notebooks"
    mine.mkdir()
    edited = next(path for path in sorted((sources / "notebooks").glob("*.ipynb")) if path.name != "00_workbench.ipynb")
    (mine / edited.name).write_text("my own work")
    with serve(interpreter, "--dir", str(mine), "--port", "18988", cwd=tmp_path, env=home) as running:
        assert running.get("/api/contents/00_workbench.ipynb?content=0")[0] == 200
        assert "1 already there and left as they are" in "".join(running.lines)
    assert (mine / edited.name).read_text() == "my own work"
    assert (mine / "00_workbench.ipynb").read_bytes() == (sources / "notebooks" / "00_workbench.ipynb").read_bytes()


def test_copy_overwrites_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "solutions").mkdir(parents=True)
    (source / "a.ipynb").write_text("shipped")
    (source / "solutions" / "b.ipynb").write_text("shipped")
    target.mkdir()
    (target / "a.ipynb").write_text("mine")
    copied = copy_notebooks(source, target)
    assert (copied.new, copied.kept) == ((Path("solutions/b.ipynb"),), (Path("a.ipynb"),))
    assert (target / "a.ipynb").read_text() == "mine"
    assert copy_notebooks(source, target).new == ()


def test_copied_notebooks_can_be_edited(tmp_path: Path) -> None:
    """A wheel in a system folder may be read-only; the copies are not."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.ipynb").write_text("shipped")
    (source / "a.ipynb").chmod(0o444)
    copy_notebooks(source, tmp_path / "target")
    assert (tmp_path / "target" / "a.ipynb").stat().st_mode & 0o200


def test_a_folder_that_cannot_hold_the_notebooks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.setattr(paths, "checkout_root", lambda: None)  # as installed from a wheel
    monkeypatch.setattr(paths, "notebooks_dir", lambda: Path(__file__).parent)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        assert "Name a folder that can be written" in refused("lab", "--dir", folder)


def test_command_never_leaves_loopback() -> None:
    command = jupyter_command(Path("/notebooks/00_workbench.ipynb"), port=8888, browser=False)
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "--no-browser" in command
    assert "--no-browser" not in jupyter_command(Path("/notebooks/00_workbench.ipynb"), port=8888, browser=True)


def test_the_users_own_jupyter_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    ours, theirs = jupyter_environment()["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert theirs == "/mine"
    assert (Path(ours) / "labconfig" / "page_config.json").is_file()
