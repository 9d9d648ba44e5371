"""Which service is called, and with which key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from corral_client import CorralError
from corral_client.login import Login, login_file, remove_login, store_login, stored_login, target

HERE = "http://127.0.0.1:3000"
TEAM = "https://corral.example"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CORRAL_URL", raising=False)
    monkeypatch.delenv("CORRAL_API_KEY", raising=False)
    return tmp_path


def test_the_argument_beats_the_environment_which_beats_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any, this machine."""
    found = [target()]
    store_login(Login(url=TEAM, api_key="stored"))
    found.append(target())
    monkeypatch.setenv("CORRAL_API_KEY", "environment")
    found.append(target())
    monkeypatch.setenv("CORRAL_URL", "http://other.example")
    found.append(target())
    found.append(target("http://mine.example", "mine"))

    assert [(t.url, t.url_origin, t.api_key, t.key_origin) for t in found] == [
        (HERE, "default", None, "default"),
        (TEAM, "login", "stored", "login"),
        (TEAM, "login", "environment", "environment"),
        ("http://other.example", "environment", "environment", "environment"),
        ("http://mine.example", "argument", "mine", "argument"),
    ]


def test_a_stored_key_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that another service sees can be used by it."""
    store_login(Login(url=TEAM, api_key="stored"))

    assert target(f"{TEAM}/").api_key == "stored"
    assert target("https://corral.example.evil").api_key is None
    monkeypatch.setenv("CORRAL_URL", HERE)
    assert target().api_key is None
    assert target(TEAM, "").api_key is None


def test_only_its_owner_can_read_a_login(config: Path) -> None:
    """Also one that replaces a file that others could read."""
    file = store_login(Login(url=TEAM, api_key="secret"))
    file.chmod(0o644)
    store_login(Login(url=TEAM, api_key="secret"))

    assert file == config / "corral" / "login.json" == login_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir()] == ["login.json"]
    assert stored_login() == Login(url=TEAM, api_key="secret")
    assert remove_login()
    assert not remove_login()
    assert stored_login() is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"url": 1}'])
def test_a_damaged_login_is_reported_with_the_way_out(config: Path, content: bytes) -> None:
    """Not ignored: the next command would go to another service."""
    (config / "corral").mkdir()
    (config / "corral" / "login.json").write_bytes(content)

    with pytest.raises(CorralError, match=r"login\.json is not a login; `corral logout` removes it"):
        target()
    assert remove_login()
    assert target().url == HERE


def test_without_a_configuration_directory_there_is_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container where nothing can be written."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")

    assert target().url == HERE
    with pytest.raises(CorralError, match="cannot be written: Not a directory"):
        store_login(Login(url=TEAM))


def test_a_relative_configuration_directory_is_ignored(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the XDG specification says."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(config))

    assert login_file() == config / ".config" / "corral" / "login.json"
