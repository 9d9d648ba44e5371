"""
Keeps what belongs to the account out of a report.

Checks write only numbers, field names and single words. This is the second barrier: whatever the account's answers have
in a field that may hold a name, an id, an address or a secret is replaced wherever it occurs in a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from corral.domain.verification.evidence import AccountProbe, Evidence, ProviderAnswer
from corral.domain.verification.json_values import array, mapping

HIDDEN: Final = "(hidden)"
SHORTEST: Final = 4
"""A shorter value is not replaced: it would occur in ordinary words."""
_PUBLIC: Final = frozenset({
    AccountProbe.CLUSTERS, AccountProbe.PRODUCTS, AccountProbe.SPOT_PRODUCTS, AccountProbe.CLUSTER_PRODUCTS,
    AccountProbe.TEMPLATES, AccountProbe.TEMPLATES_PAGE_0, AccountProbe.TEMPLATES_PAGE_1, AccountProbe.TEMPLATE,
})  # fmt: skip
"""What every account sees the same."""
_PRIVATE_FIELDS: Final = frozenset({
    "id", "name", "password", "username", "value", "key", "sshcommand", "address", "endpoint", "imageurl", "image",
    "command", "entrypoint", "systemlogaddress", "instancelogaddress", "ip", "storageid", "storagename", "instanceid",
    "mountpath", "imageauth", "imageauthid", "networkid", "message", "ownerid",
})  # fmt: skip
"""Fields, in lower case, that may hold what belongs to the account."""


def private_texts(evidence: Evidence, *, api_key: str) -> frozenset[str]:
    """Everything in *evidence* that no report may show, and the key."""
    public = {id(evidence.answers[probe]) for probe in _PUBLIC if probe in evidence.answers}
    found = {api_key, *_asked(evidence.every)}
    for answer in evidence.every:
        if id(answer) not in public:
            found.update(_texts(answer.content))
    return frozenset(text for text in found if len(text) >= SHORTEST)


def redacted(text: str, private: Iterable[str]) -> str:
    """*text* without any of *private*; the longest first, so that no rest of one is left."""
    for secret in sorted(private, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _asked(answers: Iterable[ProviderAnswer]) -> Iterator[str]:
    for answer in answers:
        for name in ("name", "instanceId"):
            if name in answer.asked:
                yield answer.asked[name]


def _texts(value: object, field: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if field.lower() in _PRIVATE_FIELDS:
            yield value
    elif isinstance(value, dict):
        for name, inner in mapping(value).items():
            yield from _texts(inner, name)
    elif isinstance(value, list):
        for inner in array(value):
            yield from _texts(inner, field)
