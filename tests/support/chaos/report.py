"""What a run saw, and what was wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Report:
    """Counts, ends and trouble of one run; no trouble means that every promise held."""

    seed: int
    strikes: Counter[str] = field(default_factory=Counter[str])
    """How often each rule struck."""
    requests: int = 0
    """Instances that were accepted with 201."""
    commands: int = 0
    """Starts, stops, restarts and deletes that were accepted."""
    refusals: int = 0
    events: int = 0
    deliveries: int = 0
    longest_gap: float = 0.0
    """The most seconds between two listings of the account."""
    ends: Counter[str] = field(default_factory=Counter[str])
    settled_after: float = 0.0
    trouble: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        lines = (
            (
                f"seed {self.seed}: {self.requests} requests, {self.commands} commands, {self.refusals} refused; "
                f"{self.events} events, {self.deliveries} deliveries"
            ),
            f"strikes: {dict(sorted(self.strikes.items()))}",
            (
                f"ends: {dict(self.ends)}; settled after {self.settled_after:.0f} s; longest gap between listings "
                f"{self.longest_gap:.0f} s"
            ),
            *(f"TROUBLE {what}" for what in self.trouble),
            "no trouble" if not self.trouble else f"{len(self.trouble)} in trouble",
        )
        return "\n".join(lines)
