"""Lines of a log, from bytes that arrive in any pieces."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator
from typing import Final

LONGEST_LINE: Final = 65_536
"""
Characters, four times what the service sends on a line. Without a limit a stream without line ends would fill the
memory; with a smaller one a line of the service would be cut in two.
"""


async def lines_of(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[str]:
    """The lines of *pieces*, without line ends; one that is longer than LONGEST_LINE is cut into several."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    async for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        for line in lines:
            yield line.removesuffix("\r")
        while len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE]
            rest = rest[LONGEST_LINE:]
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest.removesuffix("\r")
