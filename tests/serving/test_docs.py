"""docs/serving.md and deploy/: every option is listed, examples run, files are well formed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from anynpu import cli
from anynpu.cli import serve as command
from anynpu.serving.answers import Answer
from anynpu.serving.settings import ServeSettings, option_fields, read_toml
from anynpu.soft.build import BuildOptions, build_file

from .. import models
from .conftest import Serve

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text()
README = (ROOT / "README.md").read_text()


def test_every_option_is_listed_with_its_default() -> None:
    table = PAGE.partition("| option | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.+?`) \| (.*?) \|", table, re.M)
    listed = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    assert list(listed) == [entry.name for entry in option_fields()]
    for entry in option_fields():
        default = entry.default
        shown = str(default).lower() if isinstance(default, bool) else str(default) or "none"
        assert shown in listed[entry.name], entry.name


def test_every_answer_is_in_the_table() -> None:
    for answer in set(Answer) - {Answer.OK, Answer.NO_METHOD, Answer.NOT_SUPPORTED, Answer.GONE}:
        assert str(answer.status) in PAGE
        assert answer.code in PAGE


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The options of each run of the command, which does nothing."""
    called: list[object] = []

    def run(options: object) -> int:
        called.append(options)
        return 0

    monkeypatch.setattr(command, "run", run)
    return called


def test_the_commands_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    called = count_runs(monkeypatch)
    lines = re.findall(r"^(?:    |\$ )(anynpu .*)$", PAGE, re.M)
    for line in lines:
        assert cli.main(shlex.split(line, comments=True)[1:]) == 0
    assert len(called) == len(lines) >= 4


def test_the_toml_file_is_taken(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    path = tmp_path / "server.toml"
    path.write_text(text)
    settings = ServeSettings(**read_toml(path))
    assert [model.name for model in settings.models] == ["detector", "detector_wide"]


@pytest.mark.filterwarnings("ignore")
def test_the_answers_are_those_shown(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "adder.rknn"
    build_file(models.add_one((1, 4)), str(path), BuildOptions())
    running = serve(path)
    calls = re.findall(r"^\$ curl -s 127.0.0.1:8000(\S+)(?: -d '(.*)')?\n(.*)$", PAGE, re.M)
    calls += re.findall(r"^\$ curl -s 127.0.0.1:8000(\S+)(?: -d '(.*)')?\n(.*)$", README, re.M)
    assert len(calls) == 4
    for url, body, answer in calls:
        answered = running.ask(url, body.encode() if body else None)
        assert answered.body.decode() == answer
    pytest.importorskip("tritonclient.grpc")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (program,) = re.findall(r'^\$ python -c "\n(.*?)"\n', README, re.M | re.S)
    for code in (block, program):
        exec(code.replace("127.0.0.1:8001", running.grpc), {})
        assert capsys.readouterr().out == "[[2. 3. 4. 5.]]\n"


def test_the_dashboard_asks_for_metrics_that_there_are(serve: Serve, add: Path) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    running = serve(add)
    x = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5], "data": [0] * 60}
    assert running.ask("/v2/models/add/infer", {"inputs": [x]}).status == 200
    there = set(re.findall(r"^(\w+)[ {]", running.ask("/metrics").body.decode(), re.M))
    there |= {"anynpu_npu_load_ratio", "anynpu_npu_clock_hertz", "anynpu_npu_temperature_celsius"}
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b((?:anynpu|process)_\w+)", target["expr"])
    }
    assert len(asked) >= 8
    assert asked <= there
    for name in {each for each in there if each.startswith("anynpu") and "_created" not in each}:
        assert re.sub(r"_(bucket|count|sum)$", "", name) in PAGE


@pytest.mark.parametrize("name", ["README.md", "Dockerfile", "kubernetes.yaml"])
def test_the_files_beside_it_exist(name: str) -> None:
    assert (ROOT / "deploy" / name).is_file()


def arguments_of(text: str) -> list[list[str]]:
    found: Any = re.findall(r"ENTRYPOINT \[(.*)\]|ExecStart=(.*)", text)
    return [shlex.split((a or b).replace(",", " ")) for a, b in found]


@pytest.mark.parametrize("name", ["Dockerfile", "anynpu-serve.service"])
def test_what_starts_it_is_a_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = count_runs(monkeypatch)
    (given,) = arguments_of((ROOT / "deploy" / name).read_text())
    assert Path(given[0]).name == "anynpu"
    assert cli.main(given[1:]) == 0
    assert len(called) == 1
