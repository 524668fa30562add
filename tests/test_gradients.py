"""Gradient regimes against the closed forms of the papers; every method by name answers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from small_runs import linear, role, run, small_machine, table, write_world
from tacit.gradients import PROBABILITIES as P
from tacit.gradients import GradientError, gradient_regime
from tacit.labels import ABSENT, PRESENT, UNKNOWN
from tacit.methods.registry import find_method, method_names

__all__ = ["small_machine", "table"]
G = np.log(P / (1 - P))
# Mean over the batch of the row sums: the moved cell 0.5; beside it 19 cells at 0.1 where it is the known positive, and
# 18 at 0.1 and one at 0.9 where it is not.
K_HAT = 0.5 + (1.9 + 2.7 + 2.7) / 3


def curve(name: str, state: str, **options: float | str | bool) -> np.ndarray:
    return gradient_regime(name, options).curves[state]


def test_assume_negative():
    assert np.allclose(curve("an", "present"), -(1 - P))
    assert np.allclose(curve("an", "unknown"), P)
    assert np.allclose(curve("an", "absent"), P)


def test_published_logarithm():
    assert np.allclose(curve("an", "unknown", eps=1e-5), P * (1 - P) / (1 - P + 1e-5))


def test_em_pushes_to_the_middle():
    found = curve("em", "unknown", alpha=0.2)
    assert np.allclose(found, 0.2 * G * P * (1 - P))
    assert np.allclose(curve("em", "present"), -(1 - P))
    assert np.allclose(curve("em", "absent"), P)
    peak = int(found.argmax())
    assert found[peak] == pytest.approx(0.223872 * 0.2, rel=1e-4)
    assert abs(G[peak]) == pytest.approx(1.5434, abs=0.02)
    assert np.allclose(curve("entmin", "unknown", alpha=0.2), -found)


def test_em_with_the_published_logarithm():
    eps = 1e-5
    slope = np.log(P + eps) + P / (P + eps) - np.log(1 - P + eps) - (1 - P) / (1 - P + eps)
    assert np.allclose(curve("em", "unknown", alpha=0.1, eps=eps), 0.1 * slope * P * (1 - P))


def test_pseudo_labels_pull_to_their_soft_target():
    regime = gradient_regime("em_apl", {"alpha": 0.1, "beta": 0.4, "warm_up": 3})
    for target in (0.1, 0.3, 0.5):
        assert np.allclose(regime.curves[f"unknown, pseudo-label {target}"], 0.4 * (P - target), atol=1e-7)
    assert np.allclose(regime.curves["unknown"], 0.1 * G * P * (1 - P))


def test_pseudo_labels_that_are_not_made_are_not_drawn():
    late = gradient_regime("em_apl", {"warm_up": 1000})
    assert list(late.curves) == ["present", "unknown", "absent"]
    few = gradient_regime("em_apl", {"share": 0.01})
    assert list(few.curves) == ["present", "unknown", "absent"]


def test_ignored_labels_do_not_push():
    assert not curve("bce", "unknown").any()
    assert np.allclose(curve("bce", "absent"), P)
    assert not curve("bce_ls", "unknown").any()
    assert np.allclose(curve("bce", "unknown", unknown="negative"), P)


def test_smoothed_and_weighed_labels():
    assert np.allclose(curve("an_ls", "present", smoothing=0.1), P - 0.9)
    assert np.allclose(curve("an_ls", "unknown", smoothing=0.1), P - 0.1)
    assert np.allclose(curve("n_ls", "present", smoothing=0.1), P - 1)
    assert np.allclose(curve("n_ls", "unknown", smoothing=0.1), P - 0.1)
    assert np.allclose(curve("dw", "unknown", weight=0.3), 0.3 * P)
    assert np.allclose(gradient_regime("wan", classes=5).curves["unknown"], P / 4)


def test_asymmetric_focus():
    easier = np.clip(P - 0.05, 0, None)
    assert np.allclose(curve("asl", "unknown"), easier**4 * P * (1 - P) / (1 - easier) * (P > 0.05))
    focal = -((1 - P) ** 2) * ((1 - P) - 2 * P * np.log(P))
    assert np.allclose(curve("focal", "present", gamma_pos=2.0), focal)


def test_expected_positives_are_a_matter_of_the_batch():
    regime = gradient_regime("epr", {"k": 1.0})
    push = 2 * (K_HAT - 1.0) / 20 * P * (1 - P)
    assert np.allclose(regime.curves["unknown"], push)
    assert np.allclose(regime.curves["present"], P - 1 + push)
    assert len(regime.notes) == 1
    assert f"{K_HAT:.2f} expected positives" in regime.notes[0]


def test_role_pulls_to_its_estimates():
    regime = gradient_regime("role", {"k": K_HAT})  # the penalty is then 0
    for estimate in (0.1, 0.5, 0.9):
        assert np.allclose(regime.curves[f"unknown, estimated at {estimate}"], (P - estimate) / 2, atol=1e-6)
    assert np.allclose(regime.curves["present"], (P - 1) / 2 + (P - 0.995) / 2, atol=1e-6)
    assert "unknown" not in regime.curves


@pytest.mark.parametrize("name", [name for name in method_names() if not find_method(name).needs_images])
def test_every_method_answers(name):
    state = torch.get_rng_state()
    regime, again = gradient_regime(name), gradient_regime(name)
    assert torch.equal(state, torch.get_rng_state())
    assert {"present", "absent"} <= regime.curves.keys()
    assert any(said.startswith("unknown") for said in regime.curves)
    for said, values in regime.curves.items():
        assert values.shape == P.shape
        assert np.isfinite(values).all()
        assert np.array_equal(values, again.curves[said])
    assert regime.curves["present"][0] < 0
    json.dumps(regime.describe(), allow_nan=False)


def test_required_options_take_an_example_and_say_so():
    regime = gradient_regime("epr")
    assert regime.options == {"k": 1.5}
    assert regime.notes[0] == "k = 1.5 is an example value"


def test_only_the_states_that_are_asked_for():
    assert list(gradient_regime("em", states=[PRESENT, UNKNOWN]).curves) == ["present", "unknown"]
    assert list(gradient_regime("role", states=[ABSENT]).curves) == ["absent"]


def test_a_loss_on_images_is_refused(monkeypatch):
    monkeypatch.setattr(find_method("em"), "needs_images", True)
    with pytest.raises(GradientError, match="em works on images"):
        gradient_regime("em")


def test_a_run_leaves_its_own_regime(table, tmp_path):
    run(replace(linear(table, budget={"epochs": 1}), method="wan"), tmp_path / "run")
    left = json.loads((tmp_path / "run" / "gradients.json").read_text())
    assert set(left["curves"]) == {"present", "unknown"}  # single positives: nothing is known to be absent
    assert np.allclose(left["curves"]["unknown"], P / 3, rtol=1e-6)  # four classes


def test_a_run_with_memory_leaves_its_regime_too(tmp_path, monkeypatch):
    config = role(linear(write_world(tmp_path), budget={"epochs": 1}))
    run(config, tmp_path / "run")
    left = json.loads((tmp_path / "run" / "gradients.json").read_text())
    assert left["options"] == {"k": 1.5}
    assert math.isclose(left["probabilities"][0], 0.005)
    assert "unknown, estimated at 0.5" in left["curves"]
