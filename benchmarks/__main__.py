"""`python -m benchmarks [--json] [--rounds N] [NAME ...]`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from . import (
    against_ez,
    against_onnxruntime,
    compiled_files,
    conversions,
    fleet,
    growth,
    import_time,
    matmul,
    peers,
    quantising,
    serving,
    session_costs,
    session_overhead,
    session_rates,
    viplite_overhead,
    vision,
)

BENCHMARKS = {
    "onnxruntime": against_onnxruntime.run,
    "ez": against_ez.run,
    "overhead": session_overhead.run,
    "rates": session_rates.run,
    "conversions": conversions.run,
    "costs": session_costs.run,
    "compiled": compiled_files.run,
    "growth": growth.run,
    "import": import_time.run,
    "matmul": matmul.run,
    "viplite": viplite_overhead.run,
    "quantising": quantising.run,
    "serving": serving.run,
    "peers": peers.run,
    "vision": vision.run,
    "fleet": fleet.run,
}

SPIN_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"


def main() -> None:
    """Run the named benchmarks, or all, and print a line for each comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all without any")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--rounds", type=int, default=40, help="runs of each, in turns")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"unknown benchmarks {sorted(unknown)}")
    os.environ.setdefault("ANYNPU_DEVICE", "soft")
    names = options.names or list(BENCHMARKS)
    if SPIN_VARIABLE in os.environ and len(names) == 1:
        results = list(_here(names[0], options))
    else:
        results = [result for name in names for result in _in_a_process(name, options)]
    if options.json:
        print(json.dumps(results, indent=1))


def _here(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if not options.json:
        print(f"{'':66} {'anynpu':>12} {'other':>12}   ratio")
    for comparison in BENCHMARKS[name](options.rounds):
        if not options.json:
            print(comparison.line(), flush=True)
        yield dataclasses.asdict(comparison)


def _in_a_process(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each in a process of its own: the peer loads one library in a process's life.

    NumPy's BLAS keeps a processor spinning for a while after each product, which would take it from
    whatever is timed next: there it goes to sleep at once.
    """
    environment = os.environ | {SPIN_VARIABLE: "4"}
    command = [sys.executable, "-m", "benchmarks", name, "--rounds", str(options.rounds)]
    if not options.json:
        subprocess.run(command, check=True, env=environment)
        return []
    result = subprocess.run(
        [*command, "--json"], check=True, capture_output=True, text=True, env=environment
    )
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


if __name__ == "__main__":
    main()
