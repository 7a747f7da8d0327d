"""Fuzz for as long, or with as many inputs, as one wants: `python -m tests.fuzz --help`.

The driver makes what all inputs begin with, and forks workers, so that a crash or a hang costs one
input and no start of an interpreter. A worker tells how far it is in memory that both share; an
input follows from its number, so that the driver can make again what a worker died of. Failures
that look alike are kept once, and printed. With ``--seed`` and ``--inputs`` the same inputs are
tried each time.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

from .inputs import KINDS, Inputs
from .worker import Worker

_PAUSE = 0.05
_REPORTS_EVERY = 10.0
_BAD = ("failures", "crashes", "hangs", "leaks")
_FIRST_LINES, _LAST_LINES, _COLUMNS = 25, 15, 160
"""Of a problem as it is printed: sanitizers begin with what is wrong, tracebacks end with it."""


def main() -> int:
    """Drive workers until enough inputs were tried; the exit code says whether any failed."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    kind = KINDS[options.kind]
    kind.sound()
    # The workers' collections leave alone what all of them share.
    gc.freeze()
    totals, running = Counter(dict.fromkeys(("inputs", *_BAD), 0)), list[Worker]()
    begun, told = time.monotonic(), 0.0
    untried = _rounds(options.seed, options.inputs, options.round, options.processes)
    while True:
        now = time.monotonic() - begun
        is_over = bool(options.seconds and now > options.seconds)
        for worker in running if is_over else ():
            worker.stop()
        while len(running) < options.processes and not is_over:
            numbers = next(untried, None)
            if numbers is None:
                break
            running.append(Worker.start(kind, numbers, options.gigabytes))
        if not running:
            break
        time.sleep(_PAUSE)
        for worker in list(running):
            if worker.has_ended(options.patience):
                running.remove(worker)
                _collect(options.out, kind, worker, totals)
                untried = chain([worker.left()] if worker.left() else [], untried)
        if now > told + _REPORTS_EVERY:
            told = now
            _report(totals + sum((worker.counts() for worker in running), Counter()), begun)
    _report(totals, begun)
    return 1 if any(totals[name] for name in _BAD) else 0


def _rounds(seed: int, inputs: int, size: int, processes: int) -> Iterator[range]:
    """Numbers of inputs in parts, each for a process of its own; smaller ones if few are asked."""
    size = min(size, -(-inputs // processes))
    for first in count(seed, size):
        if first >= seed + inputs:
            return
        yield range(first, min(first + size, seed + inputs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS), help="what is damaged")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="how many")
    parser.add_argument("--seconds", type=float, default=0, help="when to stop at the latest")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time() * 1e6), help="the first input")
    parser.add_argument("--round", type=int, default=10000, help="inputs of a process")
    parser.add_argument("--patience", type=float, default=60, help="seconds before it is a hang")
    parser.add_argument("--gigabytes", type=float, default=8, help="address space; 0 for any")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    return parser.parse_args()


def _collect(out: Path, kind: Inputs, worker: Worker, totals: Counter[str]) -> None:
    totals.update(worker.counts())
    for number, problem in worker.failures():
        _keep(out, kind, number, problem)
    if worker.end:
        totals[worker.end] += 1
        _keep(out, kind, worker.current, worker.errors())
    worker.remove()


def _keep(out: Path, kind: Inputs, number: int, problem: str) -> None:
    """Keep an input beside what it did, once for each place in the code."""
    lines = [line for line in problem.splitlines() if line.lstrip().startswith(("File ", "#"))]
    key = hashlib.sha256("\n".join(lines[-4:]).encode()).hexdigest()[:12]
    if not (out / f"{key}.txt").exists():
        name, data = kind.input(number)
        (out / f"{key}.bin").write_bytes(data)
        (out / f"{key}.txt").write_text(f"{name}, input {number}\n{problem}")
        print(
            f"{name}, input {number}, kept as {out / key}.bin:\n{_shortened(problem)}", flush=True
        )


def _shortened(problem: str) -> str:
    lines = [line[:_COLUMNS] for line in problem.splitlines()]
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        left_out = len(lines) - _FIRST_LINES - _LAST_LINES
        lines[_FIRST_LINES:-_LAST_LINES] = [f"... {left_out} lines ..."]
    return "\n".join(f"    {line}" for line in lines)


def _report(totals: Counter[str], begun: float) -> None:
    text = ", ".join(f"{name} {totals[name]}" for name in sorted(totals))
    print(f"{time.monotonic() - begun:.0f} s: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
