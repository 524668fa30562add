"""Files that are either wholly written or not touched at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT)


def cache_root() -> Path:
    """Where computed things are kept: $TACIT_CACHE, or ~/.cache/tacit."""
    return Path(os.environ.get("TACIT_CACHE") or Path.home() / ".cache" / "tacit").expanduser()


class FileError(UserError, OSError):
    """A file that cannot be written or read; the message says which, why, and what is left of the old one."""


def read_text(path: Path) -> str:
    """A file of ours, which is UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 text ({error.reason})"
        raise FileError(f"{path} cannot be read: {why}. Restore it from a copy, or make it again.") from error


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields an empty temporary file beside `path`; when the block ends it is fsynced and renamed onto `path`.

    Whatever ends the block early (Ctrl-C included) removes the temporary file and leaves an older `path` as it was.
    The temporary name keeps the suffix, so that writers which look at it (`numpy.savez`) behave. Missing parent
    folders are made; a symbolic link is followed, not replaced. A disk without room raises `FileError`.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise FileError(f"{target} is no ordinary file, and would be replaced by one. Choose another name.")
    temporary = _create_beside(target)
    try:
        yield temporary
        _sync(temporary)
        _rename(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if is_disk_full(error):
            raise FileError(
                f"no space left on the disk of {target.parent} while writing {target.name}; nothing was overwritten. "
                "Free some space, or write elsewhere."
            ) from error
        raise
    _sync_folder(target.parent)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes the folder; refuses it while another process is in such a block on it. The system frees it at a crash."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; give the name of a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error
    lock = _lock(folder)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A handle that holds the lock; None where there are no locks (Windows, some network disks)."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise FileError(
            f"another process is at work in {folder}. Wait until it ends, or give another folder."
        ) from error
    except OSError:
        os.close(handle)
        return None
    return handle


def is_disk_full(error: BaseException) -> bool:
    """Also where a library lost the errno: safetensors keeps the words, `ndarray.tofile` only its short count."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    short_write = isinstance(error, OSError) and re.search(r"\d+ requested and \d+ written", str(error))
    return isinstance(error, Exception) and (bool(short_write) or os.strerror(errno.ENOSPC) in str(error))


def _create_beside(target: Path) -> Path:
    temporary = target.with_name(f".writing-{secrets.token_hex(6)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise _refused(target, error) from error
    return temporary


def _rename(temporary: Path, target: Path) -> None:
    try:
        temporary.replace(target)
    except OSError as error:
        raise _refused(target, error) from error


def _refused(target: Path, error: OSError) -> FileError:
    if is_disk_full(error):
        return FileError(
            f"no space left on the disk of {target.parent}; {target.name} was not written. Free some space."
        )
    return FileError(f"cannot write {target}: {error.strerror}. Choose another place, or change its permissions.")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def why_unreadable(error: Exception) -> str:
    """What is wrong with a NumPy archive. NumPy takes other bytes for a pickle, and tells how to load one unsafely."""
    return "it is no NumPy archive" if "allow_pickle" in str(error) else str(error)
