"""
Records docs/images/terminal.svg: `make pictures`. Commands run on a real terminal, against a service on the simulator.

The SVG plays the session in a loop. Pauses of more than a second are shortened; without animation it shows the end.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.processes.process import CORRAL, clean_environment, serving  # noqa: E402  # the tests' own harness

IMAGE: Final = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, ROWS = 80, 26
LONGEST_PAUSE: Final = 1.0
TYPING_SECONDS: Final = 0.6
READING_SECONDS: Final = 2.0
END_SECONDS: Final = 4.0
SESSION: Final = (
    'corral create train --product "RTX 4090 24GB" --template 107672',
    'corral create eval --product "H100 SXM 80GB" --template 107672 --count 2',
    "corral ls",
    "corral rm train eval-1 eval-2 --wait",
)
FONTS: Final = "ui-monospace,Menlo,Consolas,monospace"
COLOURS: Final = {"32": "#3fb950", "33": "#d29922", "31": "#f85149", "2": "#8b949e"}
_SPINNER: Final = re.compile("[\u2800-\u28ff]")
_PIECE: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b]+)")


@dataclass(slots=True)
class Screen:
    """The part of a terminal that `corral` uses: text, colours, and moves to the left, up and to a new line."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""

    def feed(self, text: str) -> None:
        """Show *text*, with what it does to the cursor and the colours."""
        for numbers, command, control, written in _PIECE.findall(text):
            if command:
                self._obey(command, numbers)
            elif control == "\n":
                self.row += 1
                self.lines += [[] for _ in range(self.row + 1 - len(self.lines))]
            elif control:
                self.column = 0 if control == "\r" else max(0, self.column - 1)
            else:
                self._write(written)

    def rows(self) -> list[tuple[tuple[str, str], ...]]:
        """The last lines that fit, each as runs of a style and a text."""
        return [_runs(line) for line in self.lines[-ROWS:]]

    def _write(self, text: str) -> None:
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column - len(line))
        line[self.column : self.column + len(text)] = [(letter, self.style) for letter in text]
        self.column += len(text)

    def _obey(self, command: str, numbers: str) -> None:
        match command:
            case "m":
                codes = [code for code in numbers.split(";") if code not in {"", "0"}]
                self.style = " ".join(codes)
            case "A":
                self.row = max(0, self.row - int(numbers or 1))
            case "K" if numbers == "2":
                self.lines[self.row] = []
            case "K":
                del self.lines[self.row][self.column :]
            case _:
                pass  # the cursor is not drawn


@dataclass(slots=True)
class Recording:
    """What each row showed, and from when to when."""

    at: float = 0.0
    shown: dict[int, tuple[tuple[tuple[str, str], ...], float]] = field(default_factory=dict)
    spans: list[tuple[int, tuple[tuple[str, str], ...], float, float]] = field(default_factory=list)

    def show(self, screen: Screen, seconds: float) -> None:
        """From now on *screen* is shown, for at least *seconds*."""
        rows = dict(enumerate(screen.rows()))
        for row in {*rows, *self.shown}:
            before, since = self.shown.get(row, ((), self.at))
            now = rows.get(row, ())
            if now != before:
                self.spans += [(row, before, since, self.at)] if before else []
                self.shown[row] = (now, self.at)
        self.at += seconds

    def svg(self) -> str:
        """The session, in a loop."""
        ends = [(row, runs, since, self.at) for row, (runs, since) in self.shown.items() if runs]
        texts = [_row(*span, total=self.at) for span in sorted([*self.spans, *ends], key=lambda span: span[2])]
        width, height = 16 + COLUMNS * 8, 48 + ROWS * 18
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
                "<title>Create, list and delete machines in a terminal</title>",
                f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
                *(f'<circle cx="{18 + 18 * n}" cy="18" r="5" fill="#30363d"/>' for n in range(3)),
                f'<g font-family="{FONTS}" font-size="13" fill="#e6edf3">',
                *texts,
                "</g>",
                "</svg>",
                "",
            ]
        )


def _runs(line: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    runs: list[tuple[str, str]] = []
    for letter, style in line:
        if runs and runs[-1][0] == style:
            runs[-1] = (style, runs[-1][1] + letter)
        else:
            runs.append((style, letter))
    return tuple(runs)


def _row(row: int, runs: tuple[tuple[str, str], ...], since: float, until: float, *, total: float) -> str:
    spans, column = list[str](), 0
    for style, text in runs:
        codes = style.split()
        colour = next((f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS), "")
        bold = ' font-weight="bold"' if "1" in codes else ""
        for words in re.finditer(r"\S+(?: \S+)*", text):  # blanks in a row would be shown as one
            place = f'x="{8 + (column + words.start()) * 8}" textLength="{len(words[0]) * 8}"'
            spans.append(f"<tspan {place}{colour}{bold}>{html.escape(words[0])}</tspan>")
        column += len(text)
    is_last = until >= total
    steps = (
        ("hidden;visible", f"0;{since / total:.4f}")
        if is_last
        else ("hidden;visible;hidden", f"0;{since / total:.4f};{until / total:.4f}")
    )
    animation = (
        f'<animate attributeName="visibility" calcMode="discrete" values="{steps[0]}" keyTimes="{steps[1]}" '
        f'dur="{total:.1f}s" repeatCount="indefinite"/>'
    )
    visibility = "visible" if is_last else "hidden"
    return f'<text y="{50 + row * 18}" visibility="{visibility}">{"".join(spans)}{animation}</text>'


async def play(command: str, screen: Screen, recording: Recording, address: str) -> None:
    """Type *command*, run it on a terminal, and record what it shows."""
    for end in range(0, len(command) + 1, 6):
        typed = Screen(lines=[list(line) for line in screen.lines], row=screen.row)
        typed.feed("$ " + command[:end])
        recording.show(typed, TYPING_SECONDS * 6 / len(command))
    screen.feed(f"$ {command}\r\n")
    recording.show(screen, 0.3)
    near, far = os.openpty()
    termios.tcsetwinsize(far, (ROWS, COLUMNS))
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", command),
        env=clean_environment(
            TERM="xterm-256color", CORRAL_URL=address, PATH=f"{CORRAL.parent}:/usr/bin:/bin", TZ="UTC"
        ),
        stdin=far, stdout=far, stderr=far,
    )  # fmt: skip
    os.close(far)
    last = time.monotonic()
    while piece := await asyncio.to_thread(_read, near):
        now = time.monotonic()
        recording.at += min(now - last, LONGEST_PAUSE)
        last = now
        screen.feed(_SPINNER.sub("⠹", piece))  # else there would be a picture for each of its steps
        recording.show(screen, 0.0)
    os.close(near)
    assert await process.wait() == 0, command  # noqa: S101
    recording.show(screen, READING_SECONDS)


def _read(terminal: int) -> str:
    """What was written meanwhile; empty at the end."""
    time.sleep(0.1)  # several writes make one picture
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        return ""


async def main() -> None:
    """Serve, play the session, write the picture."""
    screen, recording = Screen(), Recording()
    with tempfile.TemporaryDirectory(prefix="corral-recording-") as place:
        Path(place).chmod(0o711)
        async with serving(Path(place) / ".corral", LOG_LEVEL="warning") as corral:
            for command in SESSION:
                await play(command, screen, recording, corral.address)
    recording.at += END_SECONDS
    IMAGE.write_text(recording.svg(), encoding="utf-8")
    print(f"{IMAGE.relative_to(ROOT)}: {IMAGE.stat().st_size // 1024} kB, {recording.at:.0f} s")


if __name__ == "__main__":
    asyncio.run(main())
