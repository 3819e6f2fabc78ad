"""What of a recipe TRL cannot do, and what of TRL's settings a recipe decides: said before anything is made."""

from dataclasses import fields
from typing import Any

from rlnotes.objectives import RECIPES, Choices

DECIDED = {
    "loss_type": "gate and aggregation",
    "epsilon": "gate",
    "epsilon_high": "gate",
    "delta": "gate: Clip(dual=...)",
    "sapo_temperature_pos": "gate: Soft",
    "sapo_temperature_neg": "gate: Soft",
    "vespo_k_pos": "gate",
    "vespo_k_neg": "gate",
    "vespo_lambda_pos": "gate",
    "vespo_lambda_neg": "gate",
    "importance_sampling_level": "ratio",
    "scale_rewards": "advantage",
    "multi_objective_aggregation": "advantage, of the weighted sum of the rewards",
    "mask_truncated_completions": "keep: not_truncated",
    "off_policy_mask_threshold": "keep: OffPolicyMask",
    "top_entropy_quantile": "keep",
    "vllm_importance_sampling_mode": "correction or keep",
    "vllm_importance_sampling_clip_max": "correction or keep",
    "vllm_importance_sampling_clip_min": "correction or keep",
    "beta": "kl: KLPenalty",
    "use_bias_correction_kl": "kl: KLPenalty(weighted=True)",
    "entropy_coef": "entropy",
    "use_adaptive_entropy": "entropy",
}
"""For settings of ``GRPOConfig`` that say what the loss is: the choice that says it here."""

UNTRUNCATED: dict[str, tuple[Any, ...]] = {
    "top_p": (1.0,),
    "top_k": (0, None),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
    "generation_kwargs": (None, {}),
}
"""Settings of ``GRPOConfig`` with which mu is pi at the temperature, and nothing else."""


def find_recipe(recipe: str | Choices) -> Choices:
    """The :class:`Choices` meant by a name of ``RECIPES``, or given. Raises ``ValueError`` for another name."""
    if isinstance(recipe, Choices):
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"unknown recipe {recipe!r}; choose one of {', '.join(RECIPES)}, or pass Choices(...)")
    return RECIPES[recipe]


def check_choices(choices: Choices, processes: int, accumulated: int) -> None:
    """Raise ``ValueError`` for a choice that TRL has no place for.

    ``processes`` share each update, and each of them adds up its gradient from ``accumulated`` parts.
    """
    if choices.needs_divergence is not None:
        raise ValueError(
            f"the recipe needs {choices.needs_divergence}, and TRL does not record mu's likeliest tokens, only the "
            "sampled one; take a mask with estimator 'binary_tv' or 'binary_kl' (dppo_tv, dppo_kl)"
        )
    if choices.dynamic_sampling:
        raise ValueError(
            "dynamic_sampling is True, and TRL draws the prompts of an update once, so it cannot replace groups that "
            "teach nothing; take dataclasses.replace(recipe, dynamic_sampling=False): such groups then stay in the "
            "batch with advantage 0, and are counted in what the loss is divided by"
        )
    if choices.needs_whole_batch and (processes > 1 or accumulated > 1):
        raise ValueError(
            f"the recipe divides by what it keeps (divide_by) or by its mean weight (normalised), which a part of an "
            f"update cannot know, and {processes} process(es) with gradient_accumulation_steps {accumulated} make "
            f"{processes * accumulated} parts; use one process and gradient_accumulation_steps=1"
        )
    if choices.kl is not None and choices.kl.beta == 0:
        raise ValueError("kl.beta is 0, and TRL loads no reference model then; leave kl out, or make beta positive")


def check_arguments(choices: Choices, args: Any, records: bool) -> None:
    """Raise ``ValueError`` for a setting in ``args``, a ``GRPOConfig``, that goes against the recipe.

    ``records`` says whether the sampler records the log-probabilities of what it samples, as vLLM does.
    """
    defaults = {field.name: field.default for field in fields(args)}
    for name, choice in DECIDED.items():
        if getattr(args, name) != defaults[name]:
            raise ValueError(
                f"{name} is {getattr(args, name)!r}, and the loss is the recipe's; leave {name} at its default, "
                f"{defaults[name]!r}, and say it in Choices ({choice})"
            )
    if args.steps_per_generation % args.gradient_accumulation_steps:
        raise ValueError(
            f"steps_per_generation is {args.steps_per_generation} and gradient_accumulation_steps is "
            f"{args.gradient_accumulation_steps}; an update made of several generations would not know its number of "
            "tokens in time: make the first a multiple of the second"
        )
    if args.num_generations_eval is not None and args.num_generations_eval < 2:
        raise ValueError(
            f"num_generations_eval is {args.num_generations_eval}: a group of one has no advantage; use 2 or more"
        )
    if reads_behavior(choices) and not records:
        _check_sampling(args)


def reads_behavior(choices: Choices) -> bool:
    """True if the loss compares with mu, the policy that sampled."""
    return choices.anchor == "behavior" or choices.correction is not None or choices.keep is not None


def _check_sampling(args: Any) -> None:
    for name, harmless in UNTRUNCATED.items():
        if getattr(args, name) not in harmless:
            raise ValueError(
                f"{name} is {getattr(args, name)!r}, so that mu is not pi, and transformers' generate does not record "
                f"mu's log-probabilities, which the recipe needs; leave {name} at {harmless[0]!r}, or sample with "
                "use_vllm=True or a rollout_func, which record them"
            )
