"""`python -m benchmarks [--json] [--rounds N] [NAME ...]`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os

from . import against_ez, against_onnxruntime, compiled_files, import_time

BENCHMARKS = {
    "onnxruntime": against_onnxruntime.run,
    "ez": against_ez.run,
    "compiled": compiled_files.run,
    "import": import_time.run,
}


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
    results = []
    if not options.json:
        print(f"{'':58} {'anynpu':>12} {'other':>12}   ratio")
    for name in options.names or BENCHMARKS:
        for comparison in BENCHMARKS[name](options.rounds):
            results.append(dataclasses.asdict(comparison))
            if not options.json:
                print(comparison.line(), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
