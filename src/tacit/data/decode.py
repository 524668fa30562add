"""Reading one image file: any common format, any colour mode, upright, as RGB uint8 of a chosen size."""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..nets.backbone import Interpolation
from .checks import MAX_PIXELS


class ImageError(UserError):
    """Images that cannot be read. `failures` has one line per file where there are several."""

    def __init__(self, message: str, failures: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


BY_TORCHVISION = {"JPEG", "MPO", "PNG", "WEBP"}  # formats it decodes to the same pixels as PIL, and faster
EXIF_ORIENTATION = 0x0112
_WARNING_FILTERS = threading.Lock()  # warnings.catch_warnings is not safe among threads
_IMPORTING = threading.Lock()  # torchvision's modules import each other: two threads that begin at once both fail


def read_image(path: str | os.PathLike[str], size: int | None, interpolation: Interpolation = "bilinear") -> Tensor:
    """Any image as RGB uint8 [3, size, size] (its own height and width where `size` is None).

    Turned upright by its EXIF orientation; the aspect ratio is not kept; transparency is dropped; of a moving image the
    first frame; 16-bit values keep their upper byte. Resizing is antialiased and within one level of PIL's.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        image = _decode(content)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from error
    except Exception as error:  # decoders raise RuntimeError, OSError, SyntaxError, struct.error, …
        raise ImageError(f"{path}: truncated or damaged image ({_reason(error)})") from error
    return image if size is None else resize(image, size, interpolation)


def resize(images: Tensor, size: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """uint8 [..., H, W] -> [..., size, size], antialiased, contiguous."""
    if images.shape[-2:] == (size, size):
        return images.contiguous()
    with _IMPORTING:
        from torchvision.transforms.v2 import InterpolationMode, functional

    mode = InterpolationMode(interpolation)
    resized: Tensor = functional.resize(images, [size, size], interpolation=mode, antialias=True)
    return resized.contiguous()


def _decode(content: bytes) -> Tensor:
    header = _open_header(content)
    wide_values = header.mode.startswith("I") or header.mode == "F"
    turned_webp = header.format == "WEBP" and header.getexif().get(EXIF_ORIENTATION, 1) != 1  # torchvision ignores it
    decoder = _torchvision_decoder()
    if decoder is None or header.format not in BY_TORCHVISION or wide_values or turned_webp or _moves(header):
        return _decode_by_pil(header)
    return decoder(torch.frombuffer(bytearray(content), dtype=torch.uint8))


def _open_header(content: bytes) -> Any:
    """The image as PIL sees it before any pixel is decoded, if it is one and not too large."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise ImageError("empty file")
    limit = f"more than {MAX_PIXELS // 10**6} megapixels; shrink it first"
    try:
        with _WARNING_FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # its threshold is not ours
            header = Image.open(io.BytesIO(content))
    except UnidentifiedImageError as error:
        raise ImageError("not an image of a known format") from error
    except Image.DecompressionBombError as error:
        raise ImageError(limit) from error
    if header.width * header.height > MAX_PIXELS:
        raise ImageError(f"{header.width} x {header.height} is {limit}")
    return header


@lru_cache(maxsize=1)
def _torchvision_decoder() -> Callable[[Tensor], Tensor] | None:
    """The fastest here; None once torchvision drops it, as it announced (docs/decisions/image-decoding.md)."""
    try:
        with _IMPORTING:
            from torchvision.io import ImageReadMode, decode_image
    except ImportError:
        return None
    warnings.filterwarnings("ignore", "The image decoding and encoding capabilities", DeprecationWarning)
    return partial(decode_image, mode=ImageReadMode.RGB, apply_exif_orientation=True)


def _decode_by_pil(image: Any) -> Tensor:
    from PIL import ImageOps

    image.seek(0)
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ImageError("pixels are floating point numbers of unknown range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits; PIL's own conversion to RGB clips at 255
        grey = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
        return torch.from_numpy(np.repeat(grey[None], 3, axis=0))
    pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _moves(header: Any) -> bool:
    return header.format != "MPO" and int(getattr(header, "n_frames", 1)) > 1


def _reason(error: Exception) -> str:
    """The decoder's words without the place in its source."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return re.sub(r"^.*\.cpp:\d+, ", "", text)
