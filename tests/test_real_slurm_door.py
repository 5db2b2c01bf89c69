"""The door to Slurm, held against real controllers: answers lost, late, gone, and right."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supernode_slurm.cli import room as room_of_site
from supernode_slurm.data import data_dir
from supernode_slurm.errors import (
    ConfigError,
    SlurmDown,
    SlurmError,
    SlurmRejected,
    SlurmTimeout,
    SlurmUncertain,
)
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.slurm import (
    Allocated,
    Charge,
    CliClient,
    Gres,
    JobId,
    LiveJob,
    Patience,
    SlurmClient,
    User,
    await_jobs,
    current_user,
    jsonparse,
    parse,
    reservation_note,
    reservation_objection,
    size_objection,
    usable_partitions,
)
from supernode_slurm.slurm.formats import node_json
from supernode_slurm.slurm.polling import ended
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests import twin_samples
from tests.fake_slurm import FakeSlurm

pytestmark = pytest.mark.slurm

MIXED = Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml"
SCRIPT = "#!/bin/sh\n"
LIMITS = """\
PartitionName=few Nodes=h1-[01-08] State=UP MinNodes=2 MaxNodes=4 MaxTime=60
PartitionName=club Nodes=h1-[01-08] State=UP AllowGroups=daemon
PartitionName=shut Nodes=h1-[01-08] State=DRAIN
PartitionName=kept Nodes=h1-[01-08] State=UP ReqResv=YES
PartitionName=mine Nodes=h1-[01-08] State=UP RootOnly=YES
"""
SMALL = {
    "supernode.conf": "Include supernode-nodes.conf\nInclude supernode-partitions.conf\n",
    "supernode-nodes.conf": "NodeName=x[1-2] CPUs=4 RealMemory=1000 State=UNKNOWN\n",
    "supernode-partitions.conf": "PartitionName=p Nodes=x[1-2] Default=YES State=UP\n",
}


def quick(clock_s: float = 60.0) -> Patience:
    return Patience(timeout_s=clock_s, first_s=0.1, most_s=0.5)


def until_placed(client: SlurmClient, job: JobId) -> LiveJob:
    """Return a job once it has nodes."""
    await_jobs(client, [job], lambda record: bool(record.hosts), quick())
    return client.job(job)


@pytest.fixture(scope="module")
def room() -> Inventory:
    return load(MIXED)


@pytest.fixture(scope="module")
def mixed(room: Inventory) -> Iterator[Twin]:
    with Twin(TwinSpec(generate(room, find_release(installed_release())).files)) as running:
        yield running


@pytest.fixture(scope="module")
def limited() -> Iterator[Twin]:
    files = twin_samples.files()
    files["supernode-partitions.conf"] += LIMITS
    with Twin(TwinSpec(files, site_conf="EnforcePartLimits=ALL\n")) as running:
        yield running


@pytest.fixture(scope="module")
def live() -> Iterator[Twin]:
    with Twin(TwinSpec(SMALL, live=True)) as running:
        yield running


# What every client answers, the fake one too.


@pytest.fixture(params=["fake", "real"])
def client(request: pytest.FixtureRequest, room: Inventory) -> SlurmClient:
    if request.param == "fake":
        return FakeSlurm(room, installed_release())
    twin: Twin = request.getfixturevalue("mixed")
    return twin.client()


def test_nodes_and_partitions_are_those_of_the_room(client: SlurmClient, room: Inventory) -> None:
    kinds = {
        host: {(item.gres, item.type, item.count) for item in nodes.devices}
        for domain in room.domains
        for nodes in domain.nodes
        for host in nodes.hosts
    }
    assert kinds == {
        node.name: {(item.name, item.type, item.count) for item in node.gres}
        for node in client.nodes()
    }
    parts = {part.name: part for part in client.partitions()}
    assert {name: set(part.hosts) for name, part in parts.items()} == {
        part.name: set(part.hosts) for part in room.partitions
    }
    assert [name for name, part in parts.items() if part.is_default] == [
        part.name for part in room.partitions if part.default
    ]
    root = User("root", frozenset(), is_root=True)
    assert set(usable_partitions(parts.values(), root).values()) == {""}


def test_a_job_lives_from_submission_to_cancellation(client: SlurmClient) -> None:
    name = client.partitions()[0].name
    job = client.submit(["-H", "-J", "a name", "-p", name], SCRIPT, tag="t1")
    other = client.submit(["-H", "-p", name, ":", "-H", "-p", name], SCRIPT)
    found = client.job(job)
    assert (found.id, found.name, found.states) == (job, "a name", {"PENDING"})
    assert (found.reason, found.partition, found.has_ended) == ("JobHeldUser", name, False)
    rows = {str(item.id): item for item in client.jobs([job, other])}
    assert set(rows) == {str(job), f"{other}+0", f"{other}+1"}
    assert rows[str(job)] == found
    assert [part.id.offset for part in client.job(other).components] == [0, 1]
    client.cancel(job)
    client.cancel(other)
    client.cancel(job)
    assert client.job(job).states == {"CANCELLED"}
    assert client.job(other).has_ended


def test_unknown_jobs_and_partitions_are_told(client: SlurmClient) -> None:
    with pytest.raises(SlurmRejected, match=r"(?i)invalid job id"):
        client.job(JobId(4_000_000))
    assert client.jobs([JobId(4_000_000)]) == ()
    assert client.jobs([JobId(4_000_000), JobId(4_000_001)]) == ()
    for ask in (client.submit, client.test_only):
        with pytest.raises(SlurmRejected, match=r"(?i)invalid partition"):
            ask(["-p", "nowhere"], SCRIPT)


def test_an_estimate_is_given_and_nothing_submitted(client: SlurmClient) -> None:
    before = client.jobs()
    assert re.match(r"Job \d+ to start at ", client.test_only(["-N1"], SCRIPT))
    assert re.match(r"Job \d+ to start at ", client.test_only(["-N1", ":", "-N1"], SCRIPT))
    assert client.jobs() == before


def test_what_the_cluster_is_called_and_has_not_is_known(client: SlurmClient) -> None:
    assert client.config()["ClusterName"]
    assert int(client.config()["MaxArraySize"]) > 0
    assert client.config()["SLURM_VERSION"].startswith(client.release())
    assert client.associations("root") is None
    assert client.reservations() == ()


# What only real controllers show.


def test_text_and_json_say_the_same_of_the_same_cluster(limited: Twin) -> None:
    version = node_json(limited.release)
    client = limited.client()
    forged = "line\nNodeName=b2 CoresPerSocket=1 State=DOWN"
    change(limited, "NodeName=a001", "State=DRAIN", f"Reason={forged}")
    change(limited, "NodeName=a002", "State=DOWN", "Reason=dead")
    job = client.submit(["-N2", "--gres=gpu:h100:3", "-C", "h100"], SCRIPT)
    until_placed(client, job)
    text = parse.nodes(client.show("-d", "node"))
    states = {node.name: node.states for node in client.nodes()}
    assert {"DRAIN"} <= states["a001"]
    assert "DOWN" in states["a002"]
    assert "DOWN" not in states["b2"]
    if version:
        json = scontrol(limited, "-a", "show", "nodes", f"--json={version}")
        assert settled(jsonparse.nodes(json)) == settled(text)
    else:
        assert settled(client.nodes()) == settled(text)
    client.cancel(job)
    change(limited, "NodeName=a001,a002", "State=RESUME")


def settled(nodes: tuple[object, ...]) -> list[str]:
    """Return nodes without what a cloud node changes by itself while it boots."""
    booting = r"'(?:POWERED_DOWN|POWERING_UP|NOT_RESPONDING)'(?:, )?"
    return [
        re.sub(r"frozenset\(\{(.*?)\}\)", lambda f: str(sorted(f[1].split(", "))), text)
        for text in (re.sub(booting, "", repr(node)).replace(", })", "})") for node in nodes)
    ]


def scontrol(twin: Twin, *words: str) -> str:
    done = subprocess.run(
        ["scontrol", *words], env=twin.environment(os.environ), capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def change(twin: Twin, *words: str) -> None:
    scontrol(twin, "update", *words)


def test_a_job_tells_what_it_holds_component_by_component(limited: Twin) -> None:
    client = limited.client()
    job = client.submit(
        ["-N2", "--gres=gpu:h100:8", ":", "-p", "a", "-N1", "--gres=gpu:a100:2"], SCRIPT
    )
    first, second = until_placed(client, job).components
    eight, two = Gres("gpu", "h100", 8, tuple(range(8))), Gres("gpu", "a100", 2, (0, 1))
    assert first.allocated == (Allocated(first.hosts, (eight,)),)
    assert second.allocated == (Allocated(second.hosts, (two,)),)
    rest = client.submit(["-p", "a", "-N1", "-w", second.hosts[0], "--gres=gpu:a100:1"], SCRIPT)
    assert until_placed(client, rest).allocated == (
        Allocated(second.hosts, (Gres("gpu", "a100", 1, (2,)),)),
    )
    client.cancel(job)
    client.cancel(rest)


def test_a_name_or_a_comment_of_several_lines_forges_nothing(limited: Twin) -> None:
    client = limited.client()
    victim = client.submit(["-H"], SCRIPT)
    name = f"x\nJobId={victim} JobName=y JobState=FAILED UserId=z\n{victim}|FAILED"
    job = client.submit(["-H", "-J", name, "--comment", name], SCRIPT)
    assert (client.job(job).name, client.job(job).states) == (name, {"PENDING"})
    rows = {item.id: item for item in client.jobs()}
    assert (rows[job].name, rows[victim].states) == (name, {"PENDING"})
    client.cancel(job)
    client.cancel(victim)


def test_reservations_and_switches_are_seen(limited: Twin) -> None:
    client = limited.client()
    scontrol(limited, "create", "reservation", "ReservationName=now", "StartTime=now",
             "Duration=60", "Nodes=a[001-002]", "Users=root")  # fmt: skip
    scontrol(limited, "create", "reservation", "ReservationName=later", "Flags=MAINT",
             "StartTime=now+1hours", "Duration=60", "Nodes=b1", "Users=root")  # fmt: skip
    found = {item.name: item for item in client.reservations()}
    assert (found["now"].is_active, found["now"].hosts) == (True, ("a001", "a002"))
    assert not found["later"].is_active
    assert found["now"].users == ("root",)
    top = client.topology().switches[-1]
    assert (top.name, top.switches, len(top.hosts)) == ("top", ("leaf1", "leaf2"), 14)
    for name in found:
        scontrol(limited, "delete", f"ReservationName={name}")


@pytest.mark.parametrize(
    ("partition", "nodes", "minutes"),
    [
        ("few", 2, 60), ("few", 1, 10), ("few", 5, 10), ("few", 2, 61), ("shut", 1, 10),
        ("kept", 1, 10), ("club", 1, 10), ("mine", 1, 10), ("h", 1, 10),
    ],
)  # fmt: skip
@pytest.mark.parametrize("account", ["root", "mail"])
def test_what_the_rules_refuse_is_what_slurm_refuses(
    limited: Twin, account: str, partition: str, nodes: int, minutes: int
) -> None:
    open_to_others(limited)
    parts = {part.name: part for part in limited.client().partitions()}
    user = User(account, frozenset({account}), account == "root")
    part = parts[partition]
    ours = usable_partitions([part], user, Charge())[partition]
    ours = ours or size_objection(part, nodes, minutes)
    argv = ["setpriv", f"--reuid={account}", f"--regid={account}", "--init-groups"]
    argv += ["sbatch", "-H", f"-p{partition}", f"-N{nodes}", f"-t{minutes}", "-D/", "--wrap=true"]
    done = subprocess.run(
        argv, env=limited.environment(os.environ), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (ours == ""), f"{ours!r}, but: {done.stderr}"


def open_to_others(twin: Twin) -> None:
    """Let other accounts of this machine, which the rules are about, reach a twin of tests."""
    if os.geteuid() != 0:
        pytest.skip("only root can submit as somebody else")
    for folder in (twin.directory, twin.directory / "munge"):
        folder.chmod(0o711)


def test_topologies_of_partitions_are_asked_by_name() -> None:
    if not find_release(installed_release()).yaml:
        pytest.skip("one topology for all before 25.05")
    second = "- topology: t2\n  tree:\n    switches:\n      - {switch: s1, nodes: 'a[001-004]'}\n"
    files = twin_samples.with_yaml(twin_samples.YAML + second)
    name = "supernode-partitions.conf"
    files[name] = files[name].replace("PartitionName=a ", "PartitionName=a Topology=t2 ")
    with Twin(TwinSpec(files)) as twin:
        client = twin.client()
        assert [part.topology for part in client.partitions()] == ["", "t2"]
        assert [block.name for block in client.topology().blocks] == ["b1", "b2"]
        assert [switch.name for switch in client.topology("t2").switches] == ["s1"]
        with pytest.raises(SlurmRejected, match="not available"):
            client.topology("t3")


@pytest.mark.parametrize("selection", ["cons_tres", "linear"])
def test_npus_and_no_gres_at_all_are_answered_rightly(selection: str) -> None:
    counted = {
        **SMALL,
        "supernode.conf": f"GresTypes=npu\n{SMALL['supernode.conf']}",
        "supernode-nodes.conf": "NodeName=x1 CPUs=4 RealMemory=1000 Gres=npu:910c:8 State=UNKNOWN\n"
        "NodeName=x2 CPUs=4 RealMemory=1000 State=UNKNOWN\n",
        "gres.conf": "NodeName=x1 Name=npu Type=910c Count=8\n",
    }
    site = f"SelectType=select/{selection}\n"
    for files in (counted, SMALL):
        has_npus = "gres.conf" in files
        with Twin(TwinSpec(files, site_conf=site)) as twin:
            client = twin.client()
            assert client.topology().switches == ()
            job = client.submit(["-wx1", *(["--gres=npu:910c:3"] if has_npus else [])], SCRIPT)
            found = until_placed(client, job)
            nodes = {node.name: node for node in client.nodes()}
        assert nodes["x1"].gres == ((Gres("npu", "910c", 8),) if has_npus else ())
        assert nodes["x2"].gres == ()
        assert nodes["x1"].cpus_allocated == (4 if selection == "linear" else 1)
        # select/linear counts no GRES of a job.
        held = (Gres("npu", "910c", 3),) if has_npus and selection == "cons_tres" else ()
        assert found.allocated == (Allocated(("x1",), held),)


def test_another_cluster_needs_accounting(limited: Twin) -> None:
    client = CliClient(limited.environment(os.environ), cluster="other")
    for ask in (client.nodes, client.jobs, lambda: client.submit(["--wrap=true"])):
        with pytest.raises(SlurmRejected, match="other"):
            ask()


# Controllers that are slow or dead, and answers that do not arrive.


class Proxy:
    """A way to a twin's slurmctld on which submissions get lost; queries go another way.

    Each sbatch takes the next of the modes: ``drop-request``, ``drop-answer``,
    ``late-request`` (delivered right before that of the next ``after-late``), ``pass``.
    """

    def __init__(self, twin: Twin, folder: Path, *modes: str) -> None:
        conf = (twin.directory / "slurm.conf").read_text()
        self.modes = list(modes)
        self.late: list[tuple[socket.socket, bytes]] = []
        self.target = ("127.0.0.1", int(re.findall(r"SlurmctldPort=(\d+)", conf)[0]))
        self.server = socket.create_server(("127.0.0.1", 0))
        own = f"SlurmctldPort={self.server.getsockname()[1]}"
        for path in twin.directory.iterdir():
            if path.suffix in (".conf", ".yaml") and path.name != "slurm.conf":
                shutil.copy(path, folder / path.name)
        (folder / "slurm.conf").write_text(re.sub(r"SlurmctldPort=\d+", own, conf))
        program = folder / "sbatch"
        program.write_text(f'#!/bin/sh\nSLURM_CONF="{folder}/slurm.conf" exec sbatch "$@"\n')
        program.chmod(0o755)
        self.env = {**twin.environment(os.environ), "SN_SBATCH": str(program)}
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def _serve(self) -> None:
        while True:
            try:
                inner, _ = self.server.accept()
            except OSError:
                return
            mode = self.modes.pop(0) if self.modes else "pass"
            threading.Thread(target=self._carry, args=(inner, mode), daemon=True).start()

    def _carry(self, inner: socket.socket, mode: str) -> None:
        with inner:
            request = message(inner)
            if mode == "late-request":
                self.late.append((inner, request))
                return
            if mode == "drop-request":
                return
            if mode == "after-late":
                for _, held in self.late:
                    self._ask(held)
            answer = self._ask(request)
            if mode != "drop-answer":
                inner.sendall(answer)

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(self.target) as outer:
            outer.sendall(request)
            found = b""
            while more := outer.recv(65536):
                found += more
            return found


def message(stream: socket.socket) -> bytes:
    """Return a whole message of Slurm's protocol: four bytes of length, then as many."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = stream.recv(65536)
        if not more:
            break
        data += more
    return data


def tagged(twin: Twin, tag: str) -> list[str]:
    """Return the states of all jobs of a tag."""
    client = twin.client()
    found = {job.number for job in client.look_up(tag)}
    return sorted("+".join(job.states) for job in client.jobs() if job.id.number in found)


@pytest.mark.parametrize(
    ("modes", "said", "states"),
    [
        (["drop-answer"], "the job was taken", ["PENDING"]),
        (["drop-request"], "submitting again", ["PENDING"]),
        (["drop-request", "drop-answer"], "the job was taken", ["PENDING"]),
        (
            ["late-request", "after-late"],
            "the first request was taken late",
            ["CANCELLED", "PENDING"],
        ),
    ],
)
def test_a_submission_is_never_lost_and_never_doubled(
    limited: Twin, tmp_path: Path, modes: list[str], said: str, states: list[str]
) -> None:
    heard: list[str] = []
    tag = f"sn-{tmp_path.name}"
    with Proxy(limited, tmp_path, *modes) as proxy:
        client = CliClient(proxy.env, heard.append, sleep=lambda _: None)
        job = client.submit(["-H", "--comment", f"mine {tag}"], SCRIPT, tag=tag)
    assert said in heard[-1]
    assert tagged(limited, tag) == states
    assert limited.client().job(job).states == {"PENDING"}
    limited.client().cancel(job)


def test_a_submission_lost_twice_is_told(limited: Twin, tmp_path: Path) -> None:
    with Proxy(limited, tmp_path, "drop-request", "drop-request") as proxy:
        client = CliClient(proxy.env, lambda _: None, sleep=lambda _: None)
        with pytest.raises(SlurmError, match="no job was taken") as caught:
            client.submit(["-H", "--comment", "sn-twice"], SCRIPT, tag="sn-twice")
    assert not isinstance(caught.value, SlurmUncertain)
    assert tagged(limited, "sn-twice") == []


def test_a_het_job_and_an_array_are_found_whole(limited: Twin, tmp_path: Path) -> None:
    for number, options in enumerate(
        (["-H", "--comment=T", ":", "-H", "--comment=T"], ["-H", "-a", "1-3", "--comment=T"])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        tag = f"sn-parts-{number}"
        with Proxy(limited, folder, "drop-answer") as proxy:
            client = CliClient(proxy.env, lambda _: None, sleep=lambda _: None)
            words = [word.replace("=T", f"={tag}") for word in options]
            job = client.submit(words, SCRIPT, tag=tag)
        assert limited.client().job(job).components or limited.client().job(job).id.task
        limited.client().cancel(job)


def slurmctld_of(twin: Twin) -> int:
    """Return the process that serves a twin."""
    conf = str(twin.directory / "slurm.conf")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"slurmctld" in argv[0] and f"SLURM_CONF={conf}".encode() in variables:
            return int(folder.name)
    raise AssertionError(f"no slurmctld of {conf}")


def test_a_slow_controller_times_out_and_its_job_is_found_later() -> None:
    short = "MessageTimeout=2\n"
    files = {**SMALL, "supernode.conf": short + SMALL["supernode.conf"]}
    with Twin(TwinSpec(files)) as twin:
        pid = slurmctld_of(twin)
        heard: list[str] = []
        client = CliClient(twin.environment(os.environ), heard.append, sleep=lambda _: None)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SlurmTimeout, match="lost the controller's answer"):
                client.nodes()
            with pytest.raises(SlurmUncertain, match=r"(?s)may be running: look with `squeue"):
                client.submit(["-H", "--comment=sn-slow"], SCRIPT, tag="sn-slow")
        finally:
            os.kill(pid, signal.SIGCONT)
        await_jobs(twin.client(), list(client.look_up("sn-slow")), lambda _: True, quick())
        waking: list[float] = []

        def wake(delay_s: float) -> None:
            waking.append(delay_s)
            os.kill(pid, signal.SIGCONT)

        patient = CliClient(twin.environment(os.environ), heard.append, sleep=wake)
        os.kill(pid, signal.SIGSTOP)
        job = patient.submit(["-H", "--comment=sn-woken"], SCRIPT, tag="sn-woken")
        assert waking
        assert tagged(twin, "sn-woken") == ["PENDING"]
        assert twin.client().job(job).states == {"PENDING"}


def test_a_dead_controller_took_nothing() -> None:
    files = {**SMALL, "supernode.conf": "MessageTimeout=2\n" + SMALL["supernode.conf"]}
    with Twin(TwinSpec(files)) as twin:
        os.kill(slurmctld_of(twin), signal.SIGKILL)
        client = twin.client()
        with pytest.raises(SlurmDown, match="connect failure"):
            client.submit(["--comment=sn-dead"], SCRIPT, tag="sn-dead")
        with pytest.raises(SlurmDown, match="connect failure"):
            client.nodes()


# Waiting, with jobs that run.


@pytest.mark.live
@pytest.mark.parametrize(
    ("options", "script", "code"),
    [
        ([], "exit 7", 7),
        ([], "kill -9 $$", 1),
        (["-a", "1-3"], "exit $SLURM_ARRAY_TASK_ID", 3),
        ([":", "-n1"], "exit 5", 5),
        ([], "true", 0),
    ],
)
@pytest.mark.parametrize("mode", ["pass", "drop-answer"])
def test_the_code_of_a_job_comes_back_even_where_its_answer_was_lost(
    live: Twin, tmp_path: Path, mode: str, options: list[str], script: str, code: int
) -> None:
    seen: list[LiveJob] = []
    tag = f"sn-{tmp_path.name}"
    both = [f"--comment={tag}", "-o/dev/null", "-D/"]
    client_of_twin = live.client()

    def submitted(job: JobId) -> None:
        seen.append(client_of_twin.job(job))

    with Proxy(live, tmp_path, mode) as proxy:
        client = CliClient(proxy.env, lambda _: None)
        words = [*both, *(option for word in options for option in with_tag(word, both))]
        found = client.submit_and_wait(words, f"{SCRIPT}{script}\n", tag=tag, submitted=submitted)
    assert found == code
    assert len(seen) == 1


def with_tag(word: str, both: list[str]) -> list[str]:
    """Return a word of a command line; every component of a het job has the same options."""
    return [word, *both] if word == ":" else [word]


@pytest.mark.live
def test_an_interrupted_wait_leaves_the_job_running(live: Twin) -> None:
    said: list[str] = []
    known: list[JobId] = []

    def interrupt(job: JobId) -> None:
        known.append(job)
        raise KeyboardInterrupt

    client = CliClient(live.environment(os.environ), said.append)
    with pytest.raises(KeyboardInterrupt):
        client.submit_and_wait(["-o/dev/null", "-D/"], f"{SCRIPT}sleep 60\n", submitted=interrupt)
    assert said == [f"sn: note: job {known[0]} goes on: `scancel {known[0]}` ends it"]
    found = await_jobs(client, known, lambda job: "RUNNING" in job.states, quick())
    assert found[known[0]][0].hosts
    client.cancel(known[0])
    await_jobs(client, known, ended, quick())


# Of the command that submits.


def test_an_empty_variable_names_no_inventory(
    mixed: Twin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(room_of_site, "SITE_INVENTORY", tmp_path / "none.yaml")
    monkeypatch.setenv("SN_INVENTORY", "")
    assert room_of_site.site_inventory(None, mixed.client()).rebuilt
    monkeypatch.setenv("SN_INVENTORY", str(tmp_path / "named.yaml"))
    with pytest.raises(ConfigError, match="name the inventory with --inventory FILE"):
        room_of_site.site_inventory(None, mixed.client())


def test_a_reservation_to_come_takes_jobs(limited: Twin) -> None:
    client = limited.client()
    host = client.partitions()[0].hosts[0]
    for name, start in (("now", "now"), ("later", "now+1hours")):
        words = ("users=root", f"starttime={start}", "duration=30", f"nodes={host}")
        scontrol(limited, "create", "reservation", f"reservationname={name}", *words)
    kept = {item.name: item for item in client.reservations()}
    assert reservation_note(kept["now"]) == ""
    assert reservation_note(kept["later"]).startswith("reservation later begins at 2")
    for name, reservation in kept.items():
        assert reservation_objection(reservation, current_user()) == ""
        client.cancel(client.submit([f"--reservation={name}"], SCRIPT))
        scontrol(limited, "delete", f"reservationname={name}")
