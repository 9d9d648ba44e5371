"""What a person can do about an error, by its code; the codes are in `errors.py` and docs/reference/errors.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEXT_STEPS: Final[Mapping[str, str]] = {
    "NOVITA_API_ERROR": "The provider did not carry out the call: look for an outage with `corral doctor` and on the "
    "provider's status page.",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "Allow more: another product, more regions, on-demand billing or a higher limit "
    "on the price.",
    "RESOURCE_CONSTRAINTS": "The provider has no such GPU free there: try again later, or choose another region or "
    "product.",
    "INSUFFICIENT_BALANCE": "Top up the account at the provider, then create it again.",
    "AUTHENTICATION_FAILED": "The provider refused the key: set a valid NOVITA_API_KEY and restart Corral.",
    "REGISTRY_AUTH_NOT_FOUND": "The template's image needs a registry login that the account does not have: add it at "
    "the provider.",
    "ACCOUNT_NOT_LISTED": "Check with `corral doctor` whether the provider responds, then create it again.",
    "PRODUCT_NOT_FOUND": "Choose a product that `corral products` lists.",
    "TEMPLATE_NOT_FOUND": "Choose a template that exists at the provider.",
    "INVALID_TEMPLATE": "Correct the template at the provider, then create it again.",
    "PROVISIONING_FAILED": "The provider could not make it run: check the template's image and command, then delete "
    "this instance and create another.",
    "STARTUP_TIMEOUT": "It is still watched and may yet come up; delete it to stop paying. A large image may need a "
    "longer INSTANCE_STARTUP_MAX_WAIT_TIME.",
    "STARTUP_FAILED": "See its events for what the provider reported, then start it again or delete it.",
    "HEALTH_CHECK_FAILED": "It runs, but its ports do not respond as they should: it is checked again, ever more "
    "rarely, and becomes ready when they do. Restart it, or look at it in the provider's console.",
    "HEALTH_CHECK_TIMEOUT": "It runs, but its ports did not respond in time: it is checked again, ever more rarely, "
    "and becomes ready when they do. Allow more time with HEALTH_CHECK_MAX_WAIT_TIME_MS.",
    "SPOT_RECLAIMED": "The provider took the spot machine back: start it again, or create another. Its disk is kept "
    "for some days only.",
    "INSTANCE_VANISHED": "The provider no longer lists it: delete it here and create another.",
}
FOR_OTHER_FAILURES: Final = "See its events for the cause; delete it to stop paying."


def next_step(code: str) -> str | None:
    """What can be done about an error with *code*; None when there is no advice beyond its message."""
    return NEXT_STEPS.get(code)


def failure_next_step(code: str) -> str:
    """What can be done about an instance or operation that failed with *code*."""
    return NEXT_STEPS.get(code, FOR_OTHER_FAILURES)
