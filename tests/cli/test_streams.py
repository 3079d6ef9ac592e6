"""Neither who reads the output nor what the environment says decides the outcome."""

import os
import signal
import subprocess
import sys

import pytest

from shiftgauge.cli.screen import LINES
from shiftgauge.errors import printable

# A shell's background job inherits that interrupts are ignored; a terminal's does not.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
COMMAND = LISTEN + "from _shiftgauge_command import main; main()"
posix = pytest.mark.skipif(os.name != "posix", reason="signals and pipes")


def process(*words, code=COMMAND, **options):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], text=True, **options)


def finished(*words, env=None, code=COMMAND, **options):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with process(*words, code=code, env={**os.environ, **(env or {})}, **streams) as running:
        out, err = running.communicate(timeout=600)
    return running.returncode, out, err


@pytest.fixture
def unread():
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.slow
@posix
def test_a_limit_is_exceeded_and_rows_are_written_whoever_reads(files, tmp_path, unread):
    words = ("estimate", *files, "-m", "ac", "--replicates", "0", "--fail-above", "0.01", "--save-rows")
    assert finished(*words, tmp_path / "read.csv")[0] == 1
    assert finished(*words, tmp_path / "unread.csv", stdout=unread)[0] == 1
    assert (tmp_path / "unread.csv").read_bytes() == (tmp_path / "read.csv").read_bytes()
    assert finished(*words, tmp_path / "silent.csv", stdout=unread, stderr=unread)[0] == 1


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    "words", [["doctor"], ["estimate", "--json", "-m", "ac"], ["metrics", "--confusion"]]
)
def test_the_exit_code_is_that_of_a_reader(files, unread, words):
    code, _, err = finished(words[0], *files, *words[1:])
    assert finished(words[0], *files, *words[1:], stdout=unread) == (code, None, err)


@posix
@pytest.mark.parametrize("words", [["--help"], ["estimate", "--help"], ["methods"], ["--version"]])
def test_help_that_nobody_reads(unread, words):
    assert finished(*words, stdout=unread) == (0, None, "")


def stalling(folder, package, how):
    """A folder in which a package stands whose import says so and takes a minute."""
    (folder / package).mkdir()
    text = f"print('importing', flush=True)\nimport time\n{how}\n"
    (folder / package / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@posix
@pytest.mark.parametrize(
    ("package", "how", "code"),
    [
        ("numpy", "time.sleep(60)", COMMAND),  # while the package itself is imported
        ("numpy", "try: time.sleep(60)\nexcept BaseException: raise ImportError('no') from None", COMMAND),
        ("scipy", "time.sleep(60)", COMMAND),  # while a command imports what it needs
        (
            "scipy",
            "try: time.sleep(60)\nexcept KeyboardInterrupt as e: raise RuntimeError('no') from e",
            COMMAND,
        ),
    ],
)
def test_an_interrupt_during_imports_is_one_line(tmp_path, files, package, how, code):
    environment = stalling(tmp_path, package, how)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with process("estimate", *files, code=code, env=environment, **pipes) as running:
        assert running.stdout.readline() == "importing\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=50)
    assert (running.returncode, err) == (130, "shiftgauge: interrupted\n")


@posix
def test_nothing_is_imported_before_interrupts_are_one_line():
    """What the command's first module imports is there already: no time in which Ctrl-C is a traceback."""
    code = (
        "import sys; before = set(sys.modules); import _shiftgauge_command; print(set(sys.modules) - before)"
    )
    _, out, err = finished(code=code)
    assert (out.strip(), err) == ("{'_shiftgauge_command'}", "")


@posix
def test_an_interrupt_that_is_ignored_stays_ignored(tmp_path, files):
    """As under nohup."""
    environment = stalling(tmp_path, "numpy", "time.sleep(1); raise SystemExit(5)")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ignoring = COMMAND.replace("default_int_handler", "SIG_IGN")
    with process("methods", code=ignoring, env=environment, **pipes) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=50)
    assert running.returncode == 5


def test_as_a_module():
    ran = subprocess.run(
        [sys.executable, "-m", "shiftgauge", "--version"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[0], ran.stderr) == (0, "shiftgauge", "")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"COLUMNS": "0", "MPLBACKEND": "module://no_such_backend"}, ""),
        pytest.param({"COLUMNS": "00"}, "", marks=pytest.mark.slow),
        pytest.param(
            {"NUMBA_DISABLE_JIT": "1"},
            "shiftgauge: NUMBA_DISABLE_JIT is ignored: the solver runs compiled only\n",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_variables_of_other_programs(files, tmp_path, variables, said):
    code, out, err = finished("methods", env=variables)
    assert (code, err) == (0, said)
    assert "cott" in out
    words = ("report", *files, "--replicates", "0", "-m", "scot", "-o", tmp_path / "r.html", "--check")
    code, _, err = finished(*words, env=variables)
    compiled = "".join(line for line in err.splitlines(True) if not line.startswith("compiling the "))
    assert (code, compiled) == (0, said)
    assert (tmp_path / "r.html").stat().st_size > 10_000


def test_names_cannot_steer_the_terminal(shiftgauge, tmp_path):
    r"""An escape sequence in a class name is spelled out, in tables and in failures."""
    odd = "\x1b[2J\u202egnp"
    table = f"prob_{odd},prob_b,label\n" + f"0.9,0.1,{odd}\n0.2,0.8,b\n" * 20
    (tmp_path / "s.csv").write_text(table, encoding="utf-8")
    ran = shiftgauge("metrics", tmp_path / "s.csv", tmp_path / "s.csv", "--confusion")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert "\\x1b[2J\\u202egnp" in ran.out
    ran = shiftgauge("estimate", tmp_path / f"{odd}.csv", tmp_path / "s.csv")
    assert "\\x1b[2J" in ran.err
    assert "\x1b" not in ran.err
    assert printable("plain\ttext\nünder 日本", LINES) == "plain\ttext\nünder 日本"
    assert printable("a\rb\x9b", LINES) == "a\\rb\\x9b"
