"""Linear epochs of AN and ROLE at the size of COCO 2014 on one GPU, against the published way on the same GPU.

The work of linear_an.py and linear_role.py. Features stay on the GPU and a step is captured once per epoch as a CUDA
graph; the peer loads, copies and launches batch by batch. Metrics are computed on the CPU on both sides. Nothing but
torch, numpy, accelerate and Tacit's sources is needed (PYTHONPATH=src); without scikit-learn the peer's average
precision is a NumPy one. `--device cpu --tiny` runs the same code without a GPU.
"""

from __future__ import annotations

import sys

import torch

from linear_work import COCO, TINY, an_work, conclude, duel, make_problem, role_work
from timing import argument_parser, report

WANTED = {"AN": 10.0, "ROLE": 7.0}


def main() -> None:
    parser = argument_parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--device", default="cuda", help="cuda (default), or cpu to try the code path")
    args = parser.parse_args()
    if args.device != "cpu" and not torch.cuda.is_available():
        sys.exit("no GPU here; --device cpu --tiny tries the code path")
    size = TINY if args.tiny else COCO
    problem = make_problem(size)
    for name, work in (("AN", an_work()), ("ROLE", role_work(size.positives))):
        found = duel(problem, work, rounds=args.rounds, peer_rounds=min(args.rounds, 2), device=args.device)
        title = f"linear {name} epoch on {'one GPU' if args.device != 'cpu' else 'the CPU'}, {size}, batch 16"
        report(conclude(title, found, WANTED[name], args.device), args.json)


if __name__ == "__main__":
    main()
