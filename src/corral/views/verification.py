"""The report of `corral verify`: nothing in it belongs to the account, so that it can be attached to an issue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.domain.timing import iso
from corral.domain.verification.judge import Agreement, CheckFinding
from corral.domain.verification.redaction import redacted
from corral.domain.verification.trial_plan import TRIAL_SECONDS, TrialOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What was found, and where."""

    version: str
    at: datetime
    provider: str
    """The host of the provider, or that it is the simulator."""
    calls: int
    findings: Sequence[CheckFinding]
    offer: TrialOffer | None = None
    """The product of the trial machine; None without a trial."""

    @property
    def needs_action(self) -> bool:
        """Whether anything differs that Corral does not cope with."""
        return any(finding.needs_action for finding in self.findings)


def verification_view(report: VerificationReport, private: Collection[str]) -> dict[str, object]:
    """The report as JSON, without anything of *private*."""
    counts = Counter(finding.agreement for finding in report.findings)
    return {
        "version": report.version,
        "at": iso(report.at),
        "provider": report.provider,
        "calls": report.calls,
        "trial": None if report.offer is None else _trial(report.offer),
        "holds": counts[Agreement.HOLDS],
        "differs": counts[Agreement.DIFFERS],
        "notSeen": counts[Agreement.NOT_SEEN],
        "needsAction": report.needs_action,
        "findings": [_finding(finding, private) for finding in report.findings],
    }


def _finding(finding: CheckFinding, private: Collection[str]) -> dict[str, object]:
    check = finding.check
    return {
        "check": check.id,
        "result": finding.agreement.value,
        "seen": redacted(finding.seen, private),
        "assumed": check.assumes,
        "otherwise": check.otherwise,
        "setting": check.setting,
        "needsAction": finding.needs_action,
    }


def _trial(offer: TrialOffer) -> dict[str, object]:
    return {
        "product": offer.product_name,
        "usdPerHour": offer.micro_usd / 1_000_000,
        "mostSeconds": TRIAL_SECONDS,
        "mostUsd": offer.most_micro_usd / 1_000_000,
    }
