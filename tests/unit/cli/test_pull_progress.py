"""The pull of an image on the line that is shown during a wait."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.sdk_models import an_instance

from corral.base.clock import SystemClock
from corral.cli.pull_progress import pull_line, size
from corral.cli.waiting import LiveLine
from corral_client import Aim, ImagePull, Progress

NOW = datetime(2030, 1, 10, tzinfo=UTC)


def progress(status: str) -> Progress:
    return Progress(instance=an_instance(status=status), reason="the provider boots it")


@pytest.mark.parametrize(
    ("pull", "said"),
    [
        (ImagePull(pulling=True, layers=7, layers_complete=2), "pulling the image: 2 of 7 layers"),
        (
            ImagePull(
                pulling=True,
                layers=7,
                layers_complete=2,
                bytes_done=123_400_000,
                bytes_total=2_500_000_000,
                percent=4.9,
            ),
            "pulling the image: 2 of 7 layers, 123 MB of 2.5 GB (5 %)",
        ),
    ],
)
def test_the_line_says_how_far_the_pull_is(pull: ImagePull, said: str) -> None:
    """Bytes and percent only once they are known."""
    assert pull_line(pull) == said


def test_the_pull_takes_the_place_of_the_reason_while_it_lasts() -> None:
    """One line has room for one of them."""
    line = LiveLine(Aim.READY, SystemClock())
    line.show(progress("starting"))

    assert line.is_booting
    line.show_pull(ImagePull(pulling=True, layers=3, layers_complete=1))
    assert "1 of 3 layers" in line.line(progress("starting"), NOW).plain
    line.show_pull(ImagePull(pulling=False, layers=3, layers_complete=3))
    assert line.line(progress("starting"), NOW).plain.endswith("the provider boots it")
    line.show(progress("ready"))
    assert not line.is_booting


@pytest.mark.parametrize(("count", "said"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (345_600_000, "346 MB")])
def test_sizes_have_three_digits(count: int, said: str) -> None:
    """As the registry counts: in powers of a thousand."""
    assert size(count) == said
