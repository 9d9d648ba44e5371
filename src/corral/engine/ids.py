"""The ids of instances and operations: unique, and not guessable."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from corral.domain.errors import GoalRefusedError, NotFoundError

LENGTH: Final = 20
"""Characters; 36 ** 20 names, so that not even all instances of all time are likely to share one."""
LONGEST: Final = 255
"""Characters of any id, ours or the provider's."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_DIGIT_OF: Final = bytes(ord(_DIGITS[byte % 36]) for byte in range(256))
_UNEVEN: Final = bytes(range(252, 256))
"""With these values of a byte, some digits would be more likely than others."""


def _chance() -> Iterator[str]:
    """Random names without end; the system is asked for many at once, because each asking has its price."""
    while True:
        digits = secrets.token_bytes(4096).translate(_DIGIT_OF, _UNEVEN).decode()
        yield from (digits[at : at + LENGTH] for at in range(0, len(digits) - LENGTH + 1, LENGTH))


_names: Final = _chance()


def random_id() -> str:
    """Twenty random digits and small letters."""
    return next(_names)


def is_id(text: str) -> bool:
    """Whether *text* may be an id at all; PostgreSQL, for one, cannot even be asked for one with a NUL in it."""
    return 1 <= len(text) <= LONGEST and text.isprintable()


def no_such_instance(instance_id: str) -> NotFoundError:
    """Nothing is known by that id."""
    return NotFoundError(f"there is no instance {instance_id[:60]!r}", code="INSTANCE_NOT_FOUND")


def name_ambiguous(name: str, which: Mapping[str, Sequence[str]]) -> GoalRefusedError:
    """Several have that name, and none is guessed."""
    count = sum(len(ids) for ids in which.values())
    return GoalRefusedError(
        f"{count} instances are called {name[:60]!r}: use an id", code="NAME_AMBIGUOUS", details=which
    )


def no_instance_named(name: str) -> NotFoundError:
    """Nothing live is known by that name."""
    return NotFoundError(f"there is no live instance called {name[:60]!r}", code="INSTANCE_NOT_FOUND")
