"""Which faults strike which calls."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from novitasim.faults.faults import MEANING, Facts, Fault, FaultError, Rule, read, strike

CREATE = Facts("create", "corral-7-a1")
ENDPOINTS = ("create", "get", "list")


def always() -> float:
    return 0.0


def test_a_rule_strikes_its_call_as_often_as_it_says() -> None:
    rules = [Rule(fault=Fault.ERROR_500, on="create", count=2)]
    hits = []
    for facts in (Facts("list"), CREATE, CREATE, CREATE):
        struck, rules = strike(rules, facts, always)
        hits.append(len(struck))

    assert hits == [0, 1, 1, 0]
    assert rules == []


def test_without_a_count_a_rule_stays() -> None:
    rule = Rule(fault=Fault.ERROR_500, count=None)

    assert strike([rule], CREATE, always) == ([rule], [rule])


def test_a_name_pattern_limits_a_rule_to_calls_about_such_instances() -> None:
    rule = Rule(fault=Fault.LOST_REPLY, name="^corral-7-")

    assert strike([rule], CREATE, always)[0] == [rule]
    assert strike([rule], Facts("create", "corral-8-a1"), always)[0] == []
    assert strike([rule], Facts("list"), always)[0] == []


def test_only_one_ending_strikes_while_latency_and_harm_join_it() -> None:
    lost, late, error, gone = (
        Rule(fault=fault) for fault in (Fault.LOST_REPLY, Fault.LATENCY, Fault.ERROR_500, Fault.VANISH)
    )

    struck, left = strike([lost, late, error, gone], CREATE, always)

    assert struck == [lost, late, gone]
    assert left == [error]


def test_probability_is_the_share_of_calls_and_repeats_with_the_seed() -> None:
    def hits(seed: int) -> int:
        dice, rules = Random(seed), [Rule(fault=Fault.REFUSE, count=None, probability=0.3)]  # noqa: S311  # repeatable on purpose
        return sum(len(strike(rules, CREATE, dice.random)[0]) for _ in range(2000))

    assert hits(3) == hits(3)
    assert 500 < hits(3) < 700


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"fault": "explode"}, "no fault is called 'explode'; there are: refuse"),
        ({}, "no fault is called None"),
        ({"fault": "refuse", "on": "birth"}, r"no call is named 'birth'; there are: \*, create, get, list"),
        ({"fault": "refuse", "often": 3}, "a fault has no often; it has: count"),
        ({"fault": "refuse", "count": 0}, "count cannot be 0"),
        ({"fault": "refuse", "probability": 2}, "probability cannot be 2; accepted: a number from 0 to 1"),
        ({"fault": "refuse", "name": "("}, "accepted: a regular expression"),
        ({"fault": "throttle", "retry_after": "soon"}, "accepted: none, seconds, date"),
        ({"fault": "latency", "seconds": "long"}, "seconds cannot be 'long'"),
    ],
)
def test_the_error_for_a_bad_fault_says_what_is_accepted(raw: dict[str, Any], words: str) -> None:
    with pytest.raises(FaultError, match=words):
        read(raw, ENDPOINTS)


def test_list_lag_applies_to_creates_by_default() -> None:
    assert read({"fault": "list_lag"}, ENDPOINTS).on == "create"


def test_every_fault_has_a_meaning() -> None:
    assert set(MEANING) == set(Fault)
