"""How programs of each architecture are run: what is built, what is missing, what is handed on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from anynpu import soc
from anynpu.cli import main
from anynpu.errors import LibraryError
from anynpu.soft.driver import Board, Launch, Settings, architecture, build
from anynpu.soft.driver.launch import find_program, wait

RK3588 = Board(soc.find("rk3588"))
ARM_PROGRAM = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x28\x00" + bytes(64)
AARCH64_PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(64)
OWN = architecture.of_file(Path(sys.executable))


def has_tools(name: str) -> bool:
    found = architecture.find(name)
    return bool(shutil.which(f"{found.triplet}-gcc") and shutil.which(found.emulator))


@pytest.fixture
def arm_program(tmp_path: Path) -> Path:
    file = tmp_path / "program"
    file.write_bytes(ARM_PROGRAM)
    return file


@pytest.mark.parametrize(("data", "expected"), [(ARM_PROGRAM, "armhf"), (AARCH64_PROGRAM, "arm64")])
def test_the_architecture_of_a_file(tmp_path: Path, data: bytes, expected: str) -> None:
    file = tmp_path / "program"
    file.write_bytes(data)
    assert architecture.of_file(file).name == expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no ELF file"),
        (b"\x7fELF", "no ELF file"),
        (b"#!/bin/sh\necho\n" + bytes(20), "a script"),
        (b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x08\x00", "that ELF calls 8"),
        (b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\xb7", "with 64 bits"),
    ],
)
def test_files_that_are_no_program(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "program"
    file.write_bytes(data)
    with pytest.raises(LibraryError, match=words):
        architecture.of_file(file)


def test_a_missing_compiler_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arm_program: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(LibraryError, match="apt install gcc-arm-linux-gnueabihf"):
        build.driver(architecture.find("armhf"))
    with pytest.raises(LibraryError, match="apt install qemu-user"):
        Launch(arm_program, Settings(RK3588))


def test_a_compiler_for_another_processor_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, c_compiler: str
) -> None:
    found = shutil.which(c_compiler)
    monkeypatch.setenv("CC", str(found))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LibraryError, match=r"builds for .*install one"):
        architecture.find("arm64" if OWN.name == "amd64" else "amd64").compiler()


def test_a_compiler_s_words_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = -dumpmachine ] && echo {OWN.triplet} && exit\n'
        "echo no headers are here >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("ANYNPU_CACHE", str(tmp_path / "cache"))
    with pytest.raises(LibraryError, match="no headers are here"):
        build.driver(OWN)
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_the_library_is_built_once() -> None:
    first = build.driver(OWN)
    stamp = first.stat().st_mtime_ns
    assert build.driver(OWN) == first
    assert first.stat().st_mtime_ns == stamp


@pytest.mark.parametrize("name", ["armhf", "arm64", "amd64"])
def test_every_architecture_builds_without_a_warning(name: str) -> None:
    found = architecture.find(name)
    try:
        compiler = found.compiler()
    except LibraryError as reason:
        pytest.skip(str(reason))
    sources = map(str, build.driver_sources())
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", os.devnull]
    done = subprocess.run(
        [*compiler, *flags, *sources], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["armhf", "arm64"])
def test_programs_for_another_processor_run(tmp_path: Path, name: str) -> None:
    """A program that asks the kernel's driver for its version, in QEMU."""
    if not has_tools(name):
        pytest.skip(f"no compiler or no QEMU for {name}")
    source = tmp_path / "version.c"
    source.write_text(
        "#include <fcntl.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/ioctl.h>\n"
        "int main(int count, char **words) {\n"
        "  struct { uint32_t kind, value; } action = {1, 0};\n"
        '  int device = open("/dev/dri/card1", O_RDWR);\n'
        "  int code = ioctl(device, _IOWR('d', 0x40, action), &action);\n"
        '  printf("%d %u %s", code, action.value, words[count - 1]);\n'
        "  return 7;\n}\n"
    )
    program = tmp_path / "version"
    command = [*architecture.find(name).compiler(), "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    board = Board(soc.find("rk3588"), driver=(0, 8, 2))
    with Launch(program, Settings(board)) as launch:
        done = launch.run(["a word"])
    assert (done.returncode, done.stdout) == (7, b"0 802 a word")


def test_a_library_of_another_architecture(arm_program: Path, tmp_path: Path) -> None:
    if not has_tools("armhf"):
        pytest.skip("no compiler or no QEMU for armhf")
    library = tmp_path / "librknnrt.so"
    library.write_bytes(AARCH64_PROGRAM)
    with pytest.raises(LibraryError, match=r"is for arm64, but .* for armhf"):
        Launch(arm_program, Settings(RK3588, library))


def test_the_library_is_found_by_its_name(tmp_path: Path) -> None:
    library = tmp_path / "runtime-1.5.2.so"
    shutil.copyfile(build.driver(OWN), library)
    settings = Settings(RK3588, library, environment={"LD_LIBRARY_PATH": "/own"})
    with Launch(Path(sys.executable), settings) as launch:
        first, own = launch.environment()["LD_LIBRARY_PATH"].split(":")
        assert own == "/own"
        assert (Path(first) / "librknnrt.so").resolve() == library
    assert not Path(first).exists()


def test_a_folder_with_the_library(tmp_path: Path) -> None:
    with Launch(Path(sys.executable), Settings(RK3588, tmp_path)) as launch:
        assert launch.environment()["LD_LIBRARY_PATH"].split(":")[0] == str(tmp_path)


def test_programs_by_name() -> None:
    assert find_program("sh").name == "sh"
    assert find_program(sys.executable) == Path(sys.executable)
    with pytest.raises(LibraryError, match="no such program"):
        find_program("no-such-program-at-all")


# ------------------------------------------------------------------------------------- the command


def command(*arguments: str) -> int:
    """`anynpu soft driver` for this Python."""
    return main(["soft", "driver", *arguments])


def test_the_status_is_the_program_s(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os, sys; print(os.uname().machine); sys.exit(5)"
    assert command("--machine", "armv9", "--", sys.executable, "-c", code) == 5
    assert capfd.readouterr().out == "armv9\n"


def test_a_signal_is_told_as_a_shell_does() -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    assert command("--no-engine", "--", sys.executable, "-c", code) == 128 + 9


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 1, "name the program"),
        (("--", "no-such-program-at-all"), 1, "no such program"),
        (("--soc", "rk9999", "--", "sh"), 2, "unknown chip"),
        (("--driver-version", "9", "--", "sh"), 2, "three numbers"),
        (("--faults", "fly=EIO", "--", "sh"), 2, "isn't a fault"),
        (("--library", "/nonexistent/librknnrt.so", "--", "sh"), 1, "/nonexistent/librknnrt.so"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, words: str
) -> None:
    assert command(*arguments) == status
    assert words in capsys.readouterr().err


def test_jobs_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "from tests.soft.driver.kernel import Device as D\n"
        "d = D(); t = d.create(4096); d.submit(t, [(0, 0)])\n"
        "try: d.submit(t, [(0, 1)])\n"
        "except OSError as error: print(error.errno)\n"
    )
    assert command("--jobs", "--", sys.executable, "-c", code) == 0
    told = capfd.readouterr()
    assert told.out == "5\n"
    first, second = told.err.splitlines()
    assert first == "anynpu: 0 tasks"
    assert second.startswith("anynpu: the NPU can't compute a job: task 0")


def test_signals_are_handed_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    def send() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send).start()
    before = signal.getsignal(signal.SIGTERM)
    assert wait(process) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
