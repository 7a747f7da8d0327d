"""Fuzz for as long, or with as many inputs, as one wants: `python -m tests.fuzz --help`.

Each worker is a process of its own, so that a crash or a hang costs one input: the driver keeps the
input, counts it, and starts another worker. Failures that look alike are kept once.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from .inputs import KINDS

_ROUND = 2000
"""Inputs that Hypothesis draws from one seed: it remembers them, so that memory grows with them."""


class _TimeIsOver(BaseException):
    """Ends a round; Hypothesis takes it for no failure."""


def main() -> int:
    """Drive workers until enough inputs were tried; the exit code says whether any failed."""
    options = _options()
    if options.worker is not None:
        return _work(options)
    options.out.mkdir(parents=True, exist_ok=True)
    totals: Counter[str] = Counter()
    begun, next_seed = time.monotonic(), options.seed
    options.until = time.time() + options.seconds if options.seconds else 0
    running: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
    while True:
        is_over = totals["inputs"] >= options.inputs or (
            options.seconds and time.monotonic() - begun > options.seconds
        )
        if is_over and not running:
            break
        while len(running) < options.processes and not is_over:
            folder = options.out / f"worker-{next_seed}"
            folder.mkdir(exist_ok=True)
            running[next_seed] = _start(options, next_seed, folder), folder
            next_seed += 1
        time.sleep(0.2)
        for number, (process, folder) in list(running.items()):
            if process.poll() is not None:
                del running[number]
                _collect(options.out, folder, process.returncode, totals)
                _report(totals, begun)
    _report(totals, begun, end="\n")
    return 1 if sum(totals[name] for name in ("failures", "crashes", "hangs")) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS), help="what is damaged")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="how many at least")
    parser.add_argument("--seconds", type=float, default=0, help="when to stop at the latest")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--patience", type=float, default=60, help="seconds before it is a hang")
    parser.add_argument("--gigabytes", type=float, default=8, help="address space; 0 for any")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _start(options: argparse.Namespace, number: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fuzz", options.kind, "--seed", str(number)]
    command += ["--worker", str(folder), "--patience", str(options.patience)]
    command += ["--gigabytes", str(options.gigabytes), "--seconds", str(options.until)]
    with open(folder / "errors", "wb") as errors:
        return subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL)


def _work(options: argparse.Namespace) -> int:
    """One round of inputs; counts go to a file as they grow."""
    kind, folder = KINDS[options.kind], options.worker
    if options.gigabytes:
        import resource

        most = int(options.gigabytes * (1 << 30))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    counts: Counter[str] = Counter()
    current = folder / "input"

    @seed(options.seed)
    @settings(
        max_examples=_ROUND,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.strategy())
    def try_all(found: tuple[str, bytes]) -> None:
        if options.seconds and time.time() > options.seconds:
            raise _TimeIsOver
        name, data = found
        current.write_bytes(data)
        faulthandler.dump_traceback_later(options.patience, exit=True)
        counts["inputs"] += 1
        try:
            counts[kind.check(data)] += 1
        except Exception:
            counts["failures"] += 1
            _keep(folder.parent, name, data, traceback.format_exc())
        faulthandler.cancel_dump_traceback_later()
        if counts["inputs"] % 20 == 0:
            (folder / "counts").write_text(json.dumps(counts))

    with suppress(_TimeIsOver):
        try_all()
    (folder / "counts").write_text(json.dumps(counts))
    return 0


def _keep(folder: Path, name: str, data: bytes, problem: str) -> None:
    """Keep an input beside what it did, once for each place in the code."""
    lines = [line for line in problem.splitlines() if line.lstrip().startswith("File ")]
    key = hashlib.sha256("\n".join(lines[-4:]).encode()).hexdigest()[:12]
    if not (folder / f"{key}.txt").exists():
        (folder / f"{key}.bin").write_bytes(data)
        (folder / f"{key}.txt").write_text(f"{name}\n{problem}")


def _collect(out: Path, folder: Path, code: int, totals: Counter[str]) -> None:
    counts = folder / "counts"
    if counts.exists():
        totals.update(json.loads(counts.read_text()))
    if code:
        errors = (folder / "errors").read_text(errors="replace")
        is_hang = "Timeout (" in errors
        totals["hangs" if is_hang else "crashes"] += 1
        current = folder / "input"
        data = current.read_bytes() if current.exists() else b""
        _keep(out, f"{'hang' if is_hang else 'crash'} {folder.name} {code}", data, errors[-20000:])
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def _report(totals: Counter[str], begun: float, end: str = "\r") -> None:
    text = ", ".join(f"{name} {totals[name]}" for name in sorted(totals))
    print(f"{time.monotonic() - begun:.0f} s: {text}", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
