"""How every page that tools make looks."""

from __future__ import annotations


def page(title: str, lead: str, lines: list[str]) -> str:
    """A page of *lines* under a title and a sentence or two."""
    return "\n".join([f"# {title}", "", "<!-- made by tools/reference.py -->", "", lead, "", *lines, ""])
