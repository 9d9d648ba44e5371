"""The secrets of a create request: variables that are stored encrypted until it is created, and shown nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.container import MOST_ENVS
from corral.domain.placement.catalog import EnvironmentVariable
from corral.domain.requests.container import VARIABLES
from corral.domain.requests.fields import Field, Problems, problem

SECRETS = Field(
    "secrets",
    "INVALID_SECRETS",
    VARIABLES,
    f"Environment variables that no response, event, log or export shows; at most {MOST_ENVS} with those of `env` and "
    "of the template, and no name that `env` has. They are kept encrypted until the machine is created, and not "
    "after that: a request to create another like it has to give them again.",
    {"TOKEN": "…"},
    secret=True,
)


def secret_problems(secrets: Sequence[EnvironmentVariable], env: Sequence[EnvironmentVariable]) -> Problems:
    """What is wrong with *secrets* beside *env*, both valid by themselves."""
    problems: list[str] = []
    both = {each.key for each in secrets} & {each.key for each in env}
    if both:
        problems.append(f"must not have a name that env has: {', '.join(sorted(both)[:5])}")
    if len(secrets) + len(env) > MOST_ENVS:
        problems.append(f"with env there are {len(secrets) + len(env)} names, and {MOST_ENVS} are allowed")
    return (problem(SECRETS.name, SECRETS.code, "; ".join(problems)),) if problems else ()
