"""A linear epoch at the size of VOC 2012 with all its metrics, against the published way, for AN and for ROLE.

4,574 rows trained on in batches of 16, 1,143 held out and 5,823 tested, 2,048 features, 20 classes; what an epoch
contains is said in linear_work.py. At this size the passes are short and the metrics are a large part of the peer's
epoch.
"""

from __future__ import annotations

from linear_work import TINY, VOC, an_work, conclude, duel, make_problem, role_work
from timing import arguments, report

WANTED = 20.0


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=7)
    size = TINY if args.tiny else VOC
    problem = make_problem(size)
    for name, work in (("AN", an_work()), ("ROLE", role_work(size.positives))):
        found = duel(problem, work, rounds=args.rounds, peer_rounds=args.rounds)
        report(conclude(f"linear {name} epoch, {size}, batch 16", found, WANTED), args.json)


if __name__ == "__main__":
    main()
