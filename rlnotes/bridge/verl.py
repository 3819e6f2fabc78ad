"""A recipe as a policy loss, and its advantage, in verl's registries.

    # my_losses.py, which every process of verl imports if VERL_USE_EXTERNAL_MODULES=my_losses
    from rlnotes.bridge.verl import register

    register("trm", "trm")

Then ``actor_rollout_ref.actor.policy_loss.loss_mode=trm algorithm.adv_estimator=trm``.

Checked with verl 0.9.1: its registries can be imported on a CPU (it asks for ray, tensordict and hydra, not for a GPU),
and the tests of this module pass with them. A training run of verl was not made.
"""

# pyright: reportMissingImports=false
# verl is not among the extras: verl 0.9.1 wants transformers below 5.11, and constraints.txt pins 5.24. Both libraries
# would fit into one environment with an older transformers, which was not tested. So its types are unknown.

from typing import Any, Literal

import torch
from torch import Tensor

from rlnotes.bridge.settings import find_recipe
from rlnotes.exact.precision import widened
from rlnotes.objectives import Batch, Choices, policy_loss
from rlnotes.objectives.aggregations import Totals, constant
from rlnotes.objectives.diagnostics import no_gradient_fraction

BYPASS = "bypass_mode"  # the loss that verl takes, whatever was asked for, where old_log_prob is the rollout's
Old = Literal["proximal", "behavior"]
Metrics = dict[str, float]


def register(name: str, recipe: str | Choices, old: Old = "proximal") -> None:
    """Make ``recipe``, a name of ``RECIPES`` or Choices, the policy loss and the advantage called ``name`` in verl.

    A policy loss of verl is given one old policy, ``old_log_prob``; ``old`` says which it is:

    | ``old`` | verl | in the recipe |
    |---|---|---|
    | ``"proximal"`` | recomputes it before the updates, the default | pi_k; and for a recipe that compares with mu |
    | | | alone, it stands in for mu: the same on policy, up to the rollout engine's rounding |
    | ``"behavior"`` | ``algorithm.rollout_correction.bypass_mode=True`` | mu, as the rollout engine recorded it. verl |
    | | | then takes the loss called bypass_mode, so the recipe also replaces that one |

    verl says the sizes of the whole batch, and ``actor.loss_scale_factor`` is T_max, which a recipe with ``constant``
    needs. ``loss_agg_mode`` concerns only verl's own entropy bonus and KL penalty. Metrics: ``actor/no_gradient``, of
    which verl takes the mean over parts.

    Raises ``ImportError`` without verl. Raises ``ValueError`` for a recipe that needs what verl does not hand over: two
    old policies, mu's likeliest tokens, which responses are truncated, numbers of a whole batch that a part lacks; for
    what verl does elsewhere: KL penalty, entropy bonus, dynamic sampling, penalty for length; for a ``name`` in use.
    The weight pi_k / mu that verl makes if ``rollout_is`` is set, and a T_max that was left out, are refused too, but
    only by the loss, when called.
    """
    choices = find_recipe(recipe)
    if old not in ("proximal", "behavior"):
        raise ValueError(f"old is {old!r}; choose 'proximal' or 'behavior'")
    _check(choices)
    loss = _loss(choices, _field(choices, old))
    core = _core_algos()
    if name in core.POLICY_LOSS_REGISTRY or name in core.ADV_ESTIMATOR_REGISTRY:
        raise ValueError(f"name is {name!r}, which verl knows already; choose another")
    core.register_policy_loss(name)(loss)
    core.register_adv_est(name)(_advantage(choices))
    if old == "behavior":
        core.register_policy_loss(BYPASS)(loss)


def _core_algos() -> Any:
    try:
        from verl.trainer.ppo import core_algos
    except ModuleNotFoundError as error:
        raise ImportError(f"verl cannot be imported, for {error.name} is missing: pip install verl") from error
    return core_algos


def _check(choices: Choices) -> None:
    """Raise ``ValueError`` for what has another place in verl, or none."""
    elsewhere = dict(
        kl="actor.use_kl_loss or algorithm.use_kl_in_reward",
        entropy="actor.entropy_coeff",
        dynamic_sampling="algorithm.filter_groups",
        overlong="the reward manager's overlong_buffer",
    )
    for name, setting in elsewhere.items():
        if getattr(choices, name):
            raise ValueError(
                f"{name} is {getattr(choices, name)!r}, and in verl that is not the loss's; take it out with "
                f"dataclasses.replace(recipe, {name}={getattr(Choices, name)!r}) and set {setting}"
            )
    if choices.needs_whole_batch:
        raise ValueError(
            "the recipe divides by what it keeps (divide_by) or by its mean weight (normalised), which a part of a "
            "batch cannot know, and verl computes its losses on parts"
        )


def _field(choices: Choices, old: Old) -> str:
    """The field of a ``Batch`` that ``old_log_prob`` has to fill: found by trying, on one token."""
    fields = ["logp_behavior"] if old == "behavior" else ["logp_proximal", "logp_behavior"]
    zero = torch.zeros(1, 1)
    lacking = ""
    for field in fields:
        try:
            policy_loss(choices, _batch(field, zero, zero.bool().logical_not(), zero, zero))
            return field
        except ValueError as error:
            lacking = str(error).split(";")[0]
    raise ValueError(f"with verl's old_log_prob as {' or '.join(fields)}, {lacking}; verl's losses are given no more")


def _batch(
    field: str, logp: Tensor, mask: Tensor, advantages: Tensor, old: Tensor, totals: Totals | None = None
) -> Batch:
    """A batch (n, T) whose ``field`` is the ``old`` policy."""
    given: dict[str, Any] = {field: old.detach()}
    return Batch(logp, mask, advantages.detach(), totals=totals, **given)


def _loss(choices: Choices, field: str) -> Any:
    def recipe_loss(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
    ) -> tuple[Tensor, Metrics]:
        """verl's signature: (n, T) tensors to the loss () and metrics."""
        if rollout_is_weights is not None:
            raise ValueError(
                "rollout_is_weights were passed, and the weights of a loss are its recipe's; set "
                "algorithm.rollout_correction.rollout_is=null"
            )
        mask = response_mask.bool()
        sizes = dict(getattr(config, "global_batch_info", None) or {})
        totals, processes = _totals(choices, mask, sizes), sizes.get("dp_size") or 1
        some = mask.any(-1)  # verl counts a response without tokens, and gives it no loss
        if not bool(some.any()):
            return log_prob.sum() * 0.0, {"actor/no_gradient": 0.0}
        batch = _batch(field, log_prob[some], mask[some], advantages[some], old_log_prob[some], totals)
        loss = policy_loss(choices, batch)
        metrics = {}
        if loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, batch.logp, retain_graph=True)
            metrics = {"actor/no_gradient": no_gradient_fraction(batch, gradient).item()}
        return loss * processes, metrics  # verl takes the mean over processes

    return recipe_loss


def _totals(choices: Choices, mask: Tensor, sizes: dict[str, Any]) -> Totals:
    """Sizes of the whole batch, as verl says them, or of this part if it is all there is."""
    own = Totals.of(mask, sizes.get("loss_scale_factor"))
    responses, tokens = sizes.get("global_batch_size"), sizes.get("batch_num_tokens")
    if (sizes.get("dp_size") or 1) > 1 and (responses is None or tokens is None):
        raise ValueError(f"global_batch_info is {sizes}; with dp_size above 1 the sizes of the whole batch are needed")
    part = responses is not None or tokens is not None
    if part and choices.aggregation is constant and sizes.get("loss_scale_factor") is None:
        raise ValueError(
            "loss_scale_factor is None, and the recipe divides by T_max, which the width of a part is not; set "
            "actor_rollout_ref.actor.loss_scale_factor to data.max_response_length"
        )
    return Totals(int(responses or own.responses), int(tokens or own.tokens), own.max_length)


def _advantage(choices: Choices) -> Any:
    def recipe_advantage(
        token_level_rewards: Tensor, response_mask: Tensor, index: Any, **_: Any
    ) -> tuple[Tensor, Tensor]:
        """verl's signature: rewards (N, T), and the group of each response (N,), to advantages (N, T), twice."""
        members: dict[Any, list[int]] = {}
        for row, group in enumerate(index):
            members.setdefault(group, []).append(row)
        sizes = sorted({len(rows) for rows in members.values()})
        if len(sizes) > 1:
            raise ValueError(f"index names groups of {sizes} responses; an advantage compares groups of one size")
        order = torch.tensor([row for rows in members.values() for row in rows], device=token_level_rewards.device)
        rewards = widened(token_level_rewards).sum(-1)
        advantages = torch.empty_like(rewards)
        advantages[order] = choices.advantage(rewards[order], sizes[0])
        every = advantages[:, None] * response_mask
        return every, every

    return recipe_advantage
