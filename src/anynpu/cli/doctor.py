"""`anynpu doctor`: what of this machine an NPU needs, and whether it is there."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .finding import Finding, State
from .findings import examine
from .help import HelpFormatter

_EPILOG = """\
examples:
  anynpu doctor
  anynpu doctor yolov5s.rknn              # do chip, library and this file go together?
  anynpu doctor --report doctor.txt       # to add to a question or a bug report
  anynpu doctor --json | jq '.[] | select(.state == "wrong")'
"""
_MARKS = {State.FINE: "fine ", State.NOTE: "note ", State.WRONG: "WRONG"}


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "doctor",
        description="Check this machine, a line a finding: it is fine, or what to do. Status 1 "
        "where something is wrong.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", nargs="?", help="a .rknn file that is to run here")
    parser.add_argument("--report", metavar="FILE", help="write the findings to a file as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the findings; 1 where one is wrong."""
    findings = examine(model=options.model)
    text = "\n".join(map(_line, findings))
    if options.json:
        print(json.dumps([asdict(each) for each in findings], indent=2, default=str))
    else:
        print(text)
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        if not options.json:
            print(f"written to {options.report}")
    return _status(findings)


def _line(finding: Finding) -> str:
    advice = f": {finding.advice}" if finding.advice else ""
    return f"{_MARKS[finding.state]} {finding.subject}: {finding.found}{advice}"


def _status(findings: Sequence[Finding]) -> int:
    return int(any(each.state is State.WRONG for each in findings))
