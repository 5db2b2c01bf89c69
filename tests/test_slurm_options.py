"""sbatch's command lines are taken apart as sbatch itself does."""

from __future__ import annotations

import os
import re
import shutil
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.errors import UsageError
from supernode_slurm.slurm.option_table import ALIASES, TABLES, VARIABLES, Arity, Spec
from supernode_slurm.slurm.options import (
    Split,
    directives,
    environment,
    split,
    table,
    takes_next,
    values,
    variable,
)
from supernode_slurm.slurm.run import run


def test_options_script_and_arguments_come_apart_untouched() -> None:
    words = ["-N4", "-p", "h", "--time=1:00", "--mem", "4 G", "train it.sh", "--time=2", ":", "-x"]
    found = split(words, "24.11")
    assert found == Split(
        (("-N4", "-p", "h", "--time=1:00", "--mem", "4 G"),),
        "train it.sh",
        ("--time=2", ":", "-x"),
    )
    assert found.join() == words


def test_colons_left_of_the_script_separate_components() -> None:
    found = split(["-N1", ":", "-N2", "-p", ":", ":", "x.sh", ":"], "22.05")
    assert found.components == (("-N1",), ("-N2", "-p", ":"), ())
    assert (found.script, found.arguments) == ("x.sh", (":",))


def test_letters_may_share_a_word_and_the_last_may_take_a_value() -> None:
    assert split(["-HQN", "2", "x.sh"], "24.11").components == (("-HQN", "2"),)
    assert values(["-HQN", "2"]) == {"hold": None, "quiet": None, "nodes": "2"}
    assert values(["-HN2", "-sk"]) == {
        "hold": None,
        "nodes": "2",
        "oversubscribe": None,
        "no-kill": None,
    }


def test_an_optional_value_is_never_the_next_word() -> None:
    found = split(["--exclusive", "user", "--nice"], "24.11")
    assert (found.components, found.script) == ((("--exclusive",),), "user")
    assert found.arguments == ("--nice",)
    assert values(["--exclusive=user", "--nice"]) == {"exclusive": "user", "nice": None}


def test_two_dashes_end_the_options() -> None:
    found = split(["-N1", "--", "-weird.sh", "a"], "24.11")
    assert (found.script, found.arguments) == ("-weird.sh", ("a",))
    assert found.join() == ["-N1", "--", "-weird.sh", "a"]
    assert split(["-N1", "--"], "24.11") == Split((("-N1",),), None, ())


def test_without_a_script_there_is_none() -> None:
    assert split(["--wrap", "a b"], "22.05") == Split((("--wrap", "a b"),), None, ())
    assert split([], "22.05") == Split(((),), None, ())


def test_the_start_of_one_name_is_enough_as_for_getopt() -> None:
    assert values(["--part=h", "--nodel", "n1"]) == {"partition": "h", "nodelist": "n1"}
    with pytest.raises(UsageError, match=r"--gpu is ambiguous for sbatch: --gpu-bind, --gpu-freq"):
        split(["--gpu=1"], "24.11")


def test_options_belong_to_releases() -> None:
    assert split(["--segment=4"], "24.11").components == (("--segment=4",),)
    with pytest.raises(UsageError, match=r"sbatch 22\.05 has no option --segment"):
        split(["--segment=4"], "22.05")
    with pytest.raises(UsageError, match=r"sbatch 24\.11 has no option --power"):
        split(["--power=x"], "24.11")
    assert values(["--power=x", "--segment=4"]) == {"power": "x", "segment": "4"}


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no option --partitoin; do you mean --partition"):
        split(["--partitoin=h"], "24.11")
    with pytest.raises(UsageError, match=r"no option -z \(in '-z4'\)"):
        split(["-z4"], "24.11")


def test_a_missing_or_unwanted_value_is_refused() -> None:
    with pytest.raises(UsageError, match="sbatch's option --time needs a value"):
        split(["--time"], "24.11")
    with pytest.raises(UsageError, match="sbatch's option -N needs a value"):
        split(["-N"], "24.11")
    with pytest.raises(UsageError, match="--hold takes no value"):
        split(["--hold=yes"], "24.11")


def test_the_last_of_equal_options_counts_whatever_its_spelling() -> None:
    assert values(["-N1", "--nodes", "2", "--nodes=3"]) == {"nodes": "3"}
    assert values(["--cluster=a", "-M", "b"]) == {"clusters": "b"}


@pytest.mark.parametrize("words", [[":"], ["x.sh"], ["--"], ["-"]])
def test_what_is_no_option_sets_no_value(words: list[str]) -> None:
    with pytest.raises(UsageError, match="is not an option of sbatch"):
        values(words)


def test_a_release_that_was_not_asked_has_the_options_of_its_neighbours() -> None:
    assert table("26.05") is TABLES["26.05"]
    assert table("26.11") is TABLES["26.05"]
    assert table("21.08") is TABLES["22.05"]
    assert table("23.11").keys() == TABLES["22.05"].keys() | TABLES["24.11"].keys()
    assert table("25.11")["requeue"].arity is Arity.OPTIONAL
    assert table("25.11")["get-user-env"].arity is Arity.OPTIONAL


def spec_words(spec: Spec, value: str, form: int) -> list[str]:
    if spec.arity is Arity.NONE:
        return [f"-{spec.letter}" if spec.letter and form % 2 else f"--{spec.long}"]
    forms = [[f"--{spec.long}={value}"]]
    if spec.letter and value:
        forms.append([f"-{spec.letter}{value}"])
    if spec.arity is Arity.REQUIRED:
        forms.append([f"--{spec.long}", value])
        forms += [[f"-{spec.letter}", value]] if spec.letter else []
    return forms[form % len(forms)]


options = st.builds(
    spec_words,
    st.sampled_from(sorted(TABLES["24.11"].values(), key=lambda spec: spec.long)),
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.integers(0, 3),
)


@given(
    st.lists(st.lists(options, max_size=5), min_size=1, max_size=3),
    st.none() | st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda s: s not in ":"),
    st.lists(st.text(max_size=5)),
)
def test_taking_apart_and_joining_loses_nothing(
    components: list[list[list[str]]], script: str | None, arguments: list[str]
) -> None:
    words = [tuple(word for option in component for word in option) for component in components]
    whole = Split(tuple(words), script, tuple(arguments) if script is not None else ())
    assert split(whole.join(), "24.11") == whole


@given(st.lists(options, max_size=8))
def test_every_option_is_found_by_its_long_name(chosen: list[list[str]]) -> None:
    words = [word for option in chosen for word in option]
    expected = [next(iter(values(option))) for option in chosen]
    assert set(values(words)) == set(expected)


ODD = {
    "\t# note\n#SBATCH -N 2": ["-N", "2"],
    "  #SBATCH -p x\n#SBATCH -N 2": ["-N", "2"],
    "   \n\t\n#SBATCH -N 2": ["-N", "2"],
    "\v\f\n#SBATCH -N 2": ["-N", "2"],
    "\u00a0\n#SBATCH -N 2": [],
    "#SBATCH -n 2\r-p x\n#SBATCH -J a": ["-n", "2", "-p", "x", "-J", "a"],
    ": \n#SBATCH -N 2": [],
    "true\n#SBATCH -N 2": [],
    "#SBATCHx -N 2": ["x", "-N", "2"],
    "#SBATCH-N2": ["-N2"],
    "# SBATCH -N 2\n##SBATCH -N 3\n#sbatch -N 4\n#SBATCH -J a": ["-J", "a"],
    "#SLURM -N 2\n#SBATCH -J a": ["-N", "2", "-J", "a"],
    "#SBATCH -N 2 extra -J a": ["-N", "2", "extra", "-J", "a"],
    "#SBATCH -J 'a b' --comment=x\"y z\"w # no\n": ["-J", "a b", "--comment=xy zw"],
    "#SBATCH --comment='a\\'b' --mail-user=\"x\\\"y\"": ["--comment=a'b", '--mail-user=x"y'],
    "#SBATCH -J a#b -N 2\n#SBATCH --comment='#c'": ["-J", "a", "--comment=#c"],
    "#SBATCH -N 2 \\\n#SBATCH -J a\\\n": ["-N", "2", "-J", "a"],
    "#SBATCH --comment='' -N 2": ["--comment=", "-N", "2"],
    "#SBATCH -J '' -N 2\n#SBATCH -n 4": ["-J", "-n", "4"],
    "#SBATCH\n#SBATCH '' -N 2\n#SBATCH -n 4": ["-n", "4"],
    "#SBATCH -N 2\n#SBATCH hetjob\n#SBATCH -N 3": ["-N", "2", ":", "-N", "3"],
    "#SBATCH -N 2\n#SBATCHHetJob -n 4 # x\n#SLURM -N 3": ["-N", "2", ":", "-N", "3"],
    "#SBATCH packjob\n#SBATCH -N 3": [":", "-N", "3"],
    "#SBATCH -N 2\n  #SBATCH hetjob\n#SBATCH -N 3": ["-N", "2", "-N", "3"],
    "#SBATCH -N 2\n#SBATCH 'hetjob' -N 3": ["-N", "2", "hetjob", "-N", "3"],
    "#SBATCH -n 4 hetjob -p x\n#SBATCH -N 3": ["-n", "4", "-N", "3"],
    "#SBATCH -J a-hetjob --comment='x hetjob y'": ["-J", "a-hetjob", "--comment=x hetjob y"],
}
"""What follows the first line of a script, and the words that sbatch makes of it."""


@pytest.mark.parametrize(("body", "words"), ODD.items())
def test_directives_are_read_as_sbatch_reads_them(body: str, words: list[str]) -> None:
    assert directives(f"#!/bin/bash\n{body}") == words


@pytest.mark.slurm
@pytest.mark.parametrize(("body", "words"), ODD.items())
def test_sbatch_itself_reads_directives_so(
    body: str, words: list[str], sbatch_env: dict[str, str]
) -> None:
    found = run(
        # No controller answers: what the script says is told before one is asked.
        ["sbatch", "-vvv", "--test-only"],
        timeout_s=60, env=sbatch_env, stdin_text=f"#!/bin/bash\n{body}",
    ).stderr  # fmt: skip
    heard = re.findall(r'Found in script, argument "(.*)"$', found, re.MULTILINE)
    assert heard == [word for word in words if word != ":"]
    if "Invalid directive" not in found and "requires an argument" not in found:
        components = re.findall("^sbatch: defined options$", found, re.MULTILINE)
        assert len(components) == words.count(":") + 1


def test_a_space_after_a_backslash_stays_in_its_word() -> None:
    assert directives("#SBATCH --mail-user=a\\ b") == ["--mail-user=a b"]


def test_a_hetjob_line_separates_components() -> None:
    text = "#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n"
    assert directives(text) == ["-N1", ":", "-N2"]


def test_an_open_quote_in_a_directive_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match='line 2 of the script: no closing "'):
        directives('#!/bin/sh\n#SBATCH -J "a\n')


def test_variables_set_options() -> None:
    env = {"SBATCH_PARTITION": "h", "SBATCH_TIMELIMIT": "5", "SBATCH_X": "1", "SLURM_JOB_ID": "2"}
    assert environment(env) == {"partition": "h", "time": "5"}
    assert variable("mem") == "SBATCH_MEM_PER_NODE"


def test_every_variable_and_alias_names_a_known_option() -> None:
    known = {name for specs in TABLES.values() for name in specs}
    assert VARIABLES.keys() <= known
    assert {*ALIASES, *ALIASES.values()} <= known


@pytest.fixture
def sbatch_env(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which sbatch reads its options, and reaches no controller."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\n"
        "MessageTimeout=1\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    return {"PATH": os.environ["PATH"], "SLURM_CONF": str(conf), "LC_ALL": "C"}


def real_arity(name: str, env: dict[str, str]) -> Arity | None:
    """Ask sbatch itself; None for an option that it does not know."""
    with_value = run(["sbatch", f"--{name}=zzz", "--no-such"], timeout_s=60, env=env).stderr
    if f"unrecognized option '--{name}=" in with_value or "is ambiguous" in with_value:
        return None
    if f"option '--{name}' doesn't allow an argument" in with_value:
        return Arity.NONE
    alone = run(["sbatch", f"--{name}"], timeout_s=60, env=env).stderr
    return Arity.REQUIRED if f"'--{name}' requires an argument" in alone else Arity.OPTIONAL


def real_release(env: dict[str, str]) -> str:
    found = re.search(r"[0-9]+\.[0-9]+", run(["sbatch", "-V"], timeout_s=60, env=env).stdout)
    if found is None or found[0] not in TABLES:
        pytest.skip("no table for the installed release")
    return found[0]


@pytest.mark.slurm
def test_the_table_is_that_of_the_installed_sbatch(sbatch_env: dict[str, str]) -> None:
    release = real_release(sbatch_env)
    shown = run(["sbatch", "--help"], timeout_s=60, env=sbatch_env).stdout
    listed = set(re.findall(r"(?:^|[ ,])--([a-z][a-z-]+)", shown, re.MULTILINE))
    assert len(listed) > 80
    everything = {name for specs in TABLES.values() for name in specs}
    ours = {name: spec.arity for name, spec in TABLES[release].items()}
    real = {name: real_arity(name, sbatch_env) for name in sorted(listed | everything)}
    # Asked for --extra, 22.05 takes it for the start of --extra-node-info.
    full = {name: arity for name, arity in real.items() if arity and not is_start(name, release)}
    assert full == ours


def is_start(name: str, release: str) -> bool:
    known = TABLES[release]
    return name not in known and any(long.startswith(name) for long in known)


NEWER = {
    "consolidate-segments": "26.05", "container-id": "24.11", "container-type": "26.05",
    "segment": "26.05", "spread-segments": "26.05", "tres-bind": "24.11",
    "tres-per-task": "24.11",
}  # fmt: skip


@pytest.mark.slurm
def test_the_variables_are_those_in_the_installed_sbatch(sbatch_env: dict[str, str]) -> None:
    release = real_release(sbatch_env)
    program = Path(shutil.which("sbatch") or "").read_bytes()
    real = {name.decode() for name in re.findall(rb"\0(SBATCH_[A-Z_]+)(?=\0)", program)}
    assert real == {
        variable for name, variable in VARIABLES.items() if NEWER.get(name, "") <= release
    }


@pytest.mark.slurm
def test_the_letters_are_those_of_the_installed_sbatch(sbatch_env: dict[str, str]) -> None:
    release = real_release(sbatch_env)
    ours = {spec.letter: spec.arity for spec in TABLES[release].values() if spec.letter}
    for letter in string.ascii_letters:
        said = run(["sbatch", f"-{letter}"], timeout_s=60, env=sbatch_env).stderr
        assert (letter in ours) == ("invalid option" not in said), letter
        assert takes_value(ours, letter) == ("requires an argument" in said), letter


def takes_value(arities: dict[str, Arity], letter: str) -> bool:
    return arities.get(letter) is Arity.REQUIRED


def test_taking_the_next_word_depends_on_what_the_word_holds() -> None:
    assert takes_next("-N") and takes_next("--nodes") and takes_next("-HN")
    assert not takes_next("-N4") and not takes_next("--nodes=4") and not takes_next("--nice")
