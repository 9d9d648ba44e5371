"""What a person can do about a failed instance, by the code of its failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEXT_STEPS: Final[Mapping[str, str]] = {
    "NOVITA_API_ERROR": "the provider did not carry out the call: see with `corral doctor`, and on the provider's "
    "status page, whether it has an outage",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "see what is for sale with `corral products`; allow more with another --region, "
    "a higher --max-price or --on-demand",
    "RESOURCE_CONSTRAINTS": "the provider has no such GPU left there: try again later, or another product or --region",
    "INSUFFICIENT_BALANCE": "top up the account at the provider, then create it again",
    "AUTHENTICATION_FAILED": "NOVITA_API_KEY was refused: check it, and restart the service",
    "REGISTRY_AUTH_NOT_FOUND": "the template's image needs a registry login the account does not have: add it there",
    "PROVISIONING_FAILED": "the provider could not make it run: check the template's image and command, "
    "delete this one with `corral rm`, and create it again",
    "STARTUP_TIMEOUT": "it took too long to start: a large image may need a longer INSTANCE_STARTUP_MAX_WAIT_TIME",
    "STARTUP_FAILED": "see the events below for what the provider said, then try again",
    "HEALTH_CHECK_FAILED": "the machine runs, but what should answer on its ports does not: it is checked again, ever "
    "more rarely, and becomes ready when it answers; restart it, or look at it in the provider's console",
    "HEALTH_CHECK_TIMEOUT": "the machine runs, but what should answer on its ports did not in time: it is checked "
    "again, ever more rarely, and becomes ready when it answers; allow more with HEALTH_CHECK_MAX_WAIT_TIME_MS",
    "SPOT_RECLAIMED": "the provider took the spot machine back: start it with `corral start`, or create another; "
    "its disk is kept for some days only",
    "INSTANCE_VANISHED": "the provider lists it no more (spot instances can be taken back): create it again",
}


def next_step(code: str) -> str | None:
    """What can be done about a failure with *code*, if anything is known."""
    return NEXT_STEPS.get(code)
