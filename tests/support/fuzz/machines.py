"""What machines and the provider write about them: logs, ssh commands, addresses, the progress of pulls."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from corral.cloud.novita import measurements, wire
from corral.domain.machine.access import ssh_target, web_address
from corral.domain.machine.image_pull import pull_progress
from corral.domain.machine.log_text import LONGEST_LINE, LogText
from corral.domain.machine.utilization import period
from corral.outbound.provider_hosts import ProviderHosts

_SAFE = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]*")
_PERIOD = period(datetime(2030, 1, 1, tzinfo=UTC), timedelta(hours=1))
_HOSTS = ProviderHosts("https://api.novita.ai/gpu-instance/openapi")


def read_log(data: bytes) -> None:
    """A log in whatever pieces: the same text without control characters, and a progress whose numbers agree."""
    whole = LogText()
    text = whole.add(data) + whole.end()
    parts, pieces, step = LogText(), list[bytes](), max(1, len(data) // 13)
    for at in range(0, len(data), step):
        pieces.append(parts.add(data[at : at + step]))
    assert b"".join([*pieces, parts.end()]) == text
    assert _SAFE.fullmatch(text.decode())
    assert all(len(line) <= LONGEST_LINE for line in text.split(b"\n"))
    found = pull_progress(text.decode())
    assert 0 <= found.layers_complete <= found.layers
    assert 0 <= found.bytes_done <= found.bytes_total


def read_measurements(data: bytes) -> None:
    """The provider's measurements: those in range, in order."""
    try:
        seen = msgspec.json.decode(data, type=wire.Measurements)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    found = measurements.utilization(seen, _PERIOD)
    for series in (found.gpu, found.gpu_memory, found.cpu, found.memory, found.disk, *(one.gpu for one in found.gpus)):
        assert all(0 <= sample.value <= 100 for sample in series)
        assert [sample.at for sample in series] == sorted({sample.at for sample in series})


def read_login(data: bytes) -> None:
    """An ssh command or an address, one on each line: safe, or refused."""
    for line in data.decode("utf-8", "replace").split("\n"):
        target = ssh_target(line)
        assert target is None or ssh_target(target.command) == target
        assert target is None or not target.host.startswith("-")
        address = web_address(line)
        assert address is None or address.lower().startswith(("http://", "https://"))
        allowed = _HOSTS.address(line)
        assert allowed is None or (allowed.host or "").removesuffix(".").endswith("novita.ai")
        assert allowed is None or (allowed.scheme, allowed.user) == ("https", None)
