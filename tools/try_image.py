"""
Run the steps of deploy/Dockerfile without a container engine, in unpacked Debian roots, and try the result.

    debootstrap --variant=minbase trixie /var/tmp/trixie
    sudo unshare --mount --pid --fork --kill-child .venv/bin/python tools/try_image.py /var/tmp/trixie /var/tmp/image

The root named first stands for `debian:trixie-slim`; the second folder gets a root for each stage. `--certificates`
is for a network that inspects TLS. The last stage is then started as its USER, its HEALTHCHECK is run, and a machine of
the simulator is created and deleted. What an engine adds (layers, a read-only root, limits) is not tried.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
CERTIFICATES = "/etc/tried-certificates.crt"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
CREATE = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")


@dataclass
class Stage:
    """One stage of the build: the root it changes, and what later instructions set."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    folder: str = "/"
    user: str = "0"
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def arguments(self, *command: str) -> list[str]:
        """The command line that runs *command* in this root, as the stage's user and in its folder."""
        enter = f'cd {shlex.quote(self.folder)} && exec "$@"'
        root = ["/usr/sbin/chroot", f"--userspec={self.user}:{self.user}", str(self.root)]
        return [*root, "sh", "-c", enter, "sh", *command]

    def output(self, *command: str, **environment: str) -> str:
        """What *command* prints; raises CalledProcessError if it fails."""
        environ = self.environment | environment
        return subprocess.run(
            self.arguments(*command), check=True, env=environ, text=True, stdout=subprocess.PIPE
        ).stdout


class Build:
    """Carries out instructions; the last stage is the image."""

    def __init__(self, base: Path, place: Path, certificates: Path | None) -> None:
        self._base, self._place, self._certificates = base, place, certificates
        self._stages: dict[str, Stage] = {}
        self.image = Stage(root=place)

    def carry_out(self, name: str, rest: str) -> None:
        """Carry out one instruction; exits if there is no step for it."""
        stage = self.image
        match name:
            case "FROM":
                self._start(rest.rpartition(" AS ")[2] if " AS " in rest else "image")
            case "RUN":
                trusted = (
                    {} if self._certificates is None else {"SSL_CERT_FILE": CERTIFICATES, "PIP_CERT": CERTIFICATES}
                )
                stage.output("sh", "-c", rest, **trusted)
            case "COPY":
                self._copy(*rest.split())
            case "WORKDIR":
                stage.folder = rest
                (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "VOLUME" | "EXPOSE":
                pass
            case _:
                _configure(stage, name, rest)

    def _start(self, name: str) -> None:
        """Copy the base, and give it what an engine gives a container: devices, processes and a name server."""
        self.image = self._stages[name] = Stage(root=self._place / name)
        root = self.image.root
        subprocess.run(["cp", "-a", self._base, root], check=True)
        subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
        if self._certificates is not None:
            shutil.copy2(self._certificates, root / CERTIFICATES.lstrip("/"))

    def _copy(self, *words: str) -> None:
        origin = HOME
        if words[0].startswith("--from="):
            origin, words = self._stages[words[0].removeprefix("--from=")].root, words[1:]
        *sources, target = words
        to = self.image.root / self.image.folder.lstrip("/") / target
        if target.startswith("/"):
            to = self.image.root / target.lstrip("/")
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                compiled = () if origin != HOME else ("__pycache__",)
                shutil.copytree(found, to, symlinks=True, ignore=shutil.ignore_patterns(*compiled))
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, to / found.name)


def _configure(stage: Stage, name: str, rest: str) -> None:
    match name:
        case "ENV":
            stage.environment |= dict(part.split("=", 1) for part in shlex.split(rest))
        case "USER":
            stage.user = rest
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case "ENTRYPOINT":
            stage.entry = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case _:
            sys.exit(f"there is no step for {name}")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with what follows them, lines joined and comments left out."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined if line.strip()]


def try_out(image: Stage) -> None:
    """Start the service without a key and with one; run its health check, create a machine and delete it."""
    corral = image.entry
    print(image.output("id"), image.output(*corral, "version"), flush=True)
    subprocess.run(image.arguments(*corral, *image.command), env=image.environment, check=False)
    key = image.output(*corral, "keys", "create", "ops", "--role", "admin").strip()
    with subprocess.Popen(image.arguments(*corral, *image.command), env=image.environment) as service:
        try:
            while subprocess.run(image.arguments(*image.health), env=image.environment, check=False).returncode:
                time.sleep(1)
            for command in (CREATE, ("rm", "first", "--wait")):
                print(image.output(*corral, *command, CORRAL_API_KEY=key), flush=True)
        finally:
            service.terminate()
    print("the service ended with", service.returncode)


def main() -> None:
    """Read the arguments, build, try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("base", type=Path, help="an unpacked Debian root")
    parser.add_argument("place", type=Path, help="a folder that does not exist")
    parser.add_argument("--certificates", type=Path, help="a file of authorities to trust while packages are fetched")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root, for chroot and mount")
    chosen.place.mkdir(parents=True)
    build = Build(chosen.base, chosen.place, chosen.certificates)
    for name, rest in instructions((HOME / "deploy/Dockerfile").read_text()):
        print(name, rest, flush=True)
        build.carry_out(name, rest)
    subprocess.run(["du", "-shx", chosen.base, build.image.root, build.image.root / "opt/corral"], check=True)
    try_out(build.image)


if __name__ == "__main__":
    main()
