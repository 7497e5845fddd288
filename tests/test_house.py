"""House rules that no checker knows: who may import what, examples in the docs, a quiet import."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import frame_eval as fe

PACKAGE = Path(fe.__file__).parent
ANY = ["*"]

# Layer (a module or a folder of the package), the layers it may import, the libraries it may
# import; the standard library is free. Imports inside functions count as well.
LAYERS: list[tuple[str, list[str], list[str]]] = [
    ("errors", [], []),
    ("wording", [], []),
    (
        "columns",
        ["wording", "errors"],
        ["polars", "pandas", "narwhals", "pyarrow", "numpy", "duckdb"],
    ),
    ("slices", ["columns", "errors"], ["polars", "pandas", "narwhals", "numpy"]),
    ("metrics", ["metrics", "columns", "errors"], ["numpy", "polars", "narwhals"]),
    ("threads", [], []),
    ("table", ["threads", "errors"], ["numpy", "polars"]),  # Polars sorts faster
    ("running", ["errors"], ["tqdm"]),
    (
        "inference",
        ["inference", "table", "threads", "metrics", "running", "errors"],
        ["numpy", "scipy"],
    ),
    (
        "reduce*",
        ["reduce*", "table", "threads", "metrics", "slices", "columns", "running", "errors"],
        ANY,
    ),
    ("units", ["units", "metrics", "columns", "errors"], ["numpy", "polars", "narwhals"]),
    (
        "evaluation",
        ["reduce*", "slices", "columns", "running", "errors"],
        ["pandas", "polars", "narwhals"],
    ),
    (
        "verbs",
        [
            *["verbs", "evaluation", "reduce*", "units", "inference"],
            *["table", "threads", "metrics", "slices", "columns", "running", "errors"],
        ],
        ["numpy", "polars", "narwhals"],
    ),
    ("display", ["display", "errors"], ["polars", "narwhals"]),
    ("io", ["io", "errors"], ["polars", "pyarrow", "narwhals"]),
    ("accessor", ANY, ["polars", "pandas", "narwhals", "pyarrow", "duckdb"]),
    ("cli", ANY, ["polars"]),
    ("__init__", ANY, []),
]
ENGINES = {"dask", "duckdb", "ibis", "pandas", "pyspark", "spark"}
KNOW_ENGINES = ["reduce*", "columns", "slices", "accessor"]

MODULES = sorted(PACKAGE.rglob("*.py"))
each_module = pytest.mark.parametrize(
    "module", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)


def layer_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def imports_of(module: Path) -> Iterator[tuple[str, ...]]:
    """Each imported name in its parts, `("frame_eval", "errors", "EvalError")`, none relative."""
    package = ["frame_eval", *module.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = [*above, *(node.module or "").split(".")] if node.module else above
            yield from ((*base, alias.name) for alias in node.names)


def matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def allowed(name: tuple[str, ...], layers: list[str], libraries: list[str]) -> bool:
    if name[0] == "frame_eval":
        return matches(".".join(name[1:2]), layers)
    return name[0] in sys.stdlib_module_names or matches(name[0], libraries)


@each_module
def test_imports_follow_the_arrows(module: Path) -> None:
    rows = [row for row in LAYERS if fnmatch(layer_of(module), row[0])]
    assert rows, f"give {layer_of(module)} its place in LAYERS and in ARCHITECTURE.md"
    _, layers, libraries = rows[0]
    assert not [".".join(n) for n in imports_of(module) if not allowed(n, layers, libraries)]


@each_module
def test_few_know_engines(module: Path) -> None:
    """Below the doors no name and no string of the code, docstrings aside, says an engine."""
    if matches(layer_of(module), KNOW_ENGINES):
        return
    words = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            words.add(node.id.lower())
        elif isinstance(node, ast.Attribute):
            words.add(node.attr.lower())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value.lower())
    named = words & ENGINES
    assert not named


@pytest.mark.parametrize("name", [name for name in fe.__all__ if not name.startswith("__")])
def test_public_names_are_documented(name: str) -> None:
    """Each has a docstring of its own with an example, which the suite runs."""
    doc = getattr(fe, name).__doc__ or ""
    assert ">>>" in inspect.cleandoc(doc), f"fe.{name} needs a docstring with an example"


def test_import_is_quiet_and_light() -> None:
    """Without a word on either stream, and without the libraries that only some calls need."""
    heavy = {"scipy.stats", "pyarrow.dataset", "sklearn", "duckdb", "statsmodels"}
    code = f"import sys, frame_eval; print(*sorted({heavy} & sys.modules.keys()))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")
