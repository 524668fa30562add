"""A linear epoch of AN (assume negative) at the size of COCO 2014, against the published way.

82,081 rows of 2,048 features and 80 classes, 65,665 of them trained on in batches of 16 and 16,416 held out, and the
40,137 rows of the test split; what an epoch contains is said in linear_work.py. About 2 GB of memory.
"""

from __future__ import annotations

from linear_work import COCO, TINY, an_work, conclude, duel, make_problem
from timing import arguments, report

WANTED = 5.0


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=3)
    size = TINY if args.tiny else COCO
    found = duel(make_problem(size), an_work(), rounds=args.rounds, peer_rounds=args.rounds)
    report(conclude(f"linear AN epoch, {size}, batch 16", found, WANTED), args.json)


if __name__ == "__main__":
    main()
