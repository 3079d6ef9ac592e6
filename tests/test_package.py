"""The package as a stranger meets it: a wheel alone in a clean environment, light imports, docstrings that run."""

import ast
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import shiftgauge

ROOT = Path(__file__).resolve().parent.parent
OPTIONAL = (
    "torch",
    "transformers",
    "cv2",
    "PIL",
    "sklearn",
    "sqlalchemy",
    "fastapi",
    "prometheus_client",
)


TOP = list(pkgutil.iter_modules(shiftgauge.__path__, "shiftgauge."))
PACKAGES = ["shiftgauge", *sorted(info.name for info in TOP if info.ispkg)]


def modules(package):
    """The names of a package's modules; of the outermost package, of those beside its packages."""
    yield package
    if package == "shiftgauge":
        yield from (info.name for info in TOP if not info.ispkg)
    else:
        path = importlib.import_module(package).__path__
        yield from (info.name for info in pkgutil.walk_packages(path, f"{package}."))


@pytest.mark.extended
@pytest.mark.parametrize("package", PACKAGES)
def test_docstring_examples_run(package):
    tried, missing = 0, set()
    for name in modules(package):
        try:
            module = importlib.import_module(name)
        except ImportError as problem:
            needed = str(problem.name).split(".")[0]
            if needed not in OPTIONAL:
                raise
            missing.add(f"{name} needs {needed}")
            continue
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert result.failed == 0, name
        tried += result.attempted
    if missing:
        pytest.skip(f"{tried} examples ran; the rest did not: {', '.join(sorted(missing))}")


def python(code, **variables):
    """Run code in a fresh process and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_light():
    """`import shiftgauge` brings numpy and nothing heavy; beyond numpy it takes a fraction of a second."""
    code = (
        "import sys, time, numpy\n"
        "begun = time.process_time(); import shiftgauge; spent = time.process_time() - begun\n"
        "heavy = {'scipy', 'numba', 'pyarrow', 'torch', 'matplotlib', 'pandas', 'rich', 'typer'} & set(sys.modules)\n"
        "print(sorted(heavy), spent)"
    )
    runs = [python(code).rsplit(" ", 1) for _ in range(3)]
    assert runs[0][0] == "[]"
    assert min(float(seconds) for _, seconds in runs) < 1.0  # 0.2 s on a quiet machine


def imported(tree):
    """The top-level packages that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).split(".")[0]


def test_every_import_is_declared():
    """Top-level packages that the code imports are dependencies, optional extras or the standard library."""
    declared = set(
        re.findall(r'"([A-Za-z0-9_-]+)(?:\[[a-z,]+\])?[>=<]', (ROOT / "pyproject.toml").read_text())
    )
    names = {
        "opencv-python-headless": "cv2",
        "pillow": "PIL",
        "scikit-learn": "sklearn",
        "prometheus-client": "prometheus_client",
    }
    known = (
        {names.get(name, name) for name in declared}
        | set(sys.stdlib_module_names)
        | {"shiftgauge", "_shiftgauge_command", "__future__"}
    )
    command = ROOT / "src" / "_shiftgauge_command.py"
    for file, tree in [*trees(), (command.name, ast.parse(command.read_text()))]:
        for found in imported(tree):
            assert found in known, f"{file} imports {found}, which is not declared"


def test_readme_shows_what_its_code_prints(capsys):
    """The README's Python runs from top to bottom and prints what stands below it; its commands exist."""
    text = (ROOT / "README.md").read_text()
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", text, re.S)
    assert sum(bool(shown) for _, shown in blocks) >= 2
    for code, shown in blocks:
        exec(code, names)
        assert capsys.readouterr().out == shown
    commands = set(re.findall(r"^shiftgauge ([a-z-]+)", text, re.M))
    assert commands >= {"estimate", "compare", "report"}


def test_random_numbers_are_never_global():
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text()
        assert not re.search(r"np\.random\.(seed|rand|randn|normal|choice|shuffle|permutation)\(", text), file


@pytest.fixture(scope="session")
def clean_environment(tmp_path_factory):
    """A new environment that holds the built wheel and its declared dependencies, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run(
        [binaries / "python", "-m", "pip", "install", "--quiet", wheel], check=True, capture_output=True
    )
    return binaries


@pytest.mark.slow
def test_the_wheel_alone(clean_environment, tmp_path):
    """Installed by itself, the command shows its help, runs the demo and estimates from files."""

    def run(*words):
        return subprocess.run(
            [clean_environment / "shiftgauge", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    assert "estimate" in run("--help").stdout
    demo = run("demo")
    assert demo.returncode == 0, demo.stderr
    assert "MAE" in demo.stdout
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    np.savez(tmp_path / "s.npz", logits=rng.normal(size=(300, 3)) + 2 * np.eye(3)[labels], labels=labels)
    done = run("compare", "s.npz", "s.npz", "--check")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_no_module_shares_its_name_with_what_its_package_exports():
    """`import shiftgauge.package.module` gives the module, whatever the package exports."""
    shadowed = []
    packages = [
        "shiftgauge",
        *(r.name for r in pkgutil.walk_packages(shiftgauge.__path__, "shiftgauge.") if r.ispkg),
    ]
    for package_name in packages:
        if ".networks" in package_name:
            continue
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            if not isinstance(getattr(package, module.name, os), type(os)):
                shadowed.append(f"{package_name}.{module.name}")
    assert shadowed == []


@cache
def trees():
    """Every file of the package, with its syntax tree."""
    package = ROOT / "src" / "shiftgauge"
    return [
        (file.relative_to(package), ast.parse(file.read_text(encoding="utf-8")))
        for file in sorted(package.rglob("*.py"))
    ]


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_function_has_over_60_lines_of_code():
    """Its docstring does not count."""
    long = []
    for file, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
                lines = node.end_lineno - first.lineno + 1
                if lines > 60:
                    long.append(f"{file}: {node.name}, {lines} lines")
    assert long == []


def test_imports_of_our_own_stand_at_the_top():
    """Except in the command, where they keep the start quick, and of compiled kernels, which bring numba along."""
    inside = []
    for file, tree in trees():
        if file.parts[0] in ("cli", "__init__.py"):
            continue
        for function in ast.walk(tree):
            if not isinstance(function, FUNCTIONS):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shiftgauge"):
                    names = [node.module, *(alias.name for alias in node.names)]
                    if not any("_kernels" in name or name == "shiftgauge.jit" for name in names):
                        inside.append(f"{file}: {function.name} imports {node.module}")
    assert inside == []


def private_imports(package, tree):
    """What a module of `package` ("reports") imports that is private in another package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            private = any(part.startswith("_") and part != "__version__" for part in parts[2:])
            if parts[0] == "shiftgauge" and private and parts[1] != package:
                yield name


def test_nothing_private_is_imported_across_packages():
    found = [
        f"{file} imports {name}"
        for file, tree in trees()
        for name in private_imports(file.parts[0].removesuffix(".py"), tree)
    ]
    assert found == []


def test_the_search_for_private_imports_finds_them():
    def imports_of(package, line):
        return list(private_imports(package, ast.parse(line)))

    assert imports_of("reports", "from shiftgauge.plots._style import INK")
    assert imports_of("reports", "from shiftgauge.plots.style import _ink")
    assert imports_of("reports", "import shiftgauge.transport._kernels")
    assert not imports_of("plots", "from shiftgauge.plots._style import INK")
    assert not imports_of("cli", "from shiftgauge._version import __version__")


#: Packages that an extra brings and the core does without.
OF_EXTRAS = {
    "torch",
    "transformers",
    "sklearn",
    "pandas",
    "mlflow",
    "dask",
    "distributed",
    "cloudpickle",
    "pyspark",
}


def test_optional_packages_are_imported_by_the_helper_that_names_the_extra():
    """Except in the experiments and the monitor, which are installed as a whole with an extra of their own."""
    found = [
        f"{file} imports {name}"
        for file, tree in trees()
        if file.parts[0] not in ("experiments", "monitor")
        for name in imported(tree)
        if name in OF_EXTRAS
    ]
    assert found == []


def test_no_two_public_classes_share_a_name():
    seen = {}
    for file, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                seen.setdefault(node.name, []).append(str(file))
    assert {name: files for name, files in seen.items() if len(files) > 1} == {}


def test_every_public_name_is_there():
    """`from PACKAGE import *` works for every package and module that lists its names."""
    for found in pkgutil.walk_packages(shiftgauge.__path__, "shiftgauge."):
        if "__main__" in found.name:
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # an optional package is not installed
            continue
        exec(f"from {found.name} import *", {})
        assert len(set(getattr(module, "__all__", ()))) == len(getattr(module, "__all__", ()))
