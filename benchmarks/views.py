"""The view `strong` of 32 photographs' worth of 224 x 224 pixels on a CPU, one thread: flip, RandAugment, Cutout.

The peer is torchvision's own way: transforms v2 on uint8 tensors, image after image, because its RandAugment gives one
draw to whatever it is called with. Its list of 14 operations is the same; it draws no Cutout, which ours pays for. The
numbers drawn differ, so that there is no "apart": tests hold each operation against PIL. Pixels are smooth noise, as
operations' costs hardly depend on what they see; every round draws anew on both sides, by ours for another epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import torch
import torchvision
from torchvision.transforms import v2

from tacit.data.images import uniforms
from tacit.data.views import VIEWS
from timing import Claim, arguments, interleaved, report

WANTED = 1.0


@dataclass(frozen=True)
class ViewsClaim(Claim):
    images_per_second: float = 0.0
    peer_images_per_second: float = 0.0


def smooth_noise(images: int, size: int) -> torch.Tensor:
    coarse = torch.rand(images, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return (torch.nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 1) * 255).to(torch.uint8)


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=31)
    images, size = (4, 32) if args.tiny else (32, 224)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pixels, rows, kind, epochs = smooth_noise(images, size), torch.arange(images), VIEWS["strong"], count()
    one = v2.Compose([v2.RandomHorizontalFlip(), v2.RandAugment(num_ops=2, fill=128)])

    def ours() -> None:
        kind.transform(pixels, uniforms(0, next(epochs), rows, 0, kind.draws))

    def peer() -> None:
        torch.stack([one(image) for image in pixels])

    seconds = interleaved({"torchvision": peer, "tacit": ours}, rounds=args.rounds)
    rates = {name: images / each for name, each in seconds.items()}
    print(f"torchvision {rates['torchvision']:.0f} images/s, tacit {rates['tacit']:.0f} images/s")
    claim = ViewsClaim(
        claim=f"the view strong of {images} images at {size} px, one thread",
        peer=f"torchvision {torchvision.__version__}, v2.RandAugment image by image, without Cutout",
        ratio=round(seconds["torchvision"] / seconds["tacit"], 2),
        wanted=WANTED,
        images_per_second=round(rates["tacit"]),
        peer_images_per_second=round(rates["torchvision"]),
    )
    report(claim, args.json)


if __name__ == "__main__":
    main()
