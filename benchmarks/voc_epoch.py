"""A linear epoch at the size of VOC 2012 with all its metrics, against the published way, for AN and for ROLE.

4,574 rows trained on in batches of 16, 1,143 held out and 5,823 tested, 2,048 features, 20 classes; what an epoch
contains is said in linear_work.py. "All its metrics" are those that `result.json` has of every split: on our side
`tacit.metrics.summarise`, on the peer's side scikit-learn and the published loops. A second pair of rows has the
published metrics alone (mAP, precision and recall at 1, 3 and 5).
"""

from __future__ import annotations

from linear_work import TINY, VOC, an_work, conclude, duel, make_problem, role_work
from timing import arguments, report

WANTED = 20.0  # of AN with all metrics; the other rows are there to be read, nothing was promised of them


def main() -> None:
    args = arguments(__doc__.splitlines()[0], rounds=7)
    size = TINY if args.tiny else VOC
    problem = make_problem(size)
    for metrics, everything in (("all metrics", True), ("published metrics alone", False)):
        for work in (an_work(everything=everything), role_work(size.positives, everything=everything)):
            found = duel(problem, work, rounds=args.rounds, peer_rounds=args.rounds)
            wanted = WANTED if everything and work.method == "an" else 1.0
            title = f"linear {work.method.upper()} epoch, {metrics}, {size}, batch 16"
            report(conclude(title, found, wanted), args.json)


if __name__ == "__main__":
    main()
