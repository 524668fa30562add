"""Files are wholly written or not touched."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import UserError
from tacit.files import FileError, atomic_write, is_disk_full


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_writes_through_a_temporary_file_beside_the_target(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "result.json"
    with atomic_write(target) as part:
        assert part.parent == target.parent
        assert part.suffix == ".json"
        part.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert _names(target.parent) == ["result.json"]


def test_numpy_archives_keep_their_name(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "scores.npz") as part:
        np.savez(part, a=np.arange(3))
    assert _names(tmp_path) == ["scores.npz"]
    assert np.load(tmp_path / "scores.npz")["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("end", [RuntimeError("body"), KeyboardInterrupt()])
def test_an_early_end_leaves_the_old_file_and_no_litter(tmp_path: Path, end: BaseException) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(type(end)), atomic_write(target) as part:
        part.write_text("half")
        raise end
    assert target.read_text() == "old"
    assert _names(tmp_path) == ["x.txt"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("500 requested and 12 written"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_said_in_words(tmp_path: Path, error: Exception) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(UserError, match=r"no space left on .*nothing was overwritten"), atomic_write(target):
        raise error
    assert target.read_text() == "old"
    assert _names(tmp_path) == ["x.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_real_full_device_is_recognised() -> None:
    with pytest.raises(OSError) as caught, Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x" * 4096)
    assert is_disk_full(caught.value)


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "x.txt"):
        (tmp_path / "absent").read_text()
    assert not is_disk_full(FileNotFoundError(errno.ENOENT, "absent"))


def test_a_folder_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*taken"), atomic_write(tmp_path / "taken") as part:
        part.write_text("x")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"), atomic_write(tmp_path / "file" / "x.txt"):
        pass


def test_a_link_is_followed_and_modes_follow_the_umask(tmp_path: Path) -> None:
    real = tmp_path / "real.txt"
    real.write_text("old")
    (tmp_path / "link.txt").symlink_to(real)
    with atomic_write(tmp_path / "link.txt") as part:
        part.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert real.read_text() == "new"
    umask = os.umask(0)
    os.umask(umask)
    assert real.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_device_or_pipe_is_never_replaced(tmp_path: Path) -> None:
    """`--out /dev/null` must not turn the device into a file, through a symbolic link neither."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.csv").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link.csv"):
        with pytest.raises(FileError, match="no ordinary file"), atomic_write(path):
            pass
    assert (tmp_path / "pipe").is_fifo()
