"""A linear epoch in the published way: the plain loop that our linear protocol is measured against.

Written from the description of the published programs, with nothing of Tacit in it: a DataLoader over a per-sample
dataset with the default collation, float32, losses assembled by boolean masks with log(p + 1e-5), dense Adam with its
default arguments over every parameter including the [N, L] table of label estimates, predictions of every batch (of the
training pass too) collected on the host, and after each pass, against the truth and against the observed labels,
scikit-learn's average precision per class and a loop over images per metric for precision and recall at k. What a
published program also does but need not (losses of the validation pass, logging) is left out, in the peer's favour.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

Floats = NDArray[np.float32]
Batch = dict[str, Tensor]
# (probabilities, estimated probabilities where the loss has any, observed labels) -> loss
Objective = Callable[[Tensor, Tensor | None, Tensor], Tensor]


@dataclass(frozen=True)
class Split:
    features: Floats  # [N, D]
    truth: Floats  # [N, L] 0 or 1
    observed: Floats  # [N, L] 1 observed positive, 0 not observed; the published files have them for test too


@dataclass(frozen=True)
class Seconds:
    """Where an epoch's time went: the training pass, the other passes, the metrics of all passes."""

    train: float
    predict: float
    metrics: float

    @property
    def total(self) -> float:
        return self.train + self.predict + self.metrics


class PerSample(Dataset[dict[str, object]]):
    """One dict per row; the DataLoader's default collation makes batches of them."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split.features)

    def __getitem__(self, row: int) -> dict[str, object]:
        return {
            "features": self.split.features[row],
            "observed": self.split.observed[row],
            "truth": self.split.truth[row],
            "index": row,
        }


class Peer:
    """The published loop for one objective, from given initial values."""

    def __init__(
        self,
        splits: Mapping[str, Split],
        objective: Objective,
        *,
        weight: Tensor,
        bias: Tensor,
        theta: Tensor | None,
        lr: float,
        batch_size: int,
        device: str = "cpu",
        workers: int = 0,
        everything: bool = False,
    ) -> None:
        self.splits, self.objective, self.everything = splits, objective, everything
        self.batch_size, self.device, self.workers = batch_size, device, workers
        self.net = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            self.net.weight.copy_(weight)
            self.net.bias.copy_(bias)
        self.net.to(device)
        self.theta = None if theta is None else nn.Parameter(theta.detach().clone().to(device))
        estimates = [] if self.theta is None else [{"params": [self.theta], "lr": 10 * lr}]
        self.optimizer = torch.optim.Adam([{"params": self.net.parameters(), "lr": lr}, *estimates])
        self.metrics: dict[str, dict[str, float]] = {}
        average_precision_of()  # imported here, not in the first measured epoch

    def epoch(self, order: Sequence[int]) -> Seconds:
        """Train on the rows in `order`, then validate, then test; metrics after each pass."""
        training = predicting = scoring = 0.0
        for name in self.splits:
            began = time.perf_counter()
            collected = self.train(order) if name == "train" else self.predict(name)
            passed = time.perf_counter()
            self.metrics[name] = split_metrics(*collected)
            if self.everything:
                self.metrics[name] |= {f"clean {k}": v for k, v in other_metrics(*collected[:2]).items()}
            scoring += time.perf_counter() - passed
            if name == "train":
                training = passed - began
            else:
                predicting += passed - began
        return Seconds(training, predicting, scoring)

    def train(self, order: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        collected = Collected()
        for batch in self._loader("train", order):
            self.optimizer.zero_grad()
            features, observed = batch["features"].to(self.device), batch["observed"].to(self.device)
            probabilities, estimates = torch.sigmoid(self.net(features)), self.estimates(batch["index"])
            self.objective(probabilities, estimates, observed).backward()
            self.optimizer.step()
            collected.add(probabilities, batch)
        return collected.arrays()

    def estimates(self, index: Tensor) -> Tensor | None:
        return None if self.theta is None else torch.sigmoid(self.theta[index.to(self.device)])

    @torch.no_grad()
    def predict(self, name: str) -> tuple[Floats, Floats, Floats]:
        collected = Collected()
        for batch in self._loader(name, range(len(self.splits[name].features))):
            collected.add(torch.sigmoid(self.net(batch["features"].to(self.device))), batch)
        return collected.arrays()

    def _loader(self, name: str, order: Sequence[int]) -> DataLoader[Batch]:
        dataset = PerSample(self.splits[name])
        return DataLoader(dataset, batch_size=self.batch_size, sampler=order, num_workers=self.workers)


class Collected:
    """Predictions and labels of a pass, batch by batch, on the host."""

    def __init__(self) -> None:
        self.parts: tuple[list[Floats], list[Floats], list[Floats]] = ([], [], [])

    def add(self, probabilities: Tensor, batch: Batch) -> None:
        self.parts[0].append(probabilities.detach().cpu().numpy())
        self.parts[1].append(batch["truth"].numpy())
        self.parts[2].append(batch["observed"].numpy())

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        probabilities, truth, observed = (np.concatenate(part) for part in self.parts)
        return probabilities, truth, observed


# --- objectives -------------------------------------------------------------------------------------------------------


def neg_log(x: Tensor) -> Tensor:
    return -torch.log(x + 1e-5)


def assume_negative(p: Tensor, q: Tensor | None, observed: Tensor) -> Tensor:
    """AN; there are no estimates q."""
    loss = torch.zeros_like(p)
    loss[observed == 1] = neg_log(p[observed == 1])
    loss[observed == 0] = neg_log(1.0 - p[observed == 0])
    return loss.mean()


def role(k: float) -> Objective:
    """ROLE: half the classifier's side plus half the estimator's, each taught by the other's frozen values."""

    def side(p: Tensor, taught: Tensor, observed: Tensor) -> Tensor:
        known = torch.zeros_like(p)
        known[observed == 1] = neg_log(p[observed == 1])
        mutual = taught * neg_log(p) + (1.0 - taught) * neg_log(1.0 - p)
        expected = ((p.sum() / len(p) - k) / p.shape[1]) ** 2
        return known.mean() + mutual.mean() + expected

    def objective(p: Tensor, q: Tensor | None, observed: Tensor) -> Tensor:
        assert q is not None
        return (side(p, q.detach(), observed) + side(q, p.detach(), observed)) / 2

    return objective


# --- metrics ----------------------------------------------------------------------------------------------------------


def split_metrics(probabilities: Floats, truth: Floats, observed: Floats) -> dict[str, float]:
    """mAP and precision and recall at 1, 3 and 5 against the truth and against the observed labels."""
    out = {f"clean {name}": value for name, value in metrics(probabilities, truth).items()}
    return out | {f"observed {name}": value for name, value in metrics(probabilities, observed).items()}


def metrics(probabilities: Floats, labels: Floats) -> dict[str, float]:
    one = average_precision_of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class without positives
        out = {"mAP": float(np.mean([one(labels[:, c], probabilities[:, c]) for c in range(labels.shape[1])]))}
    rows = range(len(labels))
    for k in (1, 3, 5):
        out[f"precision@{k}"] = float(np.mean([precision_at(labels[i], probabilities[i], k) for i in rows]))
        out[f"recall@{k}"] = float(np.mean([recall_at(labels[i], probabilities[i], k) for i in rows]))
    return out


def precision_at(labels: Floats, probabilities: Floats, k: int) -> float:
    top = np.argsort(probabilities)[::-1][:k]
    return float(np.sum(labels[top]) / k)


def recall_at(labels: Floats, probabilities: Floats, k: int) -> float:
    """0 for an image without positives."""
    top, positives = np.argsort(probabilities)[::-1][:k], np.sum(labels)
    return float(np.sum(labels[top]) / positives) if positives > 0 else 0.0


def other_metrics(probabilities: Floats, truth: Floats) -> dict[str, float]:
    """What a run of Tacit reports beyond the published figures, from scikit-learn; decisions at 0.5."""
    from sklearn import metrics as sk

    labels, decided, classes = truth.astype(int), (probabilities >= 0.5).astype(int), truth.shape[1]
    out = {}
    for letter, average in (("O", "micro"), ("C", "macro")):
        precision = float(sk.precision_score(labels, decided, average=average, zero_division=0))
        recall = float(sk.recall_score(labels, decided, average=average, zero_division=0))
        both = precision + recall
        out |= {f"{letter}P": precision, f"{letter}R": recall}
        out[f"{letter}F1"] = 2 * precision * recall / both if both > 0 else 0.0
        out[f"{average}_F1"] = float(sk.f1_score(labels, decided, average=average, zero_division=0))
    return out | {
        "hamming_loss": float(sk.hamming_loss(labels, decided)),
        "one_error": float(np.mean(truth[np.arange(len(truth)), probabilities.argmax(axis=1)] == 0)),
        "coverage": (float(sk.coverage_error(labels, probabilities)) - 1) / classes,
        "ranking_loss": float(sk.label_ranking_loss(labels, probabilities)),
        "LRAP": float(sk.label_ranking_average_precision_score(labels, probabilities)),
    }


def average_precision_of() -> Callable[[Floats, Floats], float]:
    """scikit-learn's, or where it is not installed the same sum without scikit-learn's checks, which is faster."""
    try:
        from sklearn.metrics import average_precision_score
    except ImportError:
        return _average_precision
    return average_precision_score  # type: ignore[no-any-return]


def metrics_library() -> str:
    try:
        import sklearn
    except ImportError:
        return "average precision in NumPy"
    return f"scikit-learn {sklearn.__version__}"


def _average_precision(labels: Floats, scores: Floats) -> float:
    order = np.argsort(scores, kind="stable")[::-1]
    ranked, falling = labels[order], scores[order]
    ends = np.append(np.flatnonzero(np.diff(falling)), len(falling) - 1)
    hits = np.cumsum(ranked, dtype=np.float64)[ends]
    if hits[-1] == 0:
        return 0.0
    recall = hits / hits[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * hits / (ends + 1)))
