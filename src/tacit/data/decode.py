"""Reading one image file: any common format, any colour mode, upright, as RGB uint8 of a chosen size."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Sequence
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
    from torchvision.transforms.v2 import InterpolationMode, functional

    mode = InterpolationMode(interpolation)
    resized: Tensor = functional.resize(images, [size, size], interpolation=mode, antialias=True)
    return resized.contiguous()


def _decode(content: bytes) -> Tensor:
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise ImageError("empty file")
    try:
        with (
            _WARNING_FILTERS,
            warnings.catch_warnings(),
        ):  # of a size that PIL finds suspicious: the limit below is ours
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            header = Image.open(io.BytesIO(content))
    except UnidentifiedImageError as error:
        raise ImageError("not an image of a known format") from error
    except Image.DecompressionBombError as error:
        raise ImageError(f"more than {MAX_PIXELS // 10**6} megapixels; shrink it first") from error
    width, height = header.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"{width} x {height} is more than {MAX_PIXELS // 10**6} megapixels; shrink it first")
    wide_values = header.mode.startswith("I") or header.mode == "F"
    turned_webp = header.format == "WEBP" and header.getexif().get(EXIF_ORIENTATION, 1) != 1  # torchvision ignores it
    if header.format in BY_TORCHVISION and not wide_values and not turned_webp and not _moves(header):
        return _decode_by_torchvision(content)
    return _decode_by_pil(header)


def _decode_by_torchvision(content: bytes) -> Tensor:
    from torchvision.io import ImageReadMode, decode_image

    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    image: Tensor = decode_image(data, mode=ImageReadMode.RGB, apply_exif_orientation=True)
    return image if image.dtype == torch.uint8 else _upper_byte(image)


def _decode_by_pil(image: Any) -> Tensor:
    from PIL import ImageOps

    image.seek(0)
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # 16 bits; PIL's own conversion to RGB clips at 255
        grey = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
        return torch.from_numpy(np.repeat(grey[None], 3, axis=0))
    pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _upper_byte(image: Tensor) -> Tensor:
    return (image.to(torch.int32) >> 8).to(torch.uint8)


def _moves(header: Any) -> bool:
    return header.format != "MPO" and int(getattr(header, "n_frames", 1)) > 1


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text.rpartition(": ")[2] if "torchvision/csrc" in text else text  # without the decoder's source line
