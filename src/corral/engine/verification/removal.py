"""
Deletes trial machines and makes sure that they are gone.

A lookup that finds nothing proves little: the provider may not show a new machine yet. A machine counts as gone when a
delete was accepted, or the settle time of its create is over, and then neither the lookup nor the list has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.cloud.novita.paging import PAGE_SIZE
from corral.domain.errors import CloudTransientError, CloudUnknownError
from corral.domain.lifecycle.policy import Policy
from corral.domain.verification.evidence import Look, ProviderAnswer, Stage, says_gone
from corral.domain.verification.json_values import mapping, number, objects, text
from corral.domain.verification.trial_names import marked_start, parse_trial_name
from corral.domain.verification.trial_plan import REMOVE_SECONDS
from corral.engine.verification.account import INSTANCE_PATH, LIST_PATH
from corral.engine.verification.calls import RecordedCalls

POLL_SECONDS: Final = 3.0
"""Between two looks at a machine. Shorter uses up the rate limit; longer misses statuses and measures less exactly."""
REPEAT_SECONDS: Final = 15.0
"""After which a delete of which nothing is seen is sent again."""
MOST_PAGES: Final = 100
"""Of the list that are searched for marked machines: an account of ten thousand."""
SETTLE_SECONDS: Final = Policy().settle_time(create_ended=False).total_seconds()
"""After a create was sent, how long its machine may not be visible."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What came of deleting one machine."""

    deleted: ProviderAnswer | None = None
    """The first delete that was accepted, else the last."""
    gone_seconds: float | None = None
    """From the first delete; None if it was not seen to be gone."""
    listed_after: Mapping[str, object] | None = field(default=None, repr=False)
    looks: tuple[Look, ...] = ()


class Remover:
    """Finds and deletes trial machines of one mark."""

    def __init__(self, calls: RecordedCalls, mark: str, on_progress: OnProgress) -> None:
        self._calls = calls
        self._clock = calls.clock
        self._mark = mark
        self._on_progress = on_progress

    async def marked(self) -> dict[str, str]:
        """The names of the machines that have the mark, by their ids: by the name filter, and by the whole list."""
        found = dict[str, str]()
        for query in ({"name": marked_start(self._mark)}, {}):
            for item in await self._listed(query):
                name = text(item.get("name"))
                parsed = parse_trial_name(name)
                if parsed is not None and parsed.mark == self._mark and item.get("status") != "removed":
                    found[_id_of(item)] = name
        return found

    async def confirmed(self) -> dict[str, str]:
        """
        Those of the marked machines whose lookup shows the mark too; raises CloudUnknownError if that stays unknown.

        A list that lies must not make us delete a machine of the account, and a lookup that fails, or does not find the
        machine yet, must not make us forget one of ours.
        """
        began = self._clock.monotonic()
        while True:
            found = await self.marked()
            shown = {provider_id: await self._shows_mark(provider_id) for provider_id in found}
            doubtful = [provider_id for provider_id, is_shown in shown.items() if is_shown is None]
            if any(shown.values()) or not doubtful:
                return {provider_id: name for provider_id, name in found.items() if shown[provider_id]}
            if self._clock.monotonic() - began >= REMOVE_SECONDS:
                raise CloudUnknownError(left_text(doubtful[0], found[doubtful[0]]))
            self._on_progress(f"the list shows {found[doubtful[0]]}, but the lookup does not")
            await self._clock.sleep(POLL_SECONDS)

    async def existing(self) -> frozenset[str]:
        """The ids of all machines of the account; raises CloudTransientError if the list could not be read."""
        return frozenset(text(item.get("id")) for item in await self._listed({}))

    async def other_marks(self) -> set[str]:
        """The marks of trial machines of other data directories."""
        names = [parse_trial_name(text(item.get("name"))) for item in await self._listed({})]
        return {name.mark for name in names if name is not None and name.mark != self._mark}

    async def search(self, name: str) -> str | None:
        """The id of the machine called *name*, if the list shows it."""
        for query in ({"name": name}, {}):
            for item in await self._listed(query):
                if item.get("name") == name and item.get("status") != "removed":
                    return _id_of(item)
        return None

    async def awaited(self, name: str, sent_at: datetime, seconds: float = SETTLE_SECONDS) -> str | None:
        """
        The same, searched for until *seconds* after its create; raises as the last search does.

        If the clock was set back since, *seconds* are counted from now on.
        """
        began = self._clock.monotonic()
        while True:
            waited = max((self._clock.now() - sent_at).total_seconds(), self._clock.monotonic() - began)
            try:
                found = await self.search(name)
            except CloudTransientError:
                if waited >= seconds + REMOVE_SECONDS:
                    raise
                found, seconds = None, max(seconds, waited + POLL_SECONDS)
            if found is not None or waited >= seconds:
                return found
            self._on_progress(f"searching for the machine, {max(0.0, seconds - waited):.0f} s more")
            await self._clock.sleep(min(2 * POLL_SECONDS, max(1.0, seconds - waited)))

    async def _shows_mark(self, provider_id: str) -> bool | None:
        """Whether the machine itself, looked up by its id, exists and has a name with the mark; None: not known."""
        answer = await self._calls.get(INSTANCE_PATH, {"instanceId": provider_id})
        content = mapping(answer.content)
        if not answer.is_success or not content:
            return None
        name = parse_trial_name(text(content.get("name")))
        return name is not None and name.mark == self._mark and content.get("status") != "removed"

    async def remove(self, provider_id: str, *, created_at: datetime | None) -> Removal:
        """Delete the machine, repeatedly, until it is gone or the time is over."""
        began, sent = self._clock.monotonic(), -REPEAT_SECONDS
        looks, accepted, last = list[Look](), None, None
        while (seconds := self._clock.monotonic() - began) < REMOVE_SECONDS:
            if accepted is None or seconds - sent >= REPEAT_SECONDS:
                sent = seconds
                last = await self._calls.post(f"{INSTANCE_PATH}/delete", {"instanceId": provider_id})
                accepted = accepted or (last if last.is_success else None)
            got = await self._calls.get(INSTANCE_PATH, {"instanceId": provider_id})
            looks.append(Look(stage=Stage.DELETE, seconds=self._clock.monotonic() - began, got=got))
            is_settled = created_at is None or (self._clock.now() - created_at).total_seconds() >= SETTLE_SECONDS
            if says_gone(got) and (accepted is not None or is_settled):
                is_read, listed = await self._is_listed(provider_id)
                if is_read and (listed is None or listed.get("status") == "removed"):
                    gone = self._clock.monotonic() - began
                    return Removal(deleted=accepted or last, gone_seconds=gone, listed_after=listed, looks=tuple(looks))
            await self._clock.sleep(POLL_SECONDS)
        return Removal(deleted=accepted or last, looks=tuple(looks))

    async def _is_listed(self, provider_id: str) -> tuple[bool, Mapping[str, object] | None]:
        """Whether the list could be read, and the machine's item in it."""
        try:
            for query in ({"name": marked_start(self._mark)}, {}):
                for item in await self._listed(query):
                    if item.get("id") == provider_id:
                        return True, item
        except CloudTransientError:
            return False, None
        return True, None

    async def _listed(self, query: Mapping[str, str]) -> list[Mapping[str, object]]:
        """
        Every instance that fits *query*, over all pages; raises CloudTransientError if one could not be read.

        Pages are read from 0 on. Where 1 is the first, page 0 is refused, empty or the same as page 1.
        """
        found, total = dict[str, Mapping[str, object]](), None
        for page in range(MOST_PAGES):
            answer = await self._calls.get(LIST_PATH, {**query, "pageNum": str(page), "pageSize": str(PAGE_SIZE)})
            if page == 0 and answer.status == 400:  # noqa: PLR2004  # perhaps there is no page 0
                continue
            if not answer.is_success or not isinstance(mapping(answer.content).get("instances"), list):
                raise CloudTransientError(f"the list could not be read: {answer.problem}")
            before = len(found)
            items = objects(mapping(answer.content).get("instances"))
            found.update((text(item.get("id")) or f"named {item.get('name')}", item) for item in items)
            total = number(mapping(answer.content).get("total"))
            if (total is not None and len(found) >= total) or (len(found) == before and page > 0):
                break
        return list(found.values())


def left_text(provider_id: str, name: str) -> str:
    """What a person must know of a machine that may be left."""
    return (
        f"the machine {provider_id} ({name}) was not seen to be gone and may be billed: "
        "run `corral verify --cleanup`, or delete it in the provider's console"
    )


def _id_of(item: Mapping[str, object]) -> str:
    """The id of a trial machine in the list; raises CloudUnknownError if it has none that is text."""
    found = text(item.get("id"))
    if not found:
        raise CloudUnknownError(
            f"the machine {text(item.get('name'))} is listed without an id that can be read, and may be billed: "
            "delete it in the provider's console"
        )
    return found
