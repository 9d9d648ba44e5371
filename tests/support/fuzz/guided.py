"""
One target under atheris, in a process of its own: libFuzzer ends the process when it is done or finds something.

Run by `support.fuzz`: `python -m support.fuzz.guided TARGET DIRECTORY [options and directories of libFuzzer]`. An input
that breaks something is left in the directory.
"""

from __future__ import annotations

import hashlib
import logging
import random
import sys
from pathlib import Path

import atheris
import structlog

from support.fuzz.mutation import MOST_BYTES, changed

OURS = ["corral", "corral_client", "support.fuzz.planted"]
"""The packages with lines that count as reached; those of libraries would lead away from ours."""
SHARE_OF_OURS = 0.5
"""Of the changes; libFuzzer's own know what comparisons an input nearly passed."""


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """*data*, changed in one of our ways or in libFuzzer's."""
    dice = random.Random(seed)  # noqa: S311  # repeatable on purpose
    if dice.random() < SHARE_OF_OURS:
        return changed(data, dice)[:most]
    return bytes(atheris.Mutate(data, most))


def main() -> None:
    """Drive the target that the first argument names."""
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with atheris.instrument_imports(include=OURS):
        from support.fuzz.planted import PLANTED  # noqa: PLC0415  # while imports are watched
        from support.fuzz.targets import TARGETS  # noqa: PLC0415
    name, place, *options = sys.argv[1:]
    target = PLANTED if name == PLANTED.name else TARGETS[name]

    def read(data: bytes) -> None:
        try:
            target.read(data)
        except BaseException:
            # libFuzzer writes it too, but not if the interpreter ends first.
            (Path(place) / f"broken-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
            raise

    atheris.Setup([sys.argv[0], f"-max_len={MOST_BYTES}", *options], read, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
