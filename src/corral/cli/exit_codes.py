"""Exit codes when a command fails, and messages when the service did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.cli.output import clock_time
from corral.domain import errors
from corral_client import (
    Ambiguous,
    ConnectionFailed,
    CorralApiError,
    CorralError,
    InstanceFailed,
    Invalid,
    NotFound,
    OutOfStock,
    Unauthorised,
    WaitTimeout,
)

INTERRUPTED: Final = 130
MACHINE_LEFT: Final = 5

EXIT_CODES: Final[Mapping[type[Exception], int]] = {
    # of the service's parts, in this process
    errors.CorralError: 1,
    errors.MalformedError: 2,
    errors.SettingsError: 2,
    errors.StoreError: 3,
    # of a service, through the SDK
    CorralError: 1,
    Invalid: 2,
    ConnectionFailed: 3,
    NotFound: 4,
    InstanceFailed: 5,
}
"""By the nearest class of the error."""

MEANINGS: Final[Mapping[int, str]] = {
    0: "it is done",
    1: "an error, explained in one sentence; also: not ready within `--timeout`; `doctor` or `verify` found something",
    2: "bad usage, a bad setting, a file that cannot be read, or a value the service does not accept",
    3: "the service or its database cannot be reached",
    4: "there is no such instance, product or template, or the product is sold out",
    MACHINE_LEFT: "the instance failed; `corral why NAME` says more; or `verify` may have left its machine behind",
    INTERRUPTED: "interrupted with Ctrl-C; the service continues what was started",
}


def exit_code(error: CorralError | errors.CorralError) -> int:
    """The exit code for *error*."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def explain(error: CorralError) -> str:
    """The message for *error*, with the next step where there is one."""
    match error:
        case ConnectionFailed():
            elsewhere = "`--url`, CORRAL_URL or `corral login` names another place"
            return f"{error.message}; is `corral serve` running there? {elsewhere}"
        case Unauthorised():
            return f"{error.message}; CORRAL_API_KEY or `corral login` gives the key that is sent"
        case Ambiguous():
            lines = "".join(
                f"\n  {i.id}  {i.status}  {i.region}  created {clock_time(i.created_at)}" for i in error.instances
            )
            return f"{len(error.ids)} instances are named {error.name!r}; use the id of the one you mean:{lines}"
        case OutOfStock():
            advice = "" if error.next_step is None else f"\n{error.next_step}"
            return f"{error.message}\nWait for stock with --until-available 2h. {advice.strip()}".rstrip()
        case CorralApiError():
            fields = "".join(f"\n  {each.field}: {each.message}" for each in error.validation_errors)
            advice = "" if error.next_step is None else f"\n{error.next_step}"
            return f"{error.message}{fields}{advice}"
        case InstanceFailed():
            return f"{error}\nMore: corral why {error.instance_id}"
        case WaitTimeout():
            return f"{error}; the service continues: corral wait {error.instance_id}"
        case _:
            return str(error)
