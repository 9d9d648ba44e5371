"""A reader with a mistake in it, to see that the drivers of the targets find one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from support.fuzz.target import Target


def read_total(data: bytes) -> None:
    """As one might read a page of a list: what is no JSON is refused, and a total is believed to be a number."""
    try:
        page: dict[str, Any] = msgspec.json.decode(data.partition(b"\n")[2], type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if "instances" in page and "total" in page:
        int(page["total"])


PLANTED: Final = Target(name="planted", read=read_total)
