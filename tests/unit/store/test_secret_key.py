"""The key of secrets: its file, and what is sealed with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.base.settings.configuration import load
from corral.domain.errors import SettingsError
from corral.store.secrets.key_file import SecretKeyFile, is_too_open
from corral.store.secrets.sealing import SecretKey, UnsealError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    SecretKeyFile(path).load_or_create()
    return path


def test_the_settings_name_the_file(tmp_path: Path) -> None:
    """In the data directory, unless another is given."""
    own = load({"CORRAL_DATA_DIR": str(tmp_path)}).settings.store
    given = load({"CORRAL_SECRET_KEY_FILE": str(tmp_path / "given")}).settings.store

    assert SecretKeyFile.of(own).path == tmp_path / "secret.key"
    assert SecretKeyFile.of(given).path == tmp_path / "given"
    SecretKeyFile.of(own).check()
    with pytest.raises(SettingsError, match="does not exist"):
        SecretKeyFile.of(given).check()
    with pytest.raises(SettingsError, match="does not exist"):
        SecretKeyFile.of(given).load_or_create()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o666])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    """With the command that corrects it; also when the mode changes while the key is in memory."""
    key_file = SecretKeyFile(path)
    key_file.load()
    path.chmod(mode)

    with pytest.raises(SettingsError, match=f"mode {mode:o}.*chmod 600") as refused:
        key_file.load()
    assert refused.value.code == "SECRET_KEY_UNUSABLE"
    path.chmod(0o400)
    assert key_file.load() is not None


@pytest.mark.parametrize(
    ("mode", "owner", "reader", "expected"),
    [
        (0o400, 1000, 1000, False),
        (0o440, 1000, 1000, True),
        (0o440, 0, 0, True),
        (0o440, 0, 1000, False),
        (0o640, 0, 1000, False),
        (0o460, 0, 1000, True),
        (0o450, 0, 1000, True),
        (0o444, 0, 1000, True),
        (0o440, 1001, 1000, True),
    ],
)
def test_a_group_may_read_what_root_gives(mode: int, owner: int, reader: int, *, expected: bool) -> None:
    """Systemd and Kubernetes give an ordinary user a file of root's through its group."""
    assert is_too_open(mode, owner=owner, reader=reader) is expected


@pytest.mark.parametrize("content", [b"", b"short", b"A" * 43, b"A" * 60_000, b"\xff" * 44, b"A" * 42 + b"!="])
def test_a_file_without_a_key_is_refused_and_not_repeated(path: Path, content: bytes) -> None:
    """It may be another secret, given by mistake."""
    path.write_bytes(content)

    with pytest.raises(SettingsError, match="has no key in it") as refused:
        SecretKeyFile(path).load()
    assert not content or content.decode(errors="replace") not in refused.value.message


def test_a_directory_and_an_unusable_place_are_refused(tmp_path: Path) -> None:
    """In words, not with an exception of the system."""
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is not a file"):
        SecretKeyFile(tmp_path).load()
    with pytest.raises(SettingsError, match="cannot be created"):
        SecretKeyFile(tmp_path / "file" / "secret.key").load_or_create()


def test_another_key_in_the_file_is_used_at_once(path: Path) -> None:
    """An operator puts the right file in place while the service runs."""
    key_file = SecretKeyFile(path)
    before = key_file.load()
    other = path.with_name("other")
    SecretKeyFile(other).load_or_create()
    other.replace(path)
    after = key_file.load()

    assert before is not None
    assert after is not None
    assert before.id != after.id


def test_missing_keys_are_named(path: Path) -> None:
    """With how many creates wait for each."""
    key_file = SecretKeyFile(path)
    key = key_file.load()
    assert key is not None

    assert key_file.problem({}) is None
    assert key_file.problem({key.id: 3}) is None
    assert key_file.problem({key.id: 3, "0123": 2}) == (
        f"2 creates wait with secrets of key 0123, and {path} has key {key.id}"
    )
    path.unlink()
    assert key_file.problem({}) is None
    assert key_file.problem({"0123": 1}) == f"1 creates wait with secrets of key 0123, and {path} does not exist"


def test_only_the_same_key_and_instance_open_a_seal() -> None:
    """Two seals of the same values differ, so equal secrets of two instances cannot be seen to be equal."""
    key, values = SecretKey(b"k" * 32), {"TOKEN": "é\n", "EMPTY": ""}
    sealed, again = key.seal("inst_1", values), key.seal("inst_1", values)

    assert key.unseal(sealed) == values
    assert sealed.content != again.content
    for other, its in ((SecretKey(b"x" * 32), sealed), (key, key.seal("inst_2", values))):
        moved = type(sealed)(instance_id="inst_1", key_id=key.id, content=its.content)
        with pytest.raises(UnsealError):
            other.unseal(moved)


def test_no_text_of_a_key_or_a_seal_shows_its_content() -> None:
    """They may end up in a traceback."""
    key = SecretKey(b"k" * 32)
    sealed = key.seal("inst_1", {"TOKEN": "value"})

    assert "kkk" not in repr(key)
    assert repr(sealed.content) not in repr(sealed)
    assert key.id in repr(key)
