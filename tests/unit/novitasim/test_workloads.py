"""How guests answer, without a socket."""

from __future__ import annotations

import pytest

from novitasim.settings import Settings, changed
from novitasim.workloads.behaviour import Workload, page, workload_of
from novitasim.world.instance import Env, Instance, Order


def named(name: str, reported: str | None = None) -> Instance:
    envs = (Env(key="SIM_GUEST", value=reported),) if reported is not None else ()
    order = Order(name=name, product_id="p", gpus=1, rootfs_gb=10, image="i", envs=envs)
    return Instance(id="i", seq=1, order=order, rate_e5=1, created_at=0, listed_at=0, found_at=0, course=())


def test_the_environment_counts_more_than_a_rule_and_a_rule_more_than_the_setting() -> None:
    chosen = changed(Settings(), {"guest": "login", "guest_rules": "^web-=slow:5;^db-=hang"})

    assert workload_of(named("web-1", "status:503"), chosen) == Workload("status", 503)
    assert workload_of(named("web-1"), chosen) == Workload("slow", 5)
    assert workload_of(named("db-1"), chosen) == Workload("hang")
    assert workload_of(named("other"), chosen) == Workload("login")
    assert workload_of(named("web-1", "nonsense"), chosen) == Workload("slow", 5)


@pytest.mark.parametrize(
    ("guest", "running_for", "status", "words"),
    [
        (Workload("healthy"), 0, 200, "It works"),
        (Workload("slow", 5), 4.9, 502, "Bad Gateway"),
        (Workload("slow", 5), 5, 200, "It works"),
        (Workload("gateway_200"), 0, 200, "Bad Gateway"),
        (Workload("login"), 0, 401, "Sign in"),
        (Workload("status", 503), 0, 503, "503"),
        (Workload("long_page"), 0, 200, "bad gateway"),
    ],
)
def test_each_behaviour_answers_in_its_way(guest: Workload, running_for: float, status: int, words: str) -> None:
    shown = page(guest, running_for)

    assert shown is not None
    assert shown.status == status
    assert words in shown.html


def test_some_workloads_never_answer() -> None:
    assert page(Workload("hang"), 100) is None
    assert page(Workload("refused"), 100) is None
