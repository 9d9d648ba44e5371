"""Settings: read from three places, and every mistake reported at once."""

from __future__ import annotations

import pytest

from corral.base.settings.configuration import load, secret_files
from corral.domain.errors import SettingsError


def test_the_command_line_beats_the_environment_beats_the_file() -> None:
    """The nearer to the person, the stronger."""
    dotenv = "PORT=1\nHOST=localhost\nLOG_LEVEL=error\n# a comment\n"
    loaded = load({"PORT": "2", "HOST": "127.0.0.2"}, dotenv=dotenv, command_line={"PORT": "3"})
    origins = {shown.name: shown.origin for shown in loaded.shown}

    assert (loaded.settings.http.port, loaded.settings.http.host, loaded.settings.log.level) == (
        3,
        "127.0.0.2",
        "error",
    )
    assert (origins["PORT"], origins["HOST"], origins["LOG_LEVEL"], origins["REQUEST_TIMEOUT"]) == (
        "command line",
        "environment",
        ".env",
        "default",
    )


def test_every_bad_setting_is_named_with_its_value_and_what_is_accepted() -> None:
    """Eight mistakes are found in one start, not in eight."""
    bad = {
        "PORT": "http",
        "LOG_LEVEL": "loud",
        "MAX_CONCURRENT_JOBS": "1000",
        "NOVITA_API_BASE_URL": "ftp://example",
        "NOVITA_RATE_LIMIT_PER_MINUTE": "many",
        "CORRAL_ORPHANS": "ignore",
        "ENABLE_COMPREHENSIVE_LISTING": "perhaps",
        "CORRAL_REGIONS": " , ",
    }
    with pytest.raises(SettingsError) as caught:
        load(bad)

    assert sorted(caught.value.message.splitlines()) == [
        "CORRAL_ORPHANS='ignore': accepted is one of report, delete",
        "CORRAL_REGIONS=' , ': accepted is a comma-separated list",
        "ENABLE_COMPREHENSIVE_LISTING='perhaps': accepted is true or false",
        "LOG_LEVEL='loud': accepted is one of debug, info, warning, error",
        "MAX_CONCURRENT_JOBS='1000': accepted is a whole number from 1 to 100",
        "NOVITA_API_BASE_URL='ftp://example': accepted is an https:// address, or http:// on this machine",
        "NOVITA_RATE_LIMIT_PER_MINUTE='many': accepted is auto, or a whole number from 1 to 100000",
        "PORT='http': accepted is a whole number from 0 to 65535",
    ]


def test_a_bad_secret_is_named_but_not_quoted() -> None:
    """Error messages end up in logs and tickets."""
    with pytest.raises(SettingsError) as caught:
        load({"WEBHOOK_SECRET": "hunter2"})

    assert "WEBHOOK_SECRET" in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    "address",
    [
        "http://api.novita.ai/gpu-instance/openapi",
        "https://user:hunter2@api.novita.ai/openapi",
        "https://hunter2@api.novita.ai/openapi",
        "https://api.novita.ai:99999/openapi",
        "https://api.novita.ai:http/openapi",
        "https://[api.novita.ai/openapi",
        "https:///openapi",
        "https://api.novita.ai/open api",
        "http://127.0.0.1.example.com/openapi",
    ],
)
def test_the_key_travels_only_encrypted_and_to_a_whole_address(address: str) -> None:
    """The key is in every request: plain HTTP shows it to everyone on the way, and a bad address fails every call."""
    with pytest.raises(SettingsError, match="NOVITA_API_BASE_URL") as caught:
        load({"NOVITA_API_BASE_URL": address})

    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1:8080", "[::1]:8080"])
def test_a_provider_on_this_machine_may_speak_plain_http(host: str) -> None:
    """The simulator does."""
    address = f"http://{host}/gpu-instance/openapi"

    assert load({"NOVITA_API_BASE_URL": address}).settings.provider.base_url == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOVITA_API_KEY", "sk-secret\n"),
        ("NOVITA_API_KEY", "sk-\rsecret"),
        ("NOVITA_API_KEY", "sk secret"),
        ("NOVITA_API_KEY", "sk-secret\u00e9"),
        ("WEBHOOK_SECRET", "secret-\x00-secret"),
        ("DATABASE_URL", "postgresql://u:secret@db/corral\n"),
        ("DATABASE_URL", "mysql://u:secret@db/corral"),
        ("DATABASE_URL", "db.example secret"),
        ("HOST", "local\thost"),
        ("WEBHOOK_URL", "https://hooks.example/secret\n"),
        ("WEBHOOK_URL", "https://hooks.example:port/secret"),
        ("CORRAL_DATA_DIR", "data\x00dir"),
    ],
)
def test_a_value_that_would_fail_every_use_is_refused_at_the_start(name: str, value: str) -> None:
    """A key with a newline raised an error in every call to the provider, and ended one worker after another."""
    with pytest.raises(SettingsError, match=name) as caught:
        load({name: value})

    assert "secret-" not in caught.value.message
    assert "secret@" not in caught.value.message
    assert "/secret" not in caught.value.message


@pytest.mark.parametrize(
    "origin", ["https://ops.example/", "https://ops.example/page", "ops.example", "https://Ops.example", "https://"]
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    """It would match nothing, and the page would be refused without a word about the setting."""
    with pytest.raises(SettingsError, match=r"ALLOWED_ORIGINS=.*as in https://ops.example"):
        load({"ALLOWED_ORIGINS": f"https://other.example:8443,{origin}"})


def test_a_bad_value_is_refused_also_where_a_stronger_one_stands() -> None:
    """`PORT=x` with `--port` is a mistake that the next start without the option would meet."""
    with pytest.raises(SettingsError) as caught:
        load({"PORT": "x"}, dotenv="PORT=y\nLOG_LEVEL=loud\n", command_line={"PORT": "3000"})

    assert sorted(caught.value.message.splitlines()) == [
        "LOG_LEVEL='loud': accepted is one of debug, info, warning, error",
        "PORT='x': accepted is a whole number from 0 to 65535",
        "PORT='y': accepted is a whole number from 0 to 65535",
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example/services/T0/B0/token", "https://hooks.example/********"),
        ("https://hooks.example:8443?token=abc", "https://hooks.example:8443/********"),
        ("https://user:token@hooks.example/", "https://hooks.example/"),
        ("http://10.0.0.1", "http://10.0.0.1"),
    ],
)
def test_a_webhook_address_is_shown_without_its_token(url: str, shown: str) -> None:
    """Many receivers know their senders by a token in the address."""
    loaded = load({"WEBHOOK_URL": url})
    values = {setting.name: setting.value for setting in loaded.shown}

    assert values["WEBHOOK_URL"] == shown
    assert loaded.settings.webhooks.url == url


@pytest.mark.parametrize(
    ("name", "hint"),
    [("CORRAL_REGION", "did you mean CORRAL_REGIONS?"), ("CORRAL_ZZZ", "`corral config` lists all settings")],
)
def test_an_unknown_name_of_ours_is_an_error(name: str, hint: str) -> None:
    """A typing mistake must not be a silent default; other programs' variables are none of our business."""
    with pytest.raises(SettingsError, match=name) as caught:
        load({name: "1", "PATH": "/bin", "CORRALLED": "yes"})

    assert hint in caught.value.message


def test_an_empty_value_counts_as_unset() -> None:
    """`WEBHOOK_URL=` in a file means: none."""
    loaded = load({"WEBHOOK_URL": "", "PORT": ""}, dotenv="NOVITA_API_KEY=\n")

    assert loaded.settings.webhooks.url is None
    assert loaded.settings.http.port == 3000
    assert loaded.settings.provider.api_key is None


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    """By their type, not by guessing from their name."""
    secrets = {
        "NOVITA_API_KEY": "sk-live-123",
        "WEBHOOK_SECRET": "whsec_c2VjcmV0",
        "DATABASE_URL": "postgresql://u:hunter2@db/corral",
    }
    loaded = load(secrets)
    shown = {setting.name: setting.value for setting in loaded.shown}

    assert {shown[name] for name in secrets} == {"********"}
    for secret in secrets.values():
        assert secret not in repr(loaded)


def test_every_setting_says_what_it_means_and_accepts() -> None:
    """`corral config` and the reference page have no empty cell."""
    for setting in load({}).shown:
        assert setting.meaning.endswith("."), setting.name
        assert setting.accepts, setting.name


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.2.3", False),
        ("corral.example", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    """Everything else needs keys."""
    assert load({"HOST": host}).settings.http.is_loopback is loopback


def test_a_secret_can_be_in_a_file() -> None:
    """The environment's path beats that of `.env`; only secrets have one, and the origin says where to look."""
    environ = {"NOVITA_API_KEY_FILE": "/run/key", "WEBHOOK_SECRET_FILE": "", "PORT_FILE": "/run/port"}
    dotenv = "NOVITA_API_KEY_FILE=/etc/key\nWEBHOOK_SECRET_FILE=/etc/hook\nDATABASE_URL_FILE=\n"
    loaded = load(environ, dotenv=dotenv, files={"NOVITA_API_KEY": "sk-live-123"})

    assert secret_files(environ, dotenv=dotenv) == {"NOVITA_API_KEY": "/run/key", "WEBHOOK_SECRET": "/etc/hook"}
    assert loaded.settings.provider.api_key is not None
    assert loaded.settings.provider.api_key.get_secret_value() == "sk-live-123"
    shown = {shown.name: shown for shown in loaded.shown}["NOVITA_API_KEY"]
    assert (shown.origin, "sk-live" in shown.value) == ("NOVITA_API_KEY_FILE", False)


def test_a_secret_in_a_file_and_in_the_environment_is_refused() -> None:
    """One of them may be the key of another account; and a bad one is not quoted."""
    with pytest.raises(SettingsError) as caught:
        load({"NOVITA_API_KEY": "sk-one"}, files={"NOVITA_API_KEY": "sk two"})

    assert caught.value.message.splitlines() == [
        "NOVITA_API_KEY and NOVITA_API_KEY_FILE are both set: unset one",
        "NOVITA_API_KEY=(secret, not shown): accepted is printable ASCII characters without spaces",
    ]
