"""Logins with the system's ssh: what reaches it, and what is written for it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from support.sdk_models import an_instance

from corral.cli.remote.askpass import ASKED_FOR, is_askpass
from corral.cli.remote.config import config_text, include_line, is_installed, remove
from corral.cli.remote.config import install as write_config
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.forward import Forward, check_free, read_forward
from corral.cli.remote.login import checked, quoted, ssh_words
from corral.cli.remote.places import Places
from corral_client import SshLogin

CORRAL = "/opt/my tools/100%/corral"


def login(**changes: object) -> SshLogin:
    fields: dict[str, object] = {"command": "", "user": "root", "host": "h.example", "port": 40221, "password": "pw"}
    return SshLogin(**{**fields, **changes})  # type: ignore[arg-type]  # the names are those of SshLogin


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Of a user whose home has a space and a percent sign in its path."""
    home = tmp_path / "my 50% home"
    home.mkdir()
    return Places(ssh=home / ".ssh")


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "-oProxyCommand=touch x"},
        {"host": "-p"},
        {"host": "a b"},
        {"host": "a;b"},
        {"host": "a/b"},
        {"host": "h.example\n"},
        {"host": ""},
        {"host": "fe80::1%eth0"},
        {"user": "-l"},
        {"user": "root@evil"},
        {"user": ""},
        {"port": 0},
        {"port": 65536},
        {"port": -1},
    ],
)
def test_a_login_that_could_be_an_option_never_reaches_ssh(changes: dict[str, object]) -> None:
    """An option such as ProxyCommand would run any program on this computer."""
    with pytest.raises(RemoteError, match="no user, host and port"):
        checked(an_instance(), login(**changes))


@pytest.mark.parametrize("host", ["h.example", "127.0.0.1", "2001:db8::1", "proxy-1.us_west.novita.ai"])
def test_the_words_have_the_address_and_never_the_password(places: Places, host: str) -> None:
    """Arguments are visible to every user of a computer."""
    words = ssh_words(checked(an_instance(), login(host=host)), places, command=("echo", "a b"))

    assert words[words.index("--") - 2 :] == ["-p", "40221", "--", f"root@{host}", "echo", "a b"]
    assert "pw" not in words
    assert "StrictHostKeyChecking=accept-new" in words


def test_an_id_that_is_a_path_is_refused() -> None:
    """It names a file of host keys."""
    with pytest.raises(RemoteError):
        checked(an_instance(id="../config"), login())


def test_paths_are_quoted_for_ssh() -> None:
    """Its own percent signs are tokens; quotes cannot be written at all."""
    assert quoted("/a b/50%") == '"/a b/50%%"'
    for path in ('/a"b', "/a\nb", "/${HOME}"):
        with pytest.raises(RemoteError, match="ssh cannot use the path"):
            quoted(path)


def test_the_executable_is_quoted_for_the_shell_that_ssh_starts(places: Places) -> None:
    """With its percent signs doubled, and the service that was named."""
    text = config_text(places, CORRAL, "http://h:3000/a b")

    assert "ProxyCommand '/opt/my tools/100%%/corral' ssh-proxy --url 'http://h:3000/a b' '%n'\n" in text


@pytest.mark.parametrize(
    "own", [b"Host a\n    User b", b"", b"# mine\r\n\r\nHost *\r\n", "Höst\xff\n".encode("latin-1")]
)
def test_the_users_own_configuration_is_left_as_it_is(places: Places, own: bytes) -> None:
    """One line above it, once, and the same bytes and mode after the removal."""
    places.make()
    places.user_config.write_bytes(own)
    places.user_config.chmod(0o640)

    for _ in range(2):
        write_config(places, CORRAL, None)
    installed = places.user_config.read_bytes()
    key_mode = stat.S_IMODE(places.key.stat().st_mode)
    assert is_installed(places)
    remove(places)

    assert installed == include_line(places) + own
    assert key_mode == 0o600
    if own:
        assert places.user_config.read_bytes() == own
        assert stat.S_IMODE(places.user_config.stat().st_mode) == 0o640
    assert {file.name for file in places.ssh.iterdir()} <= {"config"}


def test_a_configuration_that_did_not_exist_is_gone_again(places: Places) -> None:
    """And is private as long as it is there; removing what is not there is no mistake."""
    write_config(places, CORRAL, None)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (places.user_config, places.config)}
    remove(places)
    remove(places)

    assert modes == {0o600}
    assert list(places.ssh.iterdir()) == []


def test_a_link_to_a_configuration_stays_a_link(places: Places, tmp_path: Path) -> None:
    """As those make who keep their dotfiles in a repository."""
    kept = tmp_path / "dotfiles"
    kept.write_text("Host a\n")
    places.make()
    places.user_config.symlink_to(kept)

    write_config(places, CORRAL, None)
    installed = kept.read_bytes()
    remove(places)

    assert places.user_config.is_symlink()
    assert installed == include_line(places) + b"Host a\n"
    assert kept.read_text() == "Host a\n"


def test_a_name_has_the_host_keys_of_the_machine_behind_it(places: Places) -> None:
    """A machine that is created again under the name is another one, with another key."""
    places.link("corral-web", "inst_1")
    places.host_keys("inst_1").write_text("key of the first\n")
    places.link("corral-web", "inst_1")
    same = places.host_keys("corral-web").read_text()
    places.link("corral-web", "inst_2")

    assert same == "key of the first\n"
    assert not places.host_keys("corral-web").exists()
    assert places.host_keys("corral-web").readlink() == Path("inst_2")


def test_only_a_question_of_ssh_is_answered() -> None:
    """A command that is started below ssh is a command."""
    asked = {ASKED_FOR: "inst_1"}

    assert is_askpass(["corral", "root@h's password: "], asked)
    assert not is_askpass(["corral", "root@h's password: "], {})
    assert not is_askpass(["corral", "ls"], asked)
    assert not is_askpass(["corral", "ssh-proxy", "a b"], asked)


@pytest.mark.parametrize(("text", "pair"), [("8888", (8888, 8888)), ("8888:80", (8888, 80)), ("1:65535", (1, 65535))])
def test_ports_are_read_as_here_and_there(text: str, pair: tuple[int, int]) -> None:
    """The first is of this computer, as with ssh and docker."""
    assert read_forward(text) == Forward(local=pair[0], remote=pair[1])


@pytest.mark.parametrize("text", ["", "0", "65536", "80:", ":80", "a", "1:2:3", "-L1:2", "80:0", "٨٠"])
def test_what_is_no_port_is_refused(text: str) -> None:
    """With an example of what is one."""
    with pytest.raises(RemoteError, match="8888:80"):
        read_forward(text)


def test_a_port_that_is_in_use_is_named_with_another() -> None:
    """Before anything is connected."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RemoteError, match=f"port {port} is in use on this computer; another one: \\d+:80"):
            check_free([Forward(local=port, remote=80)])
