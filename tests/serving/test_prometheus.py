"""The dashboard's expressions, evaluated by Prometheus itself on a server that works."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anynpu import npu_state
from anynpu.npu_state import NpuState
from benchmarks.fleet import free_port

from .conftest import NULL_REQUEST, Running, Serve
from .test_pressure import INFER, Slow

pytestmark = pytest.mark.nightly

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana.json"
WITHOUT_DATA = {"Models that aren't ready"}
"""Panels that are empty as long as nothing is wrong."""

Ask = Callable[[str], list[Any]]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[Running], Ask]]:
    """A function that lets Prometheus watch a server, and gives what evaluates an expression."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed: apt install prometheus")
    started: list[subprocess.Popen[bytes]] = []

    def watch(running: Running) -> Ask:
        port = free_port()
        config = tmp_path / "prometheus.yml"
        job = {"job_name": "anynpu", "static_configs": [{"targets": [running.http]}]}
        # JSON is YAML.
        config.write_text(
            json.dumps({"global": {"scrape_interval": "500ms"}, "scrape_configs": [job]})
        )
        options = {
            "config.file": config,
            "storage.tsdb.path": tmp_path / "data",
            "web.listen-address": f"127.0.0.1:{port}",
            "log.level": "error",
        }
        command = [program, *(f"--{name}={value}" for name, value in options.items())]
        started.append(subprocess.Popen(command))

        def ask(expression: str) -> list[Any]:
            query = urllib.parse.urlencode({"query": expression})
            address = f"http://127.0.0.1:{port}/api/v1/query?{query}"
            with urllib.request.urlopen(address, timeout=30) as answer:
                found: list[Any] = json.load(answer)["data"]["result"]
                return found

        return ask

    yield watch
    for process in started:
        process.terminate()
        process.wait(30)


def test_every_panel_has_data(
    serve: Serve,
    slow: Slow,
    prometheus: Callable[[Running], Ask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = NpuState(loads={"0": 0.5}, hertz=1e9, celsius=40.0)
    monkeypatch.setattr(npu_state, "read", lambda root: state)
    running = serve(slow(1))
    ask = prometheus(running)
    expressions = {
        (panel["title"], _with_values(target["expr"]))
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        if panel["title"] not in WITHOUT_DATA
    }
    assert len(expressions) > 10
    end = time.monotonic() + 60
    while expressions and time.monotonic() < end:
        assert running.ask(INFER, NULL_REQUEST).status == 200
        expressions = {each for each in expressions if not _has_numbers(ask, each[1])}
        time.sleep(0.2)
    assert not expressions, "these had no data within a minute"


def _with_values(expression: str) -> str:
    """An expression with what Grafana puts in for its variables."""
    for variable, value in (("${board}", ".*"), ("$board", ".*"), ("$__rate_interval", "4s")):
        expression = expression.replace(variable, value)
    return expression


def _has_numbers(ask: Ask, expression: str) -> bool:
    try:
        found = ask(expression)
    except OSError:
        return False  # Prometheus is still starting
    return any(each["value"][1] != "NaN" for each in found)
