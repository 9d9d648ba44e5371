"""Harm from outside: a provider with a wrong list, and a receiver that hangs."""

from __future__ import annotations

from support.chaos.rules import Field

FAULTS = {"refuse": 0.03, "error_500": 0.02, "lost_reply": 0.02, "500_but_created": 0.02, "throttle": 0.01}
"""Together one call in ten goes wrong, throughout the attack."""
LIE = (5.0, 40.0)
"""Shorter than the minute within which a machine is assumed to show in the list."""
LIES: tuple[dict[str, object], ...] = ({"list_shows": "nothing"}, {"list_shows": "half"}, {"list_age_seconds": 20})
TRUTH: dict[str, object] = {"list_shows": "all", "list_age_seconds": 0}
HANG = (5.0, 20.0)


async def set_faults(field: Field, *more: dict[str, object]) -> None:
    """Let the provider fail as it does throughout the attack, and in *more* ways, which come first."""
    await field.http.sim("DELETE", "/_sim/fault")
    usual: list[dict[str, object]] = [{"fault": name, "probability": chance} for name, chance in FAULTS.items()]
    for fault in (*more, *usual):
        await field.http.sim("POST", "/_sim/fault", {"count": None, **fault})


async def lie(field: Field) -> None:
    """The list leaves machines out, or shows the account as it was; lookups by id stay true."""
    await field.http.sim("POST", "/_sim/settings", field.dice.choice(LIES))
    await field.spell(*LIE)
    await field.http.sim("POST", "/_sim/settings", TRUTH)


async def hang_receiver(field: Field) -> None:
    """The receiver of most webhooks takes them and does not answer."""
    receiver = field.installation.receiver
    receiver.answers.clear()
    await field.spell(*HANG)
    receiver.answers.set()
