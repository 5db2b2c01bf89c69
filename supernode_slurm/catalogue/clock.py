"""How fast a card is under a power limit: the one place of the rule."""

from __future__ import annotations

from dataclasses import replace

from .accelerators import Accelerator


def rate_share(power_share: float) -> float:
    """Return the rate of a card over its usual one, at this share of its usual power.

    Power rises with the cube of a clock at its voltage, so a rate is taken to follow the cube
    root of the power limit: 500 W of 700 W is 0.89; GB200 over B200 (1200 W over 1000 W) 1.06,
    measured 1.04 (stas00/ml-engineering). Below the lowest voltage, and for the power that no
    clock changes, the rule promises too much: see ``least_rate_share``.
    """
    return float(power_share ** (1 / 3))


def least_rate_share(power_share: float) -> float:
    """Return the rate where the voltage stays and the clock alone falls: power's own share.

    600 W of 700 W is 0.86; steps of transformers on H100 were 10 to 15 % longer at it
    (factryze.ai, power capping), for which ``rate_share`` says 5 %.
    """
    return min(power_share, 1.0)


def capped(card: Accelerator, cap_w: float | None) -> Accelerator:
    """Return a card under a power cap: slower products, the same memory and links.

    Where nobody has said its power, or it draws no more than the cap, it is what it was.
    """
    if cap_w is None or card.card_tdp_w is None or cap_w >= card.card_tdp_w:
        return card
    share = rate_share(cap_w / card.card_tdp_w)

    def slower(figure: float | None) -> float | None:
        return None if figure is None else figure * share

    return replace(
        card,
        card_bf16_tflops=slower(card.card_bf16_tflops),
        card_fp16_tflops=slower(card.card_fp16_tflops),
        card_fp8_tflops=slower(card.card_fp8_tflops),
        card_nvfp4_tflops=slower(card.card_nvfp4_tflops),
        card_matmul_bf16_tflops=slower(card.card_matmul_bf16_tflops),
        card_matmul_fp8_tflops=slower(card.card_matmul_fp8_tflops),
        card_tdp_w=cap_w,
    )
