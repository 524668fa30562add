"""The command line's frame: finds the command, runs it, turns its errors into messages and exit codes.

It imports nothing heavy, so `tacit --help` answers before torch could even be found on disk. A command is the module
`tacit.cli.<name>` with `run(argv: list[str]) -> int`, imported when it is called.

Exit codes: 0 done, 1 a bug of ours, 2 something the user can mend, 130 interrupted, 141 the reader of a pipe left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from ..errors import UserError

COMMANDS = {
    "demo": "the embedded scenes from end to end: several methods, a table and a report in minutes",
    "train": "train one method on one source and write a run directory",
    "evaluate": "score a run's model on a split against known labels",
    "predict": "probabilities and tags for images that have no labels",
    "compare": "run directories -> a table, and one self-contained report page",
    "maps": "where the nets of runs look: class maps over images, as a page and as pictures",
    "landscape": "the training loss around runs' solutions, for the report to draw",
    "sweep": "train a method along an axis, such as the share of known labels; resume, tabulate and draw it",
    "table": "run, resume or collect the recipes of a published table",
    "observe": "hide labels as an observation model does and write what is left",
    "features": "compute a backbone's features once, or bring in ready-made ones",
    "methods": "list the methods and their options",
    "sources": "list the sources, the files they expect and their options",
}
EXAMPLES = (
    "tacit demo",
    "tacit train voc2012:VOCdevkit --method role --k 1.5 --observe single-positive --protocol linear --out runs/role",
    "tacit compare runs/* --report report.html",
)
ISSUES = "https://github.com/tacit-labels/tacit/issues"
ANYWHERE = {
    "--quiet": "no progress, only results and problems",
    "--debug": "show the traceback of every error (also TACIT_DEBUG=1)",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never raises, whatever goes wrong inside it."""
    # Threads that wait for each other should sleep, not spin: on a machine that is busy with something else, spinning
    # made training on images ten times slower. OpenMP reads this when torch is loaded, which is later than here.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or os.environ.get("TACIT_DEBUG", "") not in ("", "0")
    quiet = "--quiet" in words
    words = [word for word in words if word not in ANYWHERE]
    try:
        code = _guarded(words, quiet, debug)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (`| head`) left. Python flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _guarded(words: list[str], quiet: bool, debug: bool) -> int:
    try:
        return _dispatch(words, quiet)
    except BrokenPipeError:
        raise
    except SystemExit as stop:  # --help of a command ends this way
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except UserError as error:
        if debug:
            _traceback()
        _say(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if debug or package in ("", "tacit"):
            return _bug()
        _say(f"this needs the package '{package}', which is not installed here: pip install {package}")
        return 2
    except Exception:
        return _bug()


def _dispatch(words: list[str], quiet: bool) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        from .. import __version__

        print(f"tacit {__version__}")
        return 0
    for word in words:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"{word!a} is not UTF-8 text; rename that file or folder, or name the folder it is in.")
    name, *rest = words
    if name not in COMMANDS:
        raise UserError(_unknown_command(name))
    from .console import set_quiet

    set_quiet(quiet)
    run: Callable[[list[str]], int] = import_module(f"tacit.cli.{name}").run
    return run(rest)


def usage() -> str:
    """The text of `tacit --help`."""
    width = max(map(len, [*COMMANDS, *ANYWHERE]))
    lines = [
        "usage: tacit COMMAND …",
        "",
        "Multi-label image classifiers when most labels were never written down.",
        "",
    ]
    lines += ["commands:", *(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()), ""]
    lines += ["with any command:", f"  {'--help':<{width}}  its flags, with their defaults"]
    lines += [*(f"  {flag:<{width}}  {text}" for flag, text in ANYWHERE.items()), ""]
    lines += ["examples:", *(f"  {example}" for example in EXAMPLES)]
    return "\n".join(lines)


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Commands: {', '.join(COMMANDS)}."
    return f"there is no command '{name}'. {hint} `tacit --help` describes them."


def _say(message: str) -> None:
    """A message on stderr, wrapped to the terminal; lines the message itself broke or indented stay so."""
    from shutil import get_terminal_size
    from textwrap import TextWrapper

    width = max(40, min(get_terminal_size().columns, 100))
    wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = []
    for line in f"tacit: {message}".splitlines():
        text = line.lstrip()
        wrapper.initial_indent = wrapper.subsequent_indent = " " * (len(line) - len(text))
        lines += wrapper.wrap(text) or [""]
    print("\n".join(lines), file=sys.stderr)


def _traceback() -> None:
    from traceback import print_exc

    print_exc(file=sys.stderr)


def _bug() -> int:
    _traceback()
    _say(f"this is a bug in Tacit, not in what you did. Please report it with the lines above: {ISSUES}")
    return 1
