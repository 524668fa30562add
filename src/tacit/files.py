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


class FileError(UserError, OSError):
    """A file that cannot be written; the message says which, why, and what is left of the old one."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields an empty temporary file beside `path`; when the block ends it is fsynced and renamed onto `path`.

    Whatever ends the block early (Ctrl-C included) removes the temporary file and leaves an older `path` as it was.
    The temporary name keeps the suffix, so that writers which look at it (`numpy.savez`) behave. Missing parent
    folders are made; a symbolic link is followed, not replaced. A disk without room raises `FileError`.
    """
    target = Path(os.path.realpath(path))
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
