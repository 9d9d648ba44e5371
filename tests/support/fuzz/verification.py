"""What the provider answers to `corral verify`: any JSON is a finding, in our words."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Final

from corral.cloud.novita.http import RawResponse
from corral.cloud.novita.raw import provider_answer
from corral.domain.verification.evidence import AccountProbe, Evidence, Expected, Look, PastTrial, Stage, Trial
from corral.domain.verification.judge import LONGEST, judged
from corral.domain.verification.redaction import private_texts, redacted
from corral.domain.verification.table import CHECKS
from corral.domain.verification.trial_plan import cheapest
from support.clock.clocks import SteppedClock
from support.fuzz.laws import hidden
from support.fuzz.target import headed, status_in

_CLOCK: Final = SteppedClock()
_SECRETS: Final = ("password", "username", "value", "sshCommand")
_SHOWN: Final = re.compile(r"[\x20-\x7e]*")


def read_answers(data: bytes) -> None:
    """One answer to every call: each check has a finding of one line, and no secret of the answer is in it."""
    words, body = headed(data, "200")
    found = RawResponse(
        status=status_in(words[0]), headers={"Retry-After": words[-1]}, content=body, provider_time=_CLOCK.now()
    )
    answer = provider_answer(found, {"name": "corral", "instanceId": "5be2c7d10f9a4436"}, _CLOCK)
    looks = tuple(Look(stage=stage, seconds=5.0, got=answer, by_name=True) for stage in Stage)
    content = answer.content if isinstance(answer.content, dict) else {}
    trial = Trial(
        name="corral-verify-abcdef-01234567",
        sent_at=_CLOCK.now(),
        refused=answer,
        created=answer,
        provider_id="5be2c7d10f9a4436",
        started_twice=answer,
        stopped=answer,
        started=answer,
        deleted=answer,
        looks=looks,
        gone_seconds=3.0,
        listed_after=content,
    )
    evidence = Evidence(
        answers=dict.fromkeys(AccountProbe, answer),
        every=(answer,),
        expected=Expected(regions=("CN-HK-01",), settle=timedelta(seconds=60)),
        trial=trial,
        past_trial=PastTrial(
            provider_id="5be2c7d10f9a4436", micro_usd=210_000, sent_at=_CLOCK.now(), gone_at=_CLOCK.now()
        ),
    )
    private = private_texts(evidence, api_key="sk_planted")
    findings = judged(CHECKS, evidence)
    shown = [redacted(finding.seen, private) for finding in findings]
    assert all(0 < len(finding.seen) <= LONGEST for finding in findings)
    assert all(_SHOWN.fullmatch(text) for text in shown)
    offered = content.get("data")
    cheapest([item for item in offered if isinstance(item, dict)] if isinstance(offered, list) else [])
    together = " ".join(shown)
    for secret in hidden(json.loads(json.dumps(answer.content)), *_SECRETS):
        assert secret not in together, f"a secret is reported: {secret}"
