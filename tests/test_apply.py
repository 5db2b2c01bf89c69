"""Installing a configuration: what is written, what slurmctld is asked, what is taken back."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.apply import (
    APPLIED,
    WAITS,
    WRITTEN,
    Disk,
    Session,
    Undone,
    read_target,
)
from supernode_slurm.apply.history import KEPT, PROVEN
from supernode_slurm.errors import ConfigError, SlurmDown, SupernodeError
from supernode_slurm.slurmconf.facts import as_lua, head_comment
from tests.apply_fake import (
    FailingDisk,
    FakeController,
    Killed,
    candidate,
    files,
    installed,
    session,
)

OLD = files()
NEW = files(nodes=("RealMemory=1000000", "RealMemory=900000"))
MORE_CARDS = files(nodes=("gpu:a100:4", "gpu:a100:8"))
LUA = as_lua(head_comment("test", "24.11")) + "\n"


def on_disk(directory: Path) -> dict[str, str]:
    return {
        path.name: path.read_text()
        for path in directory.iterdir()
        if path.is_file() and path.name != "slurm.conf"
    }


def apply(opened: Session, texts: dict[str, str], release: str = "24.11") -> str:
    opened.repair(texts)
    plan = opened.plan(candidate(texts, release))
    return opened.install(plan).state


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    installed(tmp_path / "etc", OLD)
    return tmp_path / "etc"


def test_a_change_is_written_read_and_proven(directory: Path) -> None:
    controller = FakeController(directory)
    opened = session(directory, controller)
    assert apply(opened, NEW) == APPLIED
    assert on_disk(directory) == NEW
    assert controller.loaded == NEW
    assert controller.reconfigured == 1
    assert opened.unfinished() == ""
    found = opened.history.generations()
    assert [(item.number, item.state, item.origin.what) for item in found] == [
        (1, PROVEN, "found installed"),
        (2, PROVEN, "a test"),
    ]
    assert opened.history.files(1) == OLD
    assert found[1].origin.inventory == "0" * 64


def test_nothing_changed_means_that_nothing_is_done(directory: Path) -> None:
    controller = FakeController(directory)
    plan = session(directory, controller).plan(candidate(OLD))
    assert plan.is_empty
    assert controller.reconfigured == 0
    assert not (directory / ".supernode").exists()


def test_files_that_slurmctld_has_not_read_are_read(directory: Path) -> None:
    controller = FakeController(directory)
    for name, text in MORE_CARDS.items():
        (directory / name).write_text(text)
    opened = session(directory, controller)
    plan = opened.plan(candidate(MORE_CARDS))
    assert not plan.is_empty
    assert plan.stale == ("a[001-004],b[1-2]: Gres=gpu:a100:4 in place of gpu:a100:8",)
    assert opened.install(plan).state == APPLIED
    assert controller.loaded == MORE_CARDS


def test_comments_alone_are_written_and_not_read(directory: Path) -> None:
    controller = FakeController(directory)
    texts = {**OLD, "gres.conf": OLD["gres.conf"] + "# more\n"}
    assert apply(session(directory, controller), texts) == APPLIED
    assert controller.reconfigured == 0
    assert on_disk(directory) == texts


def test_a_configuration_that_slurmctld_refuses_is_taken_back(directory: Path) -> None:
    controller = FakeController(directory, dies_of=lambda found: found == NEW)
    opened = session(directory, controller)
    with pytest.raises(Undone, match=r"Unspecified error\n.*are back\nslurmctld runs them, proven"):
        apply(opened, NEW)
    assert on_disk(directory) == OLD
    # The old slurmctld goes on: to disturb it would be for nothing.
    assert controller.reconfigured == 1
    assert [item.number for item in opened.history.generations()] == [1]


def test_a_slurmctld_in_the_foreground_that_dies_is_noticed(directory: Path) -> None:
    controller = FakeController(directory, in_foreground=True, dies_of=lambda found: found == NEW)
    with pytest.raises(Undone, match=r"does not answer\n.*are back\n.*is dead; start it"):
        apply(session(directory, controller), NEW)
    assert on_disk(directory) == OLD
    assert not controller.is_alive


def test_a_dead_slurmctld_is_started_by_the_sites_command(directory: Path) -> None:
    controller = FakeController(directory, "22.05", dies_of=lambda found: "=900000" in str(found))
    old = files("22.05")
    installed(directory, old)
    controller.loaded = old
    new = files("22.05", nodes=("RealMemory=1000000", "RealMemory=900000"))
    with pytest.raises(Undone, match="slurmctld runs them, proven"):
        apply(session(directory, controller, restart=["start"]), new, "22.05")
    assert controller.is_alive
    assert controller.loaded == old


@pytest.mark.parametrize(
    ("ignored", "said"),
    [
        ("supernode-nodes.conf", r"Gres=gpu:a100:4 in place of gpu:a100:8"),
        ("topology.conf", r"the topology has a\[001-004\],b\[1-2\] in leaf2, not a\[001-004\]"),
        ("supernode-partitions.conf", "there is no partition extra"),
    ],
)
def test_what_slurmctld_made_something_else_of_is_taken_back(
    directory: Path, ignored: str, said: str
) -> None:
    new = {
        **files(
            nodes=("gpu:a100:4", "gpu:a100:8"),
            topology=("Nodes=a[001-004],b[1-2]", "Nodes=a[001-004]\nSwitchName=leaf3 Nodes=b[1-2]"),
        )
    }
    new["topology.conf"] = new["topology.conf"].replace("leaf[1-2]", "leaf[1-3]")
    new["supernode-partitions.conf"] += "PartitionName=extra Nodes=b1\n"
    controller = FakeController(directory, ignores=lambda found: {**found, ignored: OLD[ignored]})
    with pytest.raises(Undone, match=said):
        apply(session(directory, controller), new)
    assert on_disk(directory) == OLD
    assert controller.loaded == OLD


def test_a_node_that_is_drained_after_it_takes_the_change_back(directory: Path) -> None:
    reason = "gres/gpu count reported lower than configured (4 < 8)"

    def drained(controller: FakeController) -> dict[str, str]:
        more = "gpu:a100:8" in controller.loaded["supernode-nodes.conf"]
        return {"b1": "old story"} | ({"a001": reason} if more else {})

    controller = FakeController(directory, drained=drained)
    with pytest.raises(Undone, match=r"a001 became DRAIN \(gres/gpu count reported lower"):
        apply(session(directory, controller), MORE_CARDS)
    assert on_disk(directory) == OLD
    assert controller.loaded == OLD
    # What was bad before is no reason.
    assert apply(session(directory, controller), NEW) == APPLIED


def test_a_slurmctld_that_answered_and_did_not_read_is_no_proof(directory: Path) -> None:
    class Sleepy(FakeController):
        def reconfigure(self) -> str:
            return ""

    with pytest.raises(Undone, match="has not read the files"):
        apply(session(directory, Sleepy(directory)), NEW)
    assert on_disk(directory) == OLD


def test_no_slurmctld_means_that_nothing_is_written(directory: Path) -> None:
    controller = FakeController(directory, is_alive=False)
    with pytest.raises(SlurmDown, match="start it, or write the files without it"):
        apply(session(directory, controller), NEW)
    assert on_disk(directory) == OLD


def test_without_a_controller_files_are_written_and_proven_later(directory: Path) -> None:
    controller = FakeController(directory)
    opened = session(directory, None)
    assert apply(opened, MORE_CARDS) == WRITTEN
    assert on_disk(directory) == MORE_CARDS
    assert controller.loaded == OLD
    assert [item.state for item in opened.history.generations()] == [PROVEN, WRITTEN]
    again = session(directory, controller)
    assert apply(again, MORE_CARDS) == APPLIED
    assert [item.state for item in again.history.generations()] == [PROVEN, PROVEN]


# ---- an old release reads some things at a start alone


@pytest.fixture
def old_release(directory: Path) -> tuple[Path, FakeController, dict[str, str]]:
    installed(directory, files("22.05"))
    new = files("22.05", nodes=("gpu:a100:4", "gpu:a100:8"))
    return directory, FakeController(directory, "22.05"), new


def test_what_needs_a_restart_waits_for_it_and_is_proven_then(
    old_release: tuple[Path, FakeController, dict[str, str]],
) -> None:
    directory, controller, new = old_release
    assert apply(session(directory, controller), new, "22.05") == WAITS
    assert controller.reconfigured == 0
    waiting = session(directory, controller).repair(new)
    assert waiting.waits
    assert on_disk(directory) == new
    controller.booted = 2_000_000_000
    controller.restart(["x"])
    opened = session(directory, controller)
    assert not opened.repair(new).waits
    assert opened.unfinished() == ""
    assert opened.history.generations()[-1].state == PROVEN
    assert opened.plan(candidate(new, "22.05")).is_empty


def test_what_waits_for_a_restart_gives_way_to_another_configuration(
    old_release: tuple[Path, FakeController, dict[str, str]],
) -> None:
    directory, controller, new = old_release
    apply(session(directory, controller), new, "22.05")
    opened = session(directory, controller)
    assert opened.earlier(None).files == files("22.05")
    opened.repair(files("22.05"))
    assert on_disk(directory) == files("22.05")
    assert opened.unfinished() == ""


def test_a_restart_by_command_is_proven_at_once(
    old_release: tuple[Path, FakeController, dict[str, str]],
) -> None:
    directory, controller, new = old_release
    opened = session(directory, controller, restart=["systemctl", "restart", "slurmctld"])
    assert apply(opened, new, "22.05") == APPLIED
    assert controller.loaded == new


# ---- killed


def counted_steps(tmp_path: Path) -> int:
    directory = tmp_path / "count"
    installed(directory, OLD)
    disk = FailingDisk(10_000, Killed(), for_good=True)
    apply(session(directory, FakeController(directory), disk), changed())
    return 10_000 - disk.left


def changed() -> dict[str, str]:
    """Return files of which one changes, one goes, one comes."""
    texts = {**NEW, "job_submit.lua": LUA}
    del texts["gres.conf"]
    return texts


def test_a_kill_at_any_step_leaves_all_old_all_new_or_what_the_next_run_repairs(
    tmp_path: Path,
) -> None:
    new = changed()
    left = set()
    total = counted_steps(tmp_path)
    assert total > 30
    for step in range(1, total + 1):
        directory = tmp_path / f"etc{step}"
        installed(directory, OLD)
        controller = FakeController(directory)
        with pytest.raises(Killed):
            apply(session(directory, controller, FailingDisk(step, Killed(), for_good=True)), new)
        found = on_disk(directory)
        opened = session(directory, controller)
        if not opened.unfinished():
            assert found in (OLD, new)
        opened.repair(new)
        assert opened.unfinished() == ""
        repaired = on_disk(directory)
        assert repaired in (OLD, new)
        assert controller.loaded == repaired or opened.plan(candidate(repaired)).is_empty
        left.add((found == OLD, found == new, repaired == new))
        # And then it can be applied as if nothing had been.
        if repaired == OLD:
            assert apply(session(directory, controller), new) == APPLIED
        assert on_disk(directory) == new
        states = [item.state for item in session(directory, controller).history.generations()]
        assert set(states) == {PROVEN}
    # All of them were met: old files, new ones, some of both.
    assert left == {(True, False, False), (False, False, False), (False, True, True)}


@settings(max_examples=150)
@given(
    kills=st.lists(st.integers(1, 25), min_size=1, max_size=4),
    old=st.sets(st.sampled_from(sorted(OLD))),
    new=st.sets(st.sampled_from(sorted(OLD))),
)
def test_repairs_that_are_killed_are_repaired(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], old: set[str], new: set[str]
) -> None:
    directory = tmp_path_factory.mktemp("apply") / "etc"
    before = {name: OLD[name] for name in {*old, "supernode.conf"}}
    after = {name: NEW[name] + "# new\n" for name in {*new, "supernode.conf"}}
    installed(directory, before)
    for step in kills:
        opened = session(directory, None, FailingDisk(step, Killed(), for_good=True))
        try:
            opened.repair(after)
            if on_disk(directory) == before:
                opened.install(opened.plan(candidate(after)))
        except Killed:
            continue
    opened = session(directory, None)
    opened.repair(after)
    assert on_disk(directory) in (before, after)
    assert opened.unfinished() == ""


def test_a_full_disk_leaves_the_old_files(tmp_path: Path) -> None:
    new = changed()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for step in range(1, counted_steps(tmp_path) + 1):
        directory = tmp_path / f"full{step}"
        installed(directory, OLD)
        controller = FakeController(directory)
        disk = FailingDisk(step, full, for_good=False)
        try:
            apply(session(directory, controller, disk), new)
        except OSError as error:
            assert error.errno == errno.ENOSPC
        opened = session(directory, controller)
        # A disk that fails after the proof leaves new files and a journal.
        found = on_disk(directory)
        if controller.loaded == new:
            assert found == new
        else:
            assert found == OLD or opened.unfinished()
        opened.repair(new)
        assert on_disk(directory) in (OLD, new)


def test_files_that_a_person_changed_after_a_crash_are_left_alone(directory: Path) -> None:
    # Killed in the middle of the replacements.
    new = changed()
    for step in range(20, 60):
        installed(directory, OLD)
        (directory / "job_submit.lua").unlink(missing_ok=True)
        with pytest.raises(Killed):
            apply(session(directory, None, FailingDisk(step, Killed(), for_good=True)), new)
        if session(directory, None).unfinished():
            break
        session(directory, None).repair(OLD)
    (directory / "supernode-nodes.conf").write_text(NEW["supernode-nodes.conf"] + "# by hand\n")
    opened = session(directory, None)
    assert "changed since" in opened.repair(OLD).notes[0]
    assert (directory / "supernode-nodes.conf").read_text().endswith("# by hand\n")
    assert opened.unfinished() == ""


# ---- files as they were


def test_owner_mode_and_links_are_kept(directory: Path) -> None:
    (directory / "gres.conf").chmod(0o640)
    (directory / "slurm.conf").chmod(0o664)
    if os.geteuid() == 0:
        os.chown(directory / "gres.conf", 12345, 23456)
    before = (directory / "gres.conf").stat()
    texts = {**OLD, "gres.conf": OLD["gres.conf"] + "#\n", "job_submit.lua": LUA}
    apply(session(directory, None), texts)
    after = (directory / "gres.conf").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip
    assert stat.S_IMODE((directory / "job_submit.lua").stat().st_mode) == 0o644
    assert stat.S_IMODE((directory / ".supernode").stat().st_mode) == 0o700


def test_a_symbolic_link_is_refused_and_its_file_untouched(directory: Path) -> None:
    elsewhere = directory.parent / "shared.conf"
    (directory / "gres.conf").rename(elsewhere)
    (directory / "gres.conf").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match=r"gres\.conf: is a symbolic link"):
        apply(session(directory, None), NEW)
    assert elsewhere.read_text() == OLD["gres.conf"]


def test_a_persons_file_is_refused(directory: Path) -> None:
    (directory / "gres.conf").write_text("AutoDetect=nvml\n")
    with pytest.raises(ConfigError, match=r"gres\.conf: was not written by 'sn generate'"):
        apply(session(directory, None), NEW)
    assert on_disk(directory)["gres.conf"] == "AutoDetect=nvml\n"
    assert on_disk(directory)["supernode-nodes.conf"] == OLD["supernode-nodes.conf"]


def test_a_directory_that_is_a_link_is_followed(directory: Path) -> None:
    link = directory.parent / "slurm"
    link.symlink_to(directory)
    assert apply(session(link, None), NEW) == WRITTEN
    assert on_disk(directory) == NEW


def mtime(path: Path) -> int:
    return int(path.stat().st_mtime)


def test_a_script_gets_a_later_time_than_the_one_it_replaces_even_on_the_way_back(
    directory: Path,
) -> None:
    script = directory / "job_submit.lua"
    script.write_text(LUA)
    # As if written on a machine whose clock is ahead.
    os.utime(script, (4_000_000_000, 4_000_000_000))
    new = {**OLD, "job_submit.lua": LUA + "-- more\n"}
    apply(session(directory, None), new)
    assert mtime(script) == 4_000_000_001
    opened = session(directory, None)
    opened.repair(OLD)
    opened.install(opened.plan(opened.earlier(None)))
    assert script.read_text() == LUA
    assert mtime(script) == 4_000_000_002


def test_a_script_that_is_taken_back_gets_a_later_time_too(directory: Path) -> None:
    script = directory / "job_submit.lua"
    script.write_text(LUA)
    os.utime(script, (4_000_000_000, 4_000_000_000))
    new = {**NEW, "job_submit.lua": LUA + "-- more\n"}
    controller = FakeController(directory, dies_of=lambda found: "=900000" in str(found))
    with pytest.raises(Undone):
        apply(session(directory, controller), new)
    assert script.read_text() == LUA
    assert mtime(script) == 4_000_000_002


# ---- history


def test_going_back_is_an_apply_of_its_own(directory: Path) -> None:
    controller = FakeController(directory)
    apply(session(directory, controller), NEW)
    apply(session(directory, controller), MORE_CARDS)
    opened = session(directory, controller)
    assert opened.earlier(None).files == NEW
    assert opened.install(opened.plan(opened.earlier(1))).state == APPLIED
    assert on_disk(directory) == OLD
    assert controller.loaded == OLD
    found = session(directory, controller).history.generations()
    assert [item.origin.what for item in found] == [
        "found installed", "a test", "a test", "rollback to 1",
    ]  # fmt: skip
    # And forth again.
    assert session(directory, controller).earlier(None).files == MORE_CARDS


def test_a_number_that_is_not_kept_names_those_that_are(directory: Path) -> None:
    opened = session(directory, None)
    with pytest.raises(ConfigError, match="nothing else was installed before"):
        opened.earlier(None)
    apply(opened, NEW)
    with pytest.raises(ConfigError, match=r"generation 7: is not kept; kept: 1, 2"):
        opened.earlier(7)


def test_what_was_changed_by_hand_is_kept_before_it_is_replaced(directory: Path) -> None:
    apply(session(directory, None), NEW)
    with (directory / "supernode-nodes.conf").open("a") as stream:
        stream.write("NodeName=by-hand\n")
    hand = on_disk(directory)
    apply(session(directory, None), NEW)
    opened = session(directory, None)
    assert on_disk(directory) == NEW
    assert opened.earlier(None).files == hand


def test_a_spoilt_generation_is_not_installed(directory: Path) -> None:
    apply(session(directory, None), NEW)
    kept = directory / ".supernode" / "history" / "0001" / "files" / "gres.conf"
    kept.write_text("Name=gpu\n")
    with pytest.raises(ConfigError, match="was changed since it was kept"):
        session(directory, None).earlier(1)


def test_the_last_twenty_are_kept(directory: Path) -> None:
    for number in range(KEPT + 5):
        apply(session(directory, None), {**OLD, "gres.conf": OLD["gres.conf"] + f"# {number}\n"})
    found = session(directory, None).history.generations()
    assert [item.number for item in found] == list(range(7, KEPT + 7))


# ---- what is refused


def test_a_slurm_conf_without_the_include_is_told_the_line(directory: Path) -> None:
    (directory / "slurm.conf").write_text("ClusterName=test\n")
    with pytest.raises(ConfigError, match=r"add the line 'Include supernode\.conf'"):
        apply(session(directory, FakeController(directory)), NEW)
    assert on_disk(directory) == OLD
    # Without a controller this is the first step.
    assert apply(session(directory, None), NEW) == WRITTEN


@pytest.mark.parametrize("words", ["Include {0}/supernode.conf", "include ./supernode.conf"])
def test_the_include_may_be_written_otherwise(directory: Path, words: str) -> None:
    (directory / "slurm.conf").write_text(words.format(directory) + "\n")
    assert read_target(directory.resolve()).has_include


def test_nodes_that_slurm_conf_defines_as_well_are_refused(directory: Path) -> None:
    (directory / "slurm.conf").write_text(
        "Include supernode.conf\nNodeName=h1-[01-02] CPUs=2\nPartitionName=h Nodes=ALL\n"
    )
    with pytest.raises(ConfigError, match=r"h1-\[01-02\] stands in slurm.conf") as found:
        apply(session(directory, None), NEW)
    assert len(found.value.problems) == 2


def test_a_release_that_does_not_run_is_refused(directory: Path) -> None:
    controller = FakeController(directory, "26.05")
    with pytest.raises(ConfigError, match=r"for Slurm 24\.11, and slurmctld runs 26\.05\.5"):
        apply(session(directory, controller), NEW)
    assert on_disk(directory) == OLD


def test_a_spoilt_journal_is_told(directory: Path) -> None:
    apply(session(directory, None), NEW)
    (directory / ".supernode" / "journal.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"journal\.json: cannot be read"):
        apply(session(directory, None), OLD)


def test_files_go_only_where_they_belong(directory: Path) -> None:
    apply(session(directory, None), NEW)
    record = directory / ".supernode" / "history" / "0001" / "record.json"
    record.write_text(record.read_text().replace('"gres.conf"', '"../gres.conf"'))
    with pytest.raises(ConfigError, match="generation 1: is not kept"):
        session(directory, None).earlier(1)


def test_a_disk_step_is_done_when_it_returns(tmp_path: Path) -> None:
    Disk().make_directory(tmp_path / "x")
    Disk().make_directory(tmp_path / "x")
    Disk().remove(tmp_path / "absent")
    assert (tmp_path / "x").is_dir()
    with pytest.raises(SupernodeError):
        raise Undone("x")
