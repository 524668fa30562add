"""`tacit maps RUNS… [--images …]`: where the nets of runs look, class by class, as a page and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ..errors import UserError
from . import console
from .options import parse
from .recipe import OptionError

if TYPE_CHECKING:
    from ..map_pictures import Looker, Subject
    from ..report.map_grid import Pictured

ABOUT = """Show class maps as heat over images: what is there and what is predicted, or the classes that are named.
WORDS are run directories (several are shown one under the other: before and after) and then images: files, folders,
patterns, or label tables, whose labels are the truth. Without images: some of the first run's own test images."""
LISTED = 20  # unreadable files named before they are only counted
SHOWN = 40  # lines in the terminal; the page has all
MOST = 200  # images on a page: more would make one that no browser likes


@dataclass(frozen=True)
class MapsCommand:
    words: tyro.conf.Positional[tuple[str, ...]] = ()  # run directories, then images
    classes: str | None = None  # by name, with commas between; unset: those that are there, and those predicted
    out: Path = Path("maps.html")  # a page that ends in .html, or a folder for the page and a PNG per map
    count: int = 12  # test images, where none are named
    threshold: float | None = None  # a class is predicted from this probability on; unset: 0.5
    folder: Path | None = None  # what image names in a label table are relative to; unset: the table's folder
    data: str | None = None  # where the first run's source is now, where no images are named
    device: str = "auto"  # auto, cpu, cuda, cuda:1


def run(argv: Sequence[str]) -> int:
    config = parse("maps", MapsCommand, argv, about=ABOUT, recipes=False).config
    runs, images = split_words(config.words)
    _check(config, runs)
    from ..map_pictures import columns_of, load_lookers, own_subjects, subjects_of

    lookers = load_lookers(runs, config.device)
    classes = lookers[0].model.classes
    columns = None if config.classes is None else columns_of(named_classes(config.classes, classes), classes)
    if images:
        subjects = subjects_of(images, config.folder, classes)
    else:
        subjects = own_subjects(runs[0], config.data, config.count)
    if len(subjects) > MOST:
        raise OptionError(f"{len(subjects):,} images: a page holds at most {MOST}. Name fewer.")
    failures: list[str] = []
    pictures = _look(lookers, subjects, columns, config, failures)
    if not pictures:
        raise UserError(f"none of the {len(failures):,} images can be read:{_lines(failures)}")
    _show(pictures)
    _write(pictures, config.out)
    if failures:
        console.warn(f"{len(failures):,} of {len(subjects):,} images cannot be read: left out{_lines(failures)}")
    return 0


def split_words(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Run directories (the leading words that are folders with a model or a run's settings), then the images."""
    runs: list[Path] = []
    for at, word in enumerate(words):
        path = Path(word)
        if at and not any((path / name).is_file() for name in ("model.json", "config.toml")):
            return runs, list(words[at:])
        runs.append(path)
    return runs, []


def named_classes(text: str, classes: Sequence[str]) -> list[str]:
    """'dog,cat' -> dog, cat; a name that has a comma itself may be written whole."""
    return [text] if text in classes else [part.strip() for part in text.split(",") if part.strip()]


def _check(config: MapsCommand, runs: Sequence[Path]) -> None:
    if not runs:
        raise OptionError("tacit maps needs the directory of a finished run, then images")
    if config.classes is not None and not config.classes.strip(" ,"):
        raise OptionError("--classes names no class: give some, such as --classes dog,cat")
    if config.count < 1:
        raise OptionError(f"--count {config.count}: must be at least 1")
    if config.threshold is not None and not 0 <= config.threshold <= 1:
        raise OptionError(f"--threshold {config.threshold:g}: scores are probabilities, give a number from 0 to 1")
    if config.out.suffix.lower() == ".html" and config.out.is_dir():
        raise OptionError(f"--out {config.out}: this is a folder, and its name ends like a page's; name another")
    if config.out.suffix.lower() != ".html" and config.out.is_file():
        raise OptionError(f"--out {config.out}: this is a file; name a folder, or a page that ends in .html")


def _look(
    lookers: Sequence[Looker],
    subjects: Sequence[Subject],
    columns: Sequence[int] | None,
    config: MapsCommand,
    failures: list[str],
) -> list[Pictured]:
    from ..map_pictures import look

    pictures = []
    with console.progress("looking", len(subjects), "images") as bar:
        for found in look(lookers, subjects, columns=columns, threshold=config.threshold, failures=failures):
            bar.advance()
            if found is not None:
                pictures.append(found)
    return pictures


def _show(pictures: Sequence[Pictured]) -> None:
    """The numbers under the maps, where they fit on a screen."""
    rows = [
        (picture.name, name, truth, line.label, f"{tile.probability:.3f}", f"{tile.mean:.3f}", f"{tile.strongest:.3f}")
        for picture in pictures
        for at, (name, truth) in enumerate(zip(picture.classes, picture.truth, strict=True))
        for line in picture.lines
        if (tile := line.tiles[at]) is not None
    ]
    if len(rows) <= SHOWN:
        columns = ("image", "class", "truth", "run", "probability", "a", "s")
        console.table(columns, rows, right=columns[4:])


def _write(pictures: Sequence[Pictured], out: Path) -> None:
    from .. import __version__
    from ..report.maps_page import PAGE, write_maps_page, write_pngs

    if out.suffix.lower() == ".html":
        write_maps_page(pictures, out, tacit=__version__)
        print(f"Written: {out} ({len(pictures):,} images)")
        return
    out.mkdir(parents=True, exist_ok=True)
    count = write_pngs(pictures, out)
    write_maps_page(pictures, out / PAGE, tacit=__version__)
    print(f"Written: {out / PAGE} ({len(pictures):,} images) and {count:,} PNG files beside it")


def _lines(failures: Sequence[str]) -> str:
    more = [f"… and {len(failures) - LISTED:,} more"] if len(failures) > LISTED else []
    return "".join(f"\n  {line}" for line in [*failures[:LISTED], *more])
