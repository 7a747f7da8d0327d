"""The package as a whole: public names, what an import costs, which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anynpu

PACKAGE = Path(anynpu.__file__).parent


def test_every_public_name_is_there() -> None:
    for name in anynpu.__all__:
        assert getattr(anynpu, name) is not None
        assert name in dir(anynpu)
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        _ = anynpu.fly


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    assert imported == set(anynpu.__all__)


def test_modules_are_there_after_importing_the_package() -> None:
    program = "import anynpu; print(anynpu.errors, anynpu.compat, anynpu.rknn, anynpu.viplite)"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, anynpu; print(*{'numpy', 'onnx', 'onnxruntime', 'PIL'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_a_session_on_a_board_needs_numpy_alone() -> None:
    """Everything above the C ABI works with the optional packages missing."""
    program = (
        "import sys\n"
        "for name in ('onnx', 'onnxruntime', 'PIL', 'rich', 'skimage'): sys.modules[name] = None\n"
        "import anynpu\n"
        "assert all(getattr(anynpu, name) is not None for name in anynpu.__all__)\n"
        "import anynpu.rknn.library, anynpu.soft.rknn, anynpu.cli\n"
        "import anynpu.viplite.awnn, anynpu.viplite.group, anynpu.viplite.hardware\n"
        "try:\n"
        "    anynpu.Model(b'VPMN' + bytes(100), library='soft')\n"
        "except anynpu.LibraryError as error: sys.stderr.write(str(error))\n"
        "try:\n"
        "    anynpu.Model(b'x', library='soft')\n"
        "except anynpu.ModelError: pass\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("pip install 'anynpu[soft]'") == 2


def imports() -> list[tuple[str, str]]:
    """(module, module it imports) for every import of anynpu's own modules."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = ("anynpu", *file.relative_to(PACKAGE).with_suffix("").parts)
        package = parts[:-1]
        module = ".".join(package if parts[-1] == "__init__" else parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) - node.level + 1]
                target = ".".join([*base, *([node.module] if node.module else [])])
                found += [(module, imported(target, alias.name)) for alias in node.names]
    return found


def imported(package: str, name: str) -> str:
    """The module that ``from package import name`` is about: one of the package's, or itself."""
    path = PACKAGE.parent.joinpath(*package.split("."), name)
    return f"{package}.{name}" if path.is_dir() or path.with_suffix(".py").is_file() else package


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_nothing_above_the_c_abi_knows_the_soft_npu() -> None:
    above = {
        (module, target)
        for module, target in imports()
        if inside(target, "anynpu.soft")
        and not inside(module, "anynpu.soft")
        and not inside(module, "anynpu.cli")
    }
    assert above == {
        ("anynpu.rknn.library", "anynpu.soft.rknn"),
        ("anynpu.viplite.library", "anynpu.soft.viplite"),
    }


def test_the_soft_npu_imports_only_declarations_and_pure_functions() -> None:
    allowed = (
        "anynpu.soft", "anynpu.declarations", "anynpu.c_header",
        "anynpu.rknn.abi", "anynpu.rknn.header", "anynpu.rknn.model_file",
        "anynpu.rknn.matmul_product", "anynpu.rknn.matmul_rules",
        "anynpu.viplite.abi", "anynpu.viplite.formats", "anynpu.viplite.header",
        "anynpu.soc", "anynpu.tensor", "anynpu.layouts", "anynpu.matmul_layouts",
        "anynpu.errors", "anynpu._version", "anynpu.native", "anynpu.process",
        "anynpu.structures", "anynpu.lifetime",
    )  # fmt: skip
    wrong = [
        (module, target)
        for module, target in imports()
        if inside(module, "anynpu.soft") and not any(inside(target, package) for package in allowed)
    ]
    assert wrong == []


def test_layers_import_downwards() -> None:
    layers = [
        ("anynpu.cli",),
        ("anynpu.session", "anynpu.model"),
        ("anynpu.backends",),
        ("anynpu.rknn", "anynpu.viplite"),
    ]
    for height, upper in enumerate(layers):
        for lower in layers[height + 1 :]:
            upwards = [
                (module, target)
                for module, target in imports()
                if any(inside(module, each) for each in lower)
                and any(inside(target, each) for each in upper)
            ]
            assert upwards == []
    siblings = [
        m for m, t in imports() if inside(m, "anynpu.model") and inside(t, "anynpu.session")
    ]
    assert siblings == []


def test_vendors_do_not_know_each_other() -> None:
    for one, other in (("rknn", "viplite"), ("viplite", "rknn")):
        for place in ("anynpu", "anynpu.backends"):
            known = [
                (module, target)
                for module, target in imports()
                if inside(module, f"{place}.{one}") and inside(target, f"anynpu.{other}")
            ]
            assert known == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(file)
        for file in PACKAGE.rglob("*.py")
        if not ast.get_docstring(ast.parse(file.read_text())) and file.read_text().strip()
    ]
    assert silent == []
