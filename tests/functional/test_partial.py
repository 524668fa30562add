"""Formulas under partial labels: golden numbers, values by hand, properties, extremes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tacit.functional.estimates import (
    expected_positives_penalty,
    initial_estimates,
    mutual_cross_entropy,
    probabilities_to_logits,
)
from tacit.functional.partial import (
    PUBLISHED_EPS,
    assume_negative,
    cross_entropy,
    known_only,
    pairwise_ranking,
    weak_negatives,
)

Cells = Callable[..., Tensor]


def all_absent_but(labels: Tensor) -> Tensor:
    """0/1 truth or single positives as fully known states."""
    return torch.where(labels == 1, 1, -1).to(torch.int8)


def role_cells(logits: Tensor, labels: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    pair = torch.stack((logits, theta))
    cells = known_only(pair, labels, eps=PUBLISHED_EPS) + mutual_cross_entropy(pair, eps=PUBLISHED_EPS)
    return cells.mean(0), expected_positives_penalty(pair, 2.0).mean()


GOLDEN: dict[str, Cells] = {
    "bce_full": lambda x, z: known_only(x, all_absent_but(z), eps=PUBLISHED_EPS),
    "bce_ls_full_0.1": lambda x, z: known_only(x, all_absent_but(z), smoothing=0.1, eps=PUBLISHED_EPS),
    "an": lambda x, z: assume_negative(x, z, eps=PUBLISHED_EPS),
    "an_em_repo": lambda x, z: assume_negative(x, z, eps=PUBLISHED_EPS),
    "an_ls_0.1": lambda x, z: assume_negative(x, z, smoothing=0.1, eps=PUBLISHED_EPS),
    "iu_1p1n": lambda x, z: known_only(x, z, eps=PUBLISHED_EPS),
    "iun_role_repo_as_released_BUG": lambda x, z: known_only(x, z, eps=PUBLISHED_EPS),
    "pr_pairwise_ranking": pairwise_ranking,
    "dw_0.5": lambda x, z: weak_negatives(x, z, weight=0.5, eps=PUBLISHED_EPS),
}


def golden_inputs(vectors: dict[str, Any], name: str, dtype: torch.dtype) -> tuple[dict[str, Any], Tensor, Tensor]:
    vector, inputs = vectors["losses"][name], vectors["inputs"]
    logits = torch.tensor(inputs[vector["inputs"]["logits"]], dtype=dtype, requires_grad=True)
    return vector, logits, torch.tensor(inputs[vector["inputs"]["obs"]]).to(torch.int8)


def agrees(actual: Tensor, expected: Any, dtype: torch.dtype) -> None:
    """Relative 1e-7 in float64 and 2e-5 in float32; the printed numbers themselves have ten digits."""
    wanted = torch.tensor(expected, dtype=dtype)
    rtol, atol = (1e-7, 1e-11) if dtype == torch.float64 else (2e-5, 1e-7)
    torch.testing.assert_close(actual.detach(), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", GOLDEN)
def test_published_programs(golden_single_positive: dict[str, Any], name: str, dtype: torch.dtype) -> None:
    vector, logits, labels = golden_inputs(golden_single_positive, name, dtype)
    cells = GOLDEN[name](logits, labels)
    cells.mean().backward()
    agrees(cells.mean(), vector["loss"], dtype)
    agrees(logits.grad, vector["grad_logits"], dtype)
    if "loss_matrix_unreduced" in vector:
        agrees(cells, vector["loss_matrix_unreduced"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_published_iun_with_its_negatives(golden_single_positive: dict[str, Any], dtype: torch.dtype) -> None:
    """One positive and all true negatives known: BCE over known cells is the IUN that the paper meant."""
    vector, logits, single = golden_inputs(golden_single_positive, "iun_role_repo_with_pm1_true", dtype)
    truth = torch.tensor(golden_single_positive["inputs"]["true_labels_01"])
    observed = torch.where(truth == 0, -1, single).to(torch.int8)
    cells = known_only(logits, observed, eps=PUBLISHED_EPS)
    cells.mean().backward()
    agrees(cells, vector["loss_matrix_unreduced"], dtype)
    agrees(cells.mean(), vector["loss"], dtype)
    agrees(logits.grad, vector["grad_logits"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_published_epr(golden_single_positive: dict[str, Any], dtype: torch.dtype) -> None:
    vector, logits, labels = golden_inputs(golden_single_positive, "epr_k2.0", dtype)
    cells, penalty = known_only(logits, labels, eps=PUBLISHED_EPS), expected_positives_penalty(logits, 2.0)
    (cells.mean() + penalty).backward()
    agrees(cells, vector["loss_matrix_unreduced"], dtype)
    agrees(penalty, vector["reg"], dtype)
    agrees(cells.mean() + penalty, vector["loss"], dtype)
    agrees(logits.grad, vector["grad_logits"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_published_role(golden_single_positive: dict[str, Any], dtype: torch.dtype) -> None:
    vector, logits, labels = golden_inputs(golden_single_positive, "role_k2.0", dtype)
    theta = torch.tensor(golden_single_positive["inputs"]["g_logits"], dtype=dtype, requires_grad=True)
    cells, penalty = role_cells(logits, labels, theta)
    (cells.mean() + penalty).backward()
    agrees(cells, vector["loss_matrix_unreduced"], dtype)
    agrees(penalty, vector["reg"], dtype)
    agrees(cells.mean() + penalty, vector["loss"], dtype)
    agrees(logits.grad, vector["grad_logits"], dtype)
    agrees(theta.grad, vector["grad_g_logits"], dtype)


class TestByHand:
    """Logits ln 3 and -ln 3, so that p is 3/4 and 1/4: -log p = ln 4/3 = a, -log(1 - p) = ln 4 = b."""

    logits = torch.tensor([[math.log(3), math.log(3), -math.log(3)]], dtype=torch.float64)
    labels = torch.tensor([[1, 0, -1]], dtype=torch.int8)
    a, b = math.log(4 / 3), math.log(4)

    def check(self, cells: Tensor, *expected: float) -> None:
        torch.testing.assert_close(cells, torch.tensor([expected], dtype=torch.float64))

    def test_known_only(self) -> None:
        self.check(known_only(self.logits, self.labels), self.a, 0.0, self.a)

    def test_known_only_smoothed(self) -> None:
        mixed = 0.9 * self.a + 0.1 * self.b
        self.check(known_only(self.logits, self.labels, smoothing=0.1), mixed, 0.0, mixed)

    def test_assume_negative(self) -> None:
        self.check(assume_negative(self.logits, self.labels), self.a, self.b, self.a)

    def test_assume_negative_smoothed(self) -> None:
        mixed = 0.9 * self.a + 0.1 * self.b
        smoothed = assume_negative(self.logits, self.labels, smoothing=0.1)
        self.check(smoothed, mixed, 0.9 * self.b + 0.1 * self.a, mixed)

    def test_weak_negatives_spare_only_the_unknown(self) -> None:
        self.check(weak_negatives(self.logits, self.labels, weight=0.25), self.a, self.b / 4, self.a)

    def test_pairwise_ranking(self) -> None:
        """max(0, 1 - 3/4 + 3/4) + max(0, 1 - 3/4 + 1/4) = 1.5, owed by the one positive."""
        self.check(pairwise_ranking(self.logits, self.labels), 1.5, 0.0, 0.0)

    def test_expected_positives(self) -> None:
        """k_hat = 3/4 + 3/4 + 1/4 = 7/4; ((7/4 - 1) / 3)^2 = 1/16."""
        assert expected_positives_penalty(self.logits, 1.0).item() == pytest.approx(1 / 16)

    def test_soft_targets(self) -> None:
        target = torch.full((1, 3), 0.5, dtype=torch.float64)
        self.check(cross_entropy(self.logits, target), *[(self.a + self.b) / 2] * 3)


def matrices(shape: tuple[int, int] = (3, 5)) -> st.SearchStrategy[tuple[Tensor, Tensor]]:
    count = shape[0] * shape[1]
    logits = st.lists(st.floats(-20, 20, width=32), min_size=count, max_size=count)
    states = st.lists(st.sampled_from([-1, 0, 1]), min_size=count, max_size=count)
    return st.tuples(
        logits.map(lambda v: torch.tensor(v, dtype=torch.float64).view(shape)),
        states.map(lambda v: torch.tensor(v, dtype=torch.int8).view(shape)),
    )


SMALL = settings(max_examples=30, deadline=None)
EPS = st.sampled_from([0.0, PUBLISHED_EPS])
FORMULAS: dict[str, Cells] = {
    "known_only": known_only,
    "known_only_smoothed": lambda x, z, eps: known_only(x, z, smoothing=0.1, eps=eps),
    "assume_negative": assume_negative,
    "assume_negative_smoothed": lambda x, z, eps: assume_negative(x, z, smoothing=0.05, eps=eps),
    "weak_negatives": lambda x, z, eps: weak_negatives(x, z, weight=0.25, eps=eps),
    "pairwise_ranking": lambda x, z, eps: pairwise_ranking(x, z),
}


@SMALL
@given(matrices(), EPS)
def test_assume_negative_is_bce_of_binarised_labels(case: tuple[Tensor, Tensor], eps: float) -> None:
    logits, labels = case
    torch.testing.assert_close(
        assume_negative(logits, labels, eps=eps), known_only(logits, all_absent_but(labels), eps=eps)
    )


@SMALL
@given(matrices(), EPS, st.sampled_from([0.0, 0.05, 0.1]))
def test_unknown_cells_have_no_gradient_under_known_only(
    case: tuple[Tensor, Tensor], eps: float, smoothing: float
) -> None:
    logits, labels = case
    logits.requires_grad_()
    known_only(logits, labels, smoothing=smoothing, eps=eps).sum().backward()
    assert (logits.grad[labels == 0] == 0).all()


@SMALL
@given(matrices(), EPS)
def test_weight_one_is_assume_negative_and_weight_zero_ignores(case: tuple[Tensor, Tensor], eps: float) -> None:
    logits, labels = case
    torch.testing.assert_close(
        weak_negatives(logits, labels, weight=1.0, eps=eps), assume_negative(logits, labels, eps=eps)
    )
    torch.testing.assert_close(weak_negatives(logits, labels, weight=0.0, eps=eps), known_only(logits, labels, eps=eps))


@SMALL
@given(matrices(), EPS, st.sampled_from(sorted(FORMULAS)), st.permutations(range(5)))
def test_renaming_classes_renames_losses(case: tuple[Tensor, Tensor], eps: float, name: str, order: list[int]) -> None:
    logits, labels = case
    formula = FORMULAS[name]
    torch.testing.assert_close(
        formula(logits[:, order], labels[:, order], eps=eps), formula(logits, labels, eps=eps)[:, order]
    )


@SMALL
@given(matrices())
def test_pairwise_ranking_is_the_double_loop(case: tuple[Tensor, Tensor]) -> None:
    logits, labels = case
    expected = torch.zeros_like(logits)
    p = logits.sigmoid()
    for n, i in torch.nonzero(labels == 1).tolist():
        expected[n, i] = sum((1 - p[n, i] + p[n, j]).clamp(min=0) for j in range(5) if labels[n, j] != 1)
    torch.testing.assert_close(pairwise_ranking(logits, labels), expected)


@SMALL
@given(matrices())
def test_penalty_is_zero_where_the_count_is_met(case: tuple[Tensor, Tensor]) -> None:
    logits, _ = case
    k = float(logits.sigmoid().sum(1).mean())
    assert expected_positives_penalty(logits, k).item() == pytest.approx(0, abs=1e-20)
    assert expected_positives_penalty(logits, k + 1).item() == pytest.approx(1 / 25)


@SMALL
@given(matrices(), EPS)
def test_mutual_teachers_are_frozen(case: tuple[Tensor, Tensor], eps: float) -> None:
    """Each half's gradient is that of cross-entropy towards the other half as a constant: p - q where eps is 0."""
    logits, _ = case
    pair = torch.stack((logits, -logits.flip(0) / 2)).requires_grad_()
    mutual_cross_entropy(pair, eps=eps).sum().backward()
    for mine, other in ((0, 1), (1, 0)):
        alone = pair[mine].detach().requires_grad_()
        cross_entropy(alone, pair[other].detach().sigmoid(), eps=eps).sum().backward()
        torch.testing.assert_close(pair.grad[mine], alone.grad)
    if eps == 0:
        p, q = pair.detach().sigmoid()
        torch.testing.assert_close(pair.grad[0], p - q)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("eps", [0.0, PUBLISHED_EPS])
@pytest.mark.parametrize("name", FORMULAS)
def test_extreme_logits_stay_finite(name: str, eps: float, dtype: torch.dtype) -> None:
    values = torch.tensor([-1e4, -90.0, -17.0, 0.0, 17.0, 90.0, 1e4])
    logits = values.repeat(3, 1).to(dtype).requires_grad_()
    labels = torch.tensor([[1], [0], [-1]], dtype=torch.int8).repeat(1, 7)
    labels[0, ::2] = 0  # PR needs something to rank below a positive
    cells = FORMULAS[name](logits, labels, eps=eps)
    penalty, mutual = expected_positives_penalty(logits, 2.0), mutual_cross_entropy(logits[None].repeat(2, 1, 1))
    (cells.sum() + penalty + mutual.sum()).backward()
    assert cells.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert cells.isfinite().all() and penalty.isfinite() and mutual.isfinite().all()
    assert logits.grad.isfinite().all()


def test_exact_logarithm_keeps_teaching_where_the_published_one_stops() -> None:
    """A positive at logit -30: the exact loss is 30 with gradient -1, the published is capped at -ln 1e-5."""
    label = torch.ones(1, 1, dtype=torch.int8)
    results = {}
    for eps in (0.0, PUBLISHED_EPS):
        logit = torch.full((1, 1), -30.0, requires_grad=True)
        loss = assume_negative(logit, label, eps=eps)
        loss.backward()
        results[eps] = (loss.item(), logit.grad.item())
    assert results[0.0] == pytest.approx((30.0, -1.0))
    assert results[PUBLISHED_EPS] == pytest.approx((-math.log(1e-5), 0.0), abs=1e-6)


def test_a_confident_positive_keeps_its_small_loss_in_float32() -> None:
    """softplus(x) - x would cancel to 0 here; -log sigmoid(x) is exp(-x)."""
    loss = assume_negative(torch.tensor([[30.0]]), torch.ones(1, 1, dtype=torch.int8))
    assert loss.item() == pytest.approx(math.exp(-30), rel=1e-6)


def test_initial_estimates() -> None:
    labels = torch.zeros(200, 50, dtype=torch.int8)
    labels[:, 0], labels[:, 1] = 1, -1
    torch.manual_seed(7)
    theta = initial_estimates(labels)
    q = theta.sigmoid()
    assert theta.dtype == torch.float32
    torch.testing.assert_close(theta[:, 0], torch.full((200,), 5.2933048))
    torch.testing.assert_close(theta[:, 1], torch.full((200,), -5.2933048))
    assert q[:, 2:].min() >= 0.4 and q[:, 2:].max() <= 0.6
    assert q[:, 2:].min() < 0.401 and q[:, 2:].max() > 0.599
    assert abs(float(theta[:, 2:].mean())) < 0.01


def test_initial_estimates_of_a_cell_do_not_depend_on_what_is_known_elsewhere() -> None:
    labels = torch.zeros(4, 3, dtype=torch.int8)
    torch.manual_seed(0)
    blank = initial_estimates(labels)
    labels[1, 1] = 1
    torch.manual_seed(0)
    assert (initial_estimates(labels) == blank).sum() == 11


def test_estimates_are_clipped_before_they_become_logits() -> None:
    theta = probabilities_to_logits(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))
    assert theta.dtype == torch.float32
    torch.testing.assert_close(theta, torch.tensor([-11.512915, 0.0, 11.5116]), rtol=1e-5, atol=0)


def test_zero_eps_equals_torch() -> None:
    logits, target = torch.randn(3, 4), torch.rand(3, 4)
    expected = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    torch.testing.assert_close(cross_entropy(logits, target), expected)
    torch.testing.assert_close(cross_entropy(logits, target, eps=1e-12), expected, rtol=1e-4, atol=1e-5)
