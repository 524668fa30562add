"""A linear epoch of ROLE at the size of COCO 2014, against the published way: dense Adam on 65,665 x 80 estimates.

As linear_an.py, with a free estimate for each of 5.3 million training cells. The published way steps all of them at
every batch; ours steps the batch's rows and catches up what they missed. Both start from the same values and see the
same batches, so the estimates of both must agree after the epoch; the largest difference is printed. The peer runs one
epoch, which takes minutes; ours runs one before it and more after it.
"""

from __future__ import annotations

from linear_work import COCO, TINY, conclude, duel, make_problem, role_work
from timing import arguments, report

WANTED = 25.0


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=3)
    size = TINY if args.tiny else COCO
    found = duel(make_problem(size), role_work(size.positives), rounds=args.rounds, peer_rounds=1)
    report(conclude(f"linear ROLE epoch, {size}, batch 16", found, WANTED), args.json)


if __name__ == "__main__":
    main()
