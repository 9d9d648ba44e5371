"""The order of the tests: nothing is lost, long tests start first, modules stay together."""

from __future__ import annotations

from support.suite.schedule import Test, scheduled

TESTS = [
    *(Test(f"tests/unit/test_{module}.py::test_{n}") for module in range(20) for n in range(10)),
    *(Test(f"tests/e2e/test_{module}.py::test_{n}") for module in range(5) for n in range(7)),
    Test("tests/property/test_proof.py::test_a", 1200.0),
    Test("tests/fault/test_chaos.py::test_a", 600.0),
    Test("tests/fault/test_soak.py::test_a", 600.0),
]


def parts(workers: int) -> list[list[Test]]:
    """What each worker begins with, as xdist divides the list."""
    order, found = [TESTS[place] for place in scheduled(TESTS, workers)], list[list[Test]]()
    for worker in range(workers):
        size = len(order) // (workers - worker)
        found.append(order[:size])
        del order[:size]
    return found


def test_every_test_runs_once() -> None:
    """With any number of workers."""
    for workers in range(1, 7):
        assert sorted(scheduled(TESTS, workers)) == list(range(len(TESTS)))


def test_each_long_test_is_the_first_of_a_worker() -> None:
    """One that starts last would end alone."""
    firsts = {part[0].nodeid for part in parts(3)}

    assert firsts == {test.nodeid for test in TESTS if test.is_long}


def test_a_module_with_services_stays_on_one_worker() -> None:
    """Each worker would start the services again."""
    for module in range(5):
        name = f"tests/e2e/test_{module}.py"
        assert sum(any(test.module == name for test in part) for part in parts(4)) == 1


def test_short_tests_come_last() -> None:
    """They are what an idle worker takes over."""
    for part in parts(4):
        tiers = [test.tier for test in part if not test.is_long]
        assert tiers == sorted(tiers, key=["e2e", "unit"].index)


def test_the_longest_test_leaves_its_worker_less_to_do() -> None:
    """Modules go to the worker with the least to do."""
    proof, *others = sorted(parts(4), key=lambda part: -max(test.limit for test in part))

    assert sum(test.tier == "e2e" for test in proof) < min(sum(t.tier == "e2e" for t in part) for part in others[2:])
