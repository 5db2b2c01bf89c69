"""Models as text of dimensions: what they say, what is refused, and the way back."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.catalogue import (
    Model,
    dimensions_of,
    find_model,
    model_from_dimensions,
    models,
)
from supernode_slurm.errors import UsageError

LLAMA_3_8B = "layers=32,hidden=4096,heads=32,kv-heads=8,ffn=14336,vocab=128256"


def refused(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        find_model(text)
    return str(caught.value).splitlines()


def test_dimensions_make_the_model_of_the_catalogue() -> None:
    model = find_model(LLAMA_3_8B)
    known = find_model("llama-3-8b")
    assert model.params == 8_030_261_248
    assert dataclasses.replace(model, name=known.name) == known


def test_a_name_a_config_and_dimensions_go_through_one_door() -> None:
    assert find_model("llama-3-8b").layers == find_model(LLAMA_3_8B).layers == 32


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_every_model_of_the_catalogue_survives_the_way_there_and_back(model: Model) -> None:
    text = dimensions_of(model)
    back = model_from_dimensions(text)
    assert back.name == text
    # Where the parameters beside the matrices lie is not said, only how many there are.
    assert dataclasses.replace(back, name=model.name, extras=model.extras) == model
    assert back.parts_params == model.params


def test_spelling_of_keys_and_flags_is_forgiving_and_the_name_is_the_shortest_form() -> None:
    text = " Layers=32, hidden=4096 ,heads=32,kv_heads=8,ffn=14336,vocab=128256,gated=true,tied=No"
    assert find_model(text).name == LLAMA_3_8B


def test_experts_latent_attention_and_dense_layers_are_said_by_their_keys() -> None:
    model = find_model(
        "layers=4,hidden=512,heads=8,ffn=2048,vocab=1000,experts=16,topk=2,expert-ffn=256,"
        "shared-ffn=512,dense=0+2-3,kv-rank=64,plain-dim=32,rotary-dim=16,value-dim=32"
    )
    assert model.mixture is not None
    assert model.latent is not None
    assert (model.mixture.dense_layers, model.mixture_layers) == ((0, 2, 3), 1)
    assert (model.mixture.shared_ffn, model.latent.query_rank, model.head_dim) == (512, 0, 48)


def test_windows_and_predictions_of_more_tokens_are_said_by_their_keys() -> None:
    model = find_model(f"{LLAMA_3_8B},window=1024,mtp=2")
    assert (model.window, model.window_layers, model.mtp) == (1024, 32, 2)
    assert model.params == 8_030_261_248
    some = find_model(f"{LLAMA_3_8B},window=1024,window-layers=16")
    assert (some.window_layers, some.name) == (16, f"{LLAMA_3_8B},window=1024,window-layers=16")


def test_parameters_beyond_the_count_lie_in_the_attention() -> None:
    bare = find_model(LLAMA_3_8B)
    more = find_model(f"{LLAMA_3_8B},params={bare.params + 32 * 6144 + 5}")
    assert more.attention_params == bare.attention_params + 6144
    assert more.outside_params == bare.outside_params + 5
    assert more.parts_params == more.params
    fewer = find_model(f"{LLAMA_3_8B},params={bare.params - 1}")
    assert fewer.parts_params == fewer.params


def test_the_width_of_experts_is_that_of_an_mlp_no_layer_has() -> None:
    text = "layers=2,hidden=64,heads=4,vocab=100,experts=4,topk=2,expert-ffn=96"
    assert find_model(text).ffn == 96


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("layers=32", "layer=32"), "no key 'layer'; did you mean 'layers'?"),
        (("layers=32", "layers=0"), "layers must be a whole number from 1 to 4,096, got '0'"),
        (("layers=32", "layers=9999"), "layers must be a whole number from 1 to 4,096"),
        (("hidden=4096", "hidden=4k"), "hidden must be a whole number from 1 to 16,777,216"),
        (("hidden=4096", "hidden=4100"), "hidden, 4100, is no multiple of heads, 32: say head-dim"),
        (("kv-heads=8", "kv-heads=5"), "heads, 32, must be a multiple of kv-heads, 5"),
        (("ffn=14336,", ""), "ffn is missing: width of a dense MLP"),
        (("ffn=14336", "ffn"), "expected key=value, got 'ffn'"),
        (("ffn=14336", "ffn=14336,tied=maybe"), "tied must be yes or no, got 'maybe'"),
        (("ffn=14336", "ffn=14336,ffn=14336"), "ffn stands twice"),
        (("ffn=14336", "ffn=14336,topk=2"), "topk needs experts"),
        (("ffn=14336", "ffn=14336,experts=2,topk=4,expert-ffn=8"), "topk is 4, more than experts"),
        (
            ("ffn=14336", "ffn=14336,experts=4,topk=2,expert-ffn=8,dense=3-1"),
            "dense must be layers like 0-2+7 below 32, got '3-1'",
        ),
        (
            ("ffn=14336", "ffn=14336,experts=4,topk=2,expert-ffn=8,dense=30-40"),
            "dense must be layers",
        ),
        (
            (
                "ffn=14336",
                "ffn=1,head-dim=100,kv-rank=8,plain-dim=64,rotary-dim=64,value-dim=64",
            ),
            "head-dim must be plain-dim + rotary-dim, 128",
        ),
        (("ffn=14336", "ffn=14336,window-layers=8"), "window-layers needs window"),
        (
            ("ffn=14336", "ffn=14336,window=128,window-layers=33"),
            "window-layers is 33, more than layers, 32",
        ),
        (("ffn=14336", "ffn=14336,params=8"), "params is 8, the other dimensions make 8,030,261,"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(changed: tuple[str, str], message: str) -> None:
    (line,) = [text for text in refused(LLAMA_3_8B.replace(*changed)) if message in text]
    assert line.startswith(f"model dimensions: {message}")


def test_everything_wrong_is_told_at_once() -> None:
    lines = refused("layer=3,hidden=x,heads=32")
    found = [line.removeprefix("model dimensions: ").split()[0] for line in lines]
    assert found == ["no", "layers", "hidden", "ffn", "vocab"]


@given(st.text(max_size=200))
def test_no_text_after_an_equals_sign_does_more_than_be_refused(text: str) -> None:
    with pytest.raises(UsageError):
        find_model(f"layers={text},")


@given(
    st.builds(
        Model,
        name=st.just(""),
        layers=st.integers(1, 200),
        hidden=st.integers(1, 1 << 20),
        heads=st.integers(1, 512),
        kv_heads=st.just(1),
        head_dim=st.integers(1, 512),
        ffn=st.integers(1, 1 << 20),
        vocab=st.integers(1, 1 << 20),
        gated=st.booleans(),
        tied=st.booleans(),
        params=st.just(0),
    )
)
def test_any_dimensions_survive_the_way_there_and_back(model: Model) -> None:
    # The count is none of the dimensions: the first way fills it in.
    text = dimensions_of(model).replace(",params=0", "")
    once = model_from_dimensions(text)
    assert dataclasses.replace(once, name="", params=0) == model
    assert model_from_dimensions(once.name) == once
