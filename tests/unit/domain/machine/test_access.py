"""The provider's ssh commands and addresses: what is read of them, and what is never passed on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.machine.access import MachineAccess, SshTarget, credentials, ssh_target, web_address


@pytest.mark.parametrize(
    ("command", "user", "host", "port"),
    [
        (
            "ssh -p 31422 root@proxy.us-ca-6.gpu-instance.novita.ai",
            "root",
            "proxy.us-ca-6.gpu-instance.novita.ai",
            31422,
        ),
        ("ssh root@proxy.example -p 31422", "root", "proxy.example", 31422),
        ("ssh root@proxy.example", "root", "proxy.example", 22),
        ("ssh -p31422 root@198.51.100.7", "root", "198.51.100.7", 31422),
        ("  ssh   proxy.example  -l  ubuntu ", "ubuntu", "proxy.example", 22),
        ("ssh proxy.example", "root", "proxy.example", 22),
        ("ssh -o StrictHostKeyChecking=no -i ~/.ssh/id_ed25519 -tt -p 2022 a.b@h", "a.b", "h", 2022),
        ("ssh -p 22 root@2001:db8::7", "root", "2001:db8::7", 22),
    ],
)
def test_the_target_of_an_ssh_command_is_read(command: str, user: str, host: str, port: int) -> None:
    """In any order, with or without a port."""
    assert ssh_target(command) == SshTarget(user=user, host=host, port=port)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "ssh",
        "ssh -p 22",
        "scp root@host",
        "ssh root@-oProxyCommand=id",
        "ssh -- -oProxyCommand=id",
        "ssh -oProxyCommand=id",
        "ssh -Wx:1 root@host",
        "ssh root@host id",
        "ssh root@host;id",
        "ssh root@host\nid",
        "ssh root@host\tid",
        "ssh root@ho\x00st",
        "ssh root@h\x1b[31mst",
        "ssh root@$(id)",
        "ssh root@`id`",
        "ssh root@host|id",
        "ssh root@host&",
        "ssh root@host>x",
        "ssh 'root@host'",
        "ssh -p 0 root@host",
        "ssh -p 65536 root@host",
        "ssh -p 22x root@host",
        "ssh -p ²² root@host",
        "ssh -root@host",
        "ssh @host",
        "ssh root@",
        "ssh root@host/..",
        "ssh root@h..t",
        "ssh root@%h",
        "ssh root@fe80::1%eth0",
        "ssh root@[::1]",
        "ssh root@höst",
        "ssh root@" + "a" * 64,
        "ssh root@" + "a." * 200 + "a",
    ],
)
def test_a_hostile_ssh_command_is_refused(command: str) -> None:
    """Its host would be an option of ssh, or its text a command of a shell."""
    assert ssh_target(command) is None


@given(st.text() | st.lists(st.sampled_from(["ssh", "-p", "-l", "-o", "22", "root@h", "-", "--", "@"])).map(" ".join))
def test_every_part_of_a_target_is_safe_as_an_argument(command: str) -> None:
    """Whatever the text; and the command that is shown has the same target."""
    found = ssh_target(command)
    if found is not None:
        assert not found.host.startswith("-")
        assert not found.user.startswith("-")
        assert set(found.host + found.user) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:")
        assert ssh_target(found.command) == found


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://user:pw@host/",
        "https://host:99999/",
        "https://host/a b",
        "https://host/\x1b]0;x",
        "https://host\\@evil/",
        "https://[::1",
        "https://host/" + "a" * 2100,
    ],
)
def test_only_a_web_address_is_passed_on(address: str | None) -> None:
    """`corral open` and the dashboard hand it to a browser."""
    assert web_address(address) is None


def test_what_cannot_be_used_is_left_out() -> None:
    """A password with a line break would answer two prompts."""
    access = MachineAccess(
        ssh_command="ssh -p 7 root@h",
        ssh_password="pass\nword",
        web_terminal_address="https://t.example/?token=1",
        web_terminal_username="root",
        web_terminal_password=" spaces stay ",
        jupyter_address="ftp://x",
    )
    found = credentials(access)

    assert (found.ssh, found.ssh_password) == (SshTarget(user="root", host="h", port=7), None)
    assert found.web_terminal_address == "https://t.example/?token=1"
    assert (found.web_terminal_username, found.web_terminal_password) == ("root", " spaces stay ")
    assert (found.jupyter_address, found.is_empty) == (None, False)
    assert credentials(MachineAccess(ssh_password="x")).is_empty
    assert "spaces stay" not in repr(found) + repr(access)
