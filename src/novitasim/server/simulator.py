"""
The simulator without HTTP: a world, its clock, its file, its faults and its call counts, and the operations on them.

The provider's calls (`server.py`), the control calls (`control.py`) and tests (`testing.py`) all act through this one
object, so that each change is settled, recorded on disk and visible to the next call.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

from novitasim.api import account, billing, catalog, instances, metrics
from novitasim.api.call import Call, RenderCache, Reply, Route
from novitasim.api.calls import Calls
from novitasim.api.endpoints import Endpoints, RealisticEndpoints
from novitasim.faults import faults
from novitasim.faults.faults import Fault, Rule
from novitasim.server.clock import Clock
from novitasim.world import spot
from novitasim.world.account import Unbilled
from novitasim.world.billing import ledger, prices
from novitasim.world.instance import Instance
from novitasim.world.journal import Journal
from novitasim.world.load import LoadHistory, LoadStep, SamplesStep
from novitasim.world.timeline import Status
from novitasim.world.world import PriceSet, StockSet, World

ROUTES: tuple[Route, ...] = instances.ROUTES + catalog.ROUTES + account.ROUTES + billing.ROUTES + metrics.ROUTES
ENDPOINTS = tuple(route.endpoint for route in ROUTES)

_LIST_LAG_SECONDS = 30.0
_FREEZE_SECONDS = 30.0
_GONE = frozenset({Status.REMOVED})


class Simulator:
    """One provider; empty `keys` accept any key."""

    def __init__(self, world: World, clock: Clock, *, keys: frozenset[str] = frozenset()) -> None:
        self.world = world
        self.clock = clock
        self.keys = keys
        self.cache = RenderCache()
        self.calls = Calls()
        self.rules: list[Rule] = []
        self.endpoints: Endpoints = RealisticEndpoints()
        self._journal: Journal | None = None
        self._dice = Random(f"{world.seed}/faults")  # noqa: S311  # repeatable on purpose

    def keep_in(self, path: Path) -> None:
        """Keep the world in a file from now on; it was loaded from there before."""
        self._journal = Journal(path)
        self._journal.begin(self.world, self.clock.now())

    def now(self) -> float:
        """The present instant, after applying everything that is due."""
        now = self.clock.now()
        self.world.settle(now)
        return now

    def call(self, query: dict[str, str], body: dict[str, object]) -> Call:
        """A call as of now."""
        return Call(
            world=self.world, now=self.now(), endpoints=self.endpoints, cache=self.cache, query=query, body=body
        )

    def record(self) -> None:
        """Append the changes to the journal."""
        if self._journal is not None:
            self._journal.write(self.world, self.clock.now())
        else:
            self.world.changes.clear()

    def struck(self, facts: faults.Facts) -> list[Rule]:
        """The faults that apply to a call; removes rules that are used up."""
        if not self.rules:
            return []
        hit, self.rules = faults.strike(self.rules, facts, self._dice.random)
        return hit

    def harm(self, rule: Rule, answer: Reply) -> None:
        """Apply the rule to the instance that the call named."""
        instance = self.world.instances.get(answer.instance_id or "")
        if instance is not None:
            self.world.put(self._harmed(rule, instance), self.now())

    def add_fault(self, raw: dict[str, object]) -> int:
        """Add a fault. Harm without a call (`on`) is done at once; returns to how many instances."""
        rule = faults.read(raw, ENDPOINTS)
        if rule.fault not in faults.HARMS or rule.fault is Fault.LIST_LAG or raw.get("on"):
            self.rules.append(rule)
            return 0
        now = self.now()
        meant = [
            instance
            for instance in self.world.instances.values()
            if re.search(rule.name, instance.order.name)
            and instance.status(now) not in _GONE
            and not instance.vanished(now)
            and (instance.spot or rule.fault not in {Fault.SPOT_NOTICE, Fault.SPOT_RECLAIM})
        ]
        for instance in meant:
            self.world.put(self._harmed(rule, instance), now)
        self.record()
        return len(meant)

    def advance(self, seconds: float) -> float:
        """Move time forward; returns the new instant."""
        self.clock.advance(seconds)
        self.world.changes.append(("clock", None))
        now = self.now()
        self.record()
        return now

    def change_settings(self, raw: dict[str, object]) -> None:
        """Apply settings; raises SettingError and changes nothing if one is wrong."""
        self.world.change_settings(raw, self.now())
        self.cache.forget()
        self.record()

    def set_stock(self, product_id: str, cluster_id: str, gpus: int | None) -> None:
        """Fix the GPUs of a product in a cluster (None: as the settings say); raises KeyError for an unknown place."""
        if cluster_id not in self.world.catalog.products[product_id].clusters:
            raise KeyError(cluster_id)
        self.world.set_stock(StockSet(product_id, cluster_id, gpus))
        self.record()

    def set_price(self, product_id: str, price_e5: int, spot_e5: int) -> int:
        """New prices of a product; returns for how many instances. Raises KeyError for an unknown product."""
        changed = prices.change(self.world, PriceSet(product_id, price_e5, spot_e5), self.now())
        self.record()
        return changed

    def set_billed(self, name: str, *, missing: bool) -> int:
        """Leave the instances with a matching name out of the bill, or show them again; returns how many."""
        meant = [each.id for each in self.world.instances.values() if re.search(name, each.order.name)]
        for instance_id in meant:
            if missing:
                self.world.keep("unbilled", self.world.unbilled, Unbilled(id=instance_id))
            elif instance_id in self.world.unbilled:
                self.world.discard("unbilled", self.world.unbilled, instance_id)
        self.record()
        return len(meant)

    def set_load(self, name: str, series: dict[str, tuple[float, ...]], samples: str | None = None) -> int:
        """Set how busy the instances with a matching name are, and how their samples are, from now on."""
        now, loads = self.now(), self.world.loads
        steps = tuple(LoadStep(at=now, series=each, values=values) for each, values in series.items())
        sampling = () if samples is None else (SamplesStep(at=now, fault=samples),)
        meant = [
            instance.id
            for instance in self.world.instances.values()
            if re.search(name, instance.order.name) and instance.removed_at() > now
        ]
        for instance_id in meant:
            known = loads.get(instance_id) or LoadHistory(id=instance_id)
            known = replace(known, steps=known.steps + steps, samples=known.samples + sampling)
            self.world.keep("load", loads, known)
        self.record()
        return len(meant)

    def remember_ports(self, ports: dict[str, int]) -> None:
        """Store the loopback ports of the workloads, so that a restart opens the same ones."""
        self.world.workload_ports = ports
        self.world.changes.append(("ports", ports))
        self.record()

    def ledger(self, pattern: str | None = None) -> ledger.Ledger:
        """The bills so far; the one group of *pattern* groups instance names into create requests."""
        now = self.now()
        return ledger.read(self.world.instances.values(), now, pattern, settings=self.world.settings)

    def reset(self) -> None:
        """Start over: no instances, faults or counts, the seeded templates and credentials; settings stay."""
        seed, settings = self.world.seed, self.world.settings
        # Serial numbers continue, so that no id of the old world is used again.
        last, ports = self.world.seq, self.world.workload_ports
        self.world = World(seed=seed, settings=settings)
        self.world.seq, self.world.workload_ports = last, ports
        self.rules = []
        self.calls = Calls()
        self.cache.forget()
        if self._journal is not None:
            self._journal.begin(self.world, self.clock.now())

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._journal is not None:
            self.record()
            self._journal.close()

    def _harmed(self, rule: Rule, instance: Instance) -> Instance:
        now, settings = self.now(), self.world.settings
        match rule.fault:
            case Fault.LIST_LAG:
                return replace(instance, listed_at=now + (_LIST_LAG_SECONDS if rule.seconds is None else rule.seconds))
            case Fault.VANISH:
                return spot.vanish(instance, now, seconds=rule.seconds or 0.0)
            case Fault.STATUS_ERROR:
                return spot.fail(instance, now + (rule.seconds or 0.0), rule.message)
            case Fault.FREEZE:
                return spot.freeze(instance, now, _FREEZE_SECONDS if rule.seconds is None else rule.seconds)
            case Fault.SPOT_NOTICE if instance.spot:
                return spot.notice(instance, settings, now, seconds=rule.seconds)
            case Fault.SPOT_RECLAIM if instance.spot:
                return spot.reclaim(instance, settings, now)
            case _:
                return instance
