"""Settings: what is read, and the error for a mistake."""

from __future__ import annotations

from random import Random

import pytest

from novitasim.accepts import Span
from novitasim.settings import SettingError, Settings, changed, fields, overrides, parse, shown


def test_every_default_is_accepted_by_its_own_reader() -> None:
    defaults = {name: shown(default) for name, (_, _, default) in fields().items()}

    assert changed(Settings(), defaults) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("page_base", "2", "page_base cannot be '2'; accepted: whole number 0 to 1"),
        ("page_base", True, "page_base cannot be True"),
        ("page_size_cap", 1.5, "accepted: whole number >= 0"),
        ("not_found_status", "418", "accepted: 400 | 404"),
        ("boot_seconds", "3-1", "accepted: seconds, or a range such as 1-3"),
        ("boot_seconds", "soon", "accepted: seconds, or a range such as 1-3"),
        ("list_lag_seconds", "inf", "accepted: number >= 0"),
        ("endpoint_in_list", "maybe", "accepted: true | false"),
        ("start_stop_answer", "both", "accepted: pair | object | empty"),
        ("guest", "sulking", "accepted: healthy | login"),
        ("guest_rules", "web-", "accepted: REGEX=BEHAVIOUR"),
    ],
)
def test_the_error_for_a_bad_value_says_what_is_accepted(name: str, value: object, words: str) -> None:
    with pytest.raises(SettingError) as reported:
        changed(Settings(), {name: value})

    assert words in str(reported.value)


def test_the_error_for_an_unknown_name_lists_all_names() -> None:
    with pytest.raises(SettingError, match=r"no setting is called 'page_bass'; there are: .*page_base") as reported:
        changed(Settings(), {"page_bass": 1})

    assert all(name in str(reported.value) for name in fields())


def test_one_mistake_changes_nothing() -> None:
    before = Settings()

    with pytest.raises(SettingError):
        changed(before, {"page_base": 1, "nonsense": 1})

    assert before == Settings()


def test_command_line_pairs_are_split_at_the_first_equals_sign() -> None:
    assert parse(["guest_rules=a=login", "page_base=1"]) == {"guest_rules": "a=login", "page_base": "1"}
    with pytest.raises(SettingError, match="is not name=value"):
        parse(["page_base"])


def test_only_what_differs_is_an_override_and_it_reads_back() -> None:
    chosen = changed(Settings(), {"boot_seconds": "1-3", "removed_stay_listed": "yes"})

    assert overrides(chosen) == {"boot_seconds": "1-3", "removed_stay_listed": True}
    assert changed(Settings(), overrides(chosen)) == chosen


def test_a_span_draws_within_itself() -> None:
    dice = Random(1)  # noqa: S311  # repeatable on purpose
    drawn = [Span(1.0, 3.0).draw(dice) for _ in range(100)]

    assert all(1.0 <= value <= 3.0 for value in drawn)
    assert Span(2.0, 2.0).draw(dice) == 2.0
