"""The dispatcher: what it answers without loading anything, and what becomes of a command's errors."""

import os
import subprocess
import sys
import types

import pytest

import tacit
from tacit.cli import COMMANDS, main
from tacit.errors import UserError

HEAVY = ("torch", "tyro", "rich", "numpy", "torchvision", "pyarrow")


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of a command's module."""

    def put(function):
        module = types.ModuleType("tacit.cli.demo")
        module.run = function
        monkeypatch.setitem(sys.modules, "tacit.cli.demo", module)

    return put


@pytest.mark.parametrize("words", [["--help"], [], ["--version"]])
def test_the_first_answers_load_nothing_heavy(words):
    done = python("-X", "importtime", "-m", "tacit", *words)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert done.stdout
    assert "tacit" in loaded
    assert not loaded & set(HEAVY)


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


def test_no_words_is_help(capsys):
    main([])
    plain = capsys.readouterr().out
    main(["--help"])
    assert plain == capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {tacit.__version__}\n"


@pytest.mark.parametrize(("typed", "meant"), [("trian", "train"), ("method", "methods"), ("sorces", "sources")])
def test_unknown_command_names_the_nearest(typed, meant, capsys):
    assert main([typed]) == 2
    said = capsys.readouterr().err
    assert f"there is no command '{typed}'. Did you mean {meant}" in " ".join(said.split())


def test_unknown_command_without_a_near_one_lists_all(capsys):
    assert main(["xyzzy"]) == 2
    assert "observe" in capsys.readouterr().err


def test_user_error_is_a_message_and_code_2(command, capsys):
    command(lambda argv: (_ for _ in ()).throw(UserError("the folder x is empty; name another")))
    assert main(["demo"]) == 2
    said = capsys.readouterr()
    assert said.err == "tacit: the folder x is empty; name another\n"
    assert said.out == ""


def test_messages_are_wrapped_but_keep_their_own_lines(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")

    def fail(argv):
        raise UserError("these files are missing, " + "and so are others, " * 5 + "\n  a/very/long/" + "x" * 70)

    command(fail)
    main(["demo"])
    lines = capsys.readouterr().err.splitlines()
    assert all(len(line) <= 60 for line in lines[:-1])
    assert lines[-1] == "  a/very/long/" + "x" * 70


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_debug_shows_the_traceback(command, capsys, monkeypatch, how):
    def fail(argv):
        assert argv == ["a"]  # --debug is the frame's, never the command's
        raise UserError("wrong")

    command(fail)
    if how == "environment":
        monkeypatch.setenv("TACIT_DEBUG", "1")
    assert main(["demo", "a", *(["--debug"] if how == "flag" else [])]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("tacit: wrong\n")


def test_a_bug_asks_to_be_reported(command, capsys):
    command(lambda argv: 1 // 0)
    assert main(["demo"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "report it" in said


def test_interrupt_is_130(command, capsys):
    def stop(argv):
        raise KeyboardInterrupt

    command(stop)
    assert main(["demo"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_missing_package_is_named(command, capsys):
    def need(argv):
        import surely_not_installed  # noqa: F401

    command(need)
    assert main(["demo"]) == 2
    assert "pip install surely_not_installed" in " ".join(capsys.readouterr().err.split())


def test_quiet_reaches_the_console(command, capsys):
    def speak(argv):
        from tacit.cli import console

        console.notice("by the way")
        console.warn("look here")
        return 0

    command(speak)
    assert main(["demo"]) == 0
    assert "by the way" in capsys.readouterr().err
    assert main(["demo", "--quiet"]) == 0
    assert capsys.readouterr().err == "warning: look here\n"


def test_a_closed_pipe_is_quiet():
    code = (
        "import os, sys, types\n"
        "module = types.ModuleType('tacit.cli.demo')\n"
        "module.run = lambda argv: [print('x' * 100) for _ in range(100_000)] and 0\n"
        "sys.modules['tacit.cli.demo'] = module\n"
        "from tacit.cli import main\n"
        "sys.exit(main(['demo']))\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""
