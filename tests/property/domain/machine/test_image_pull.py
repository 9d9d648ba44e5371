"""The progress of a pull: read from docker's lines, whatever else is in the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.machine.image_pull import PullProgress, pull_progress

A, B, C = "a1b2c3d4e5f6", "0123456789ab", "fedcba987654"
IDS = st.sampled_from([A, B, C])
STATES = st.sampled_from(
    [
        "Pulling fs layer", "Waiting", "Verifying Checksum", "Download complete", "Pull complete", "Already exists",
        "Downloading [==>  ] 12.3MB/345.6MB", "Downloading 345.6MB/345.6MB", "Downloading 9GB/1kB", "Extracting 1B/2B",
        "Downloading [>] 999999999.9TB/999999999TB", "Downloading 0B/0B", "Retrying in 3 seconds", "Downloading x/y",
    ]
)  # fmt: skip
LINES = st.one_of(
    st.tuples(IDS, STATES).map(": ".join),
    st.sampled_from(["latest: Pulling from acme/app", "Digest: sha256:00", "Status: Downloaded newer image", "2030 x"]),
    st.text(max_size=40),
)


@given(st.lists(LINES, max_size=40).map("\n".join) | st.text())
def test_any_text_gives_numbers_that_agree(log: str) -> None:
    """It never raises; nothing is above its total."""
    found = pull_progress(log)

    assert 0 <= found.layers_complete <= found.layers
    assert 0 <= found.bytes_done <= found.bytes_total
    assert found.percent is None or 0 <= found.percent <= 100
    assert (found.percent == 100) is (bool(found.line) and not found.pulling)
    assert len(found.line) <= 200


@given(st.lists(st.tuples(IDS, STATES).map(": ".join), max_size=20), st.integers(0, 20))
def test_other_lines_change_nothing(lines: list[str], at: int) -> None:
    """What a container prints is no layer."""
    other = ["2030-01-01T00:00:00Z Container started", "error: 12.3MB/345.6MB", "sha256:abc: what"]
    assert pull_progress("\n".join(lines[:at] + other + lines[at:])) == pull_progress("\n".join(lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], (False, 0, 0, 0, 0, None)),
        (["2030-01-01T00:00:00.000+00:00 latest: Pulling from acme/app"], (True, 0, 0, 0, 0, None)),
        ([f"{A}: Pulling fs layer", f"{B}: Already exists"], (True, 2, 1, 0, 0, 50.0)),
        ([f"2030-01-01 {A}: Downloading [=>  ]  50MB/100MB"], (True, 1, 0, 50_000_000, 100_000_000, 50.0)),
        ([f"{A}: Downloading 50MB/100MB", f"{B}: Waiting"], (True, 2, 0, 50_000_000, 100_000_000, 25.0)),
        ([f"{A}: Downloading 50MB/100MB", f"{B}: Already exists"], (True, 2, 1, 50_000_000, 100_000_000, 50.0)),
        ([f"{A}: Downloading 1MiB/2MiB", f"{A}: Download complete"], (True, 1, 0, 2 * 2**20, 2 * 2**20, 99.0)),
        ([f"{A}: Downloading 1kB/2kB", f"{A}: Pull complete"], (True, 1, 1, 2000, 2000, 99.0)),
        ([f"{A}: Downloading 1kB/2kB", f"{A}: Retrying in 5 seconds"], (True, 1, 0, 0, 2000, 0.0)),
        ([f"{A}: Downloading 1kB/2kB", "Digest: sha256:aa"], (False, 1, 0, 1000, 2000, 100.0)),
        (["Digest: sha256:aa", "b: Pulling from acme/b", f"{C}: Waiting"], (True, 1, 0, 0, 0, 0.0)),
        (["Status: Image is up to date for acme/app:1"], (False, 0, 0, 0, 0, 100.0)),
    ],
)
def test_the_last_line_of_each_layer_counts(lines: list[str], expected: tuple[object, ...]) -> None:
    """And the last pull of the log."""
    found = pull_progress("\n".join(lines))
    assert _numbers(found) == expected
    assert found.line == (lines[-1] if lines else "")


def _numbers(found: PullProgress) -> tuple[object, ...]:
    return (
        *(found.pulling, found.layers, found.layers_complete, found.bytes_done, found.bytes_total),
        found.percent,
    )
