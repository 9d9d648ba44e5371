"""
The timeline of an instance: which status it has from when, planned ahead.

A command (create, stop, ...) replaces the planned steps by new ones at once. So nothing needs to tick: the state of an
instance follows from its timeline and the present instant. The past of a timeline never changes; the ledger reads it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """Every status of the provider."""

    PENDING = "pending"
    TO_CREATE = "toCreate"
    CREATING = "creating"
    PULLING = "pulling"
    RUNNING = "running"
    TO_START = "toStart"
    STARTING = "starting"
    TO_STOP = "toStop"
    STOPPING = "stopping"
    EXITED = "exited"
    TO_RESTART = "toRestart"
    RESTARTING = "restarting"
    TO_REMOVE = "toRemove"
    REMOVING = "removing"
    REMOVED = "removed"
    TO_RESET = "toReset"
    RESETTING = "resetting"
    MIGRATING = "migrating"
    FREEZING = "freezing"


class MachineShare(StrEnum):
    """What an instance has of a machine."""

    NOTHING = "nothing"
    HOST = "host"  # a GPU is kept for it, not yet paid for
    BILLED = "billed"


class SpotStatus(StrEnum):
    """What the provider reports about the machine of a spot instance."""

    RUNNING = "running"
    NOTIFIED = "notified"
    RECLAIMING = "reclaiming"
    TERMINATED = "terminated"


class Step(NamedTuple):
    """From *at* on, this status and this claim."""

    at: float
    status: Status
    claim: MachineShare


class SpotStep(NamedTuple):
    """From *at* on, this spot status."""

    at: float
    status: SpotStatus


Course = tuple[Step, ...]

# The share of a transition that is spent in its `to...` status, before the work begins.
_QUEUEING = 0.3


def past(course: Course, now: float) -> Course:
    """What has happened by *now*."""
    return tuple(step for step in course if step.at <= now)


def created(now: float, *, boot: float, pull: float, pending: bool) -> Course:
    """A creation that goes well."""
    first = Status.PENDING if pending else Status.TO_CREATE
    early = ((now + boot * _QUEUEING / 2, Status.TO_CREATE),) if pending else ()
    return (
        Step(now, first, MachineShare.HOST),
        *(Step(at, status, MachineShare.HOST) for at, status in early),
        Step(now + boot * _QUEUEING, Status.CREATING, MachineShare.HOST),
        Step(now + boot, Status.PULLING, MachineShare.BILLED),
        Step(now + boot + pull, Status.RUNNING, MachineShare.BILLED),
    )


def failed_create(now: float, *, boot: float, ends: Status) -> Course:
    """A creation that fails: it stays where it is, with a statusError, and is not billed."""
    claim = MachineShare.NOTHING if ends is Status.EXITED else MachineShare.HOST
    return (
        Step(now, Status.TO_CREATE, MachineShare.HOST),
        Step(now + boot * _QUEUEING, Status.CREATING, MachineShare.HOST),
        Step(now + boot, ends, claim),
    )


def start(now: float, takes: float) -> Course:
    """From exited to running."""
    return (
        Step(now, Status.TO_START, MachineShare.HOST),
        Step(now + takes * _QUEUEING, Status.STARTING, MachineShare.BILLED),
        Step(now + takes, Status.RUNNING, MachineShare.BILLED),
    )


def stop(now: float, takes: float, claim: MachineShare = MachineShare.BILLED) -> Course:
    """To exited; the machine is paid, if it was, until it is given back."""
    return (
        Step(now, Status.TO_STOP, claim),
        Step(now + takes * _QUEUEING, Status.STOPPING, claim),
        Step(now + takes, Status.EXITED, MachineShare.NOTHING),
    )


def restart(now: float, takes: float) -> Course:
    """Off and on again on the same machine."""
    return (
        Step(now, Status.TO_RESTART, MachineShare.BILLED),
        Step(now + takes * _QUEUEING, Status.RESTARTING, MachineShare.BILLED),
        Step(now + takes, Status.RUNNING, MachineShare.BILLED),
    )


def reset(now: float, *, takes: float, pull: float, claim: MachineShare) -> Course:
    """An upgrade: a new image on the same machine."""
    return (
        Step(now, Status.TO_RESET, claim),
        Step(now + takes * _QUEUEING, Status.RESETTING, claim),
        Step(now + takes, Status.PULLING, MachineShare.BILLED),
        Step(now + takes + pull, Status.RUNNING, MachineShare.BILLED),
    )


def migrate(now: float, takes: float) -> Course:
    """To another machine; the one is free at once and the other is paid from then on."""
    return (Step(now, Status.MIGRATING, MachineShare.BILLED), Step(now + takes, Status.RUNNING, MachineShare.BILLED))


def remove(now: float, takes: float, claim: MachineShare) -> Course:
    """From anywhere to removed, paying until then what was being paid."""
    return (
        Step(now, Status.TO_REMOVE, claim),
        Step(now + takes * _QUEUEING, Status.REMOVING, claim),
        Step(now + takes, Status.REMOVED, MachineShare.NOTHING),
    )
