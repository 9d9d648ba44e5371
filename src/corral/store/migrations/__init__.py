"""Numbered SQL files, append-only; `migrate.py` applies them. A file that was released is never edited."""
