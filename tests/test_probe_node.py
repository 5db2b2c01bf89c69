"""sn-probe on a whole node: tools that answer, fail, hang or are not there."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.probe.pack import pack
from tests.probe_samples import H100, ROOT, gpus, real, record, run, save, shape

PROBE = ROOT / "supernode_slurm/probe"


def tool(folder: Path, name: str, answers: Mapping[str, str], otherwise: str = "exit 3") -> None:
    """Write a stand-in that prints a file for each command line that it knows."""
    cases = []
    for number, (words, text) in enumerate(answers.items()):
        said = folder / f"{name}.{number}"
        said.write_text(text, encoding="utf-8")
        cases.append(f"'{words}') exec cat '{said}';;")
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{chr(10).join(cases)}\nesac\n{otherwise}\n')
    path.chmod(0o755)


def probe(folder: Path, *words: str, timeout: str = "30") -> dict[str, Any]:
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = run("--timeout", timeout, *words, env=env)
    assert (done.returncode, done.stderr.replace("sn-probe: note", "")[:1] in ("", ":")) == (
        0,
        True,
    )
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return a directory of stand-ins for the tools of a node with H100."""
    folder = tmp_path / "bin"
    folder.mkdir()
    answers = {
        "-q -x": H100,
        "topo -m": real("topo/h100_8gpu_18nic_full_ansi.txt"),
        "nvlink -s": real("nvsmi/nvlink_status_a100.txt"),
    }
    tool(folder, "nvidia-smi", answers)
    tool(folder, "slurmd", {"-C": shape("gpu7", 2, 56, 2, 2063000), "-V": "slurm 24.11.5\n"})
    tool(folder, "ibstat", {"": real("ib/ibstat_h100_roce_2_ports_down.txt")})
    tool(folder, "lscpu", {"": "Model name:  Intel(R) Xeon(R) 8480\nSocket(s):  2\n"})
    tool(folder, "ofed_info", {"-s": "MLNX_OFED_LINUX-24.10-0.7.0.0:\n"})
    return folder


def test_a_node_is_read_with_its_own_tools(node: Path) -> None:
    found = probe(node)
    assert (found["sn_probe"], found["host"]) == (1, "gpu7")
    assert found["node"]["by"] == "slurmd -C"
    assert (found["node"]["memory_mib"], found["node"]["cores"]) == (2063000, 56)
    assert found["node"]["model"] == "Intel(R) Xeon(R) 8480"
    cards = found["devices"]
    assert [card["minor"] for card in cards[:8]] == list(range(8))
    assert {card["vendor"] for card in cards} == {"nvidia"}
    assert found["topology"]["links"]["GPU0"].startswith("X NV18 NV18")
    assert list(found["topology"]["links"]) == [f"GPU{number}" for number in range(8)]
    assert found["versions"]["driver"] == "550.54.15"
    assert found["versions"]["vbios"] == "96.00.74.00.10"
    assert found["versions"]["slurm"] == "24.11.5"
    assert found["versions"]["ofed"] == "24.10-0.7.0.0"
    assert found["tools"]["nvidia-smi -q -x"] == {"answer": "ok"}
    assert found["tools"]["nvidia-smi -L"]["answer"] == "failed: exit code 3: no message"
    assert "npu-smi" in found["missing"]
    assert "stopped" not in found


def test_a_tool_that_hangs_is_left_and_said(node: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    tool(
        node, "nvidia-smi", {}, f"trap '' TERM INT HUP; echo $$ > {pid}; sleep 600 & wait; sleep 9"
    )
    found = probe(node, timeout="8")
    asked = {name: said["answer"] for name, said in found["tools"].items() if "nvidia" in name}
    assert asked.pop("nvidia-smi -q -x").startswith("timeout: no answer in ")
    assert set(asked.values()) == {"timeout: not asked again"}
    assert "devices" not in found
    assert found["host"] == "gpu7"
    assert [card["name"] for card in found["network"]][:1] == ["mlx5_0"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_what_hangs_in_the_kernel_does_not_keep_the_probe() -> None:
    program = (
        "import time\n"
        "from supernode_slurm.probe import host, main\n"
        "host.read_system = lambda source: time.sleep(600)\n"
        "raise SystemExit(main.main(['--timeout', '3']))\n"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    assert found["stopped"].startswith("while reading system, after ")
    assert found["node"]["cores"] > 0


def test_a_tool_that_never_stops_talking_is_stopped(node: Path) -> None:
    tool(node, "nvidia-smi", {}, "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")
    found = probe(node)
    assert found["tools"]["nvidia-smi -q -x"]["answer"] == "failed: printed more than 8 MiB"


def test_a_tool_that_fails_says_its_last_words_and_leaves_the_rest(node: Path) -> None:
    tool(
        node, "nvidia-smi", {}, "echo 'Unable to determine the device handle: GPU is lost'; exit 15"
    )
    found = probe(node)
    answer = found["tools"]["nvidia-smi -q -x"]["answer"]
    assert answer == "failed: exit code 15: Unable to determine the device handle: GPU is lost"
    assert "devices" not in found
    assert found["versions"]["ofed"] == "24.10-0.7.0.0"


def test_where_the_log_fails_a_table_is_asked_for(node: Path) -> None:
    head = "index, name, memory.total [MiB]"
    rows = "0, NVIDIA L40S, 46068 MiB", "1, NVIDIA L40S, 46068 MiB"
    (node / "table").write_text("\n".join((head, *rows)), encoding="utf-8")
    answer = f"case $1 in --query-gpu=*) cat '{node}/table';; *) exit 9;; esac"
    tool(node, "nvidia-smi", {}, answer)
    found = probe(node)
    assert [card["name"] for card in found["devices"]] == ["NVIDIA L40S"] * 2
    assert found["devices"][0]["memory_mib"] == 46068


def test_raw_outputs_are_kept_without_serial_numbers_and_read_again(
    node: Path, tmp_path: Path
) -> None:
    tool(node, "nvidia-smi", {"-q -x": real("nvsmi/telegraf_a100-sxm4-v12.xml")})
    raw = tmp_path / "raw"
    first = probe(node, "--raw", str(raw))
    kept = (raw / "nvidia-smi_-q_-x.txt").read_text(encoding="utf-8")
    assert "SN0D00721B34" not in kept
    assert "<serial>(removed)</serial>" in kept
    assert "<product_name>NVIDIA A100-SXM4-80GB</product_name>" in kept
    again = json.loads(run("--from", str(raw)).stdout)
    for key in ("host", "node", "devices", "network", "system"):
        assert again.get(key) == first.get(key), key
    assert run("--raw", str(raw)).returncode == 1  # what was kept is not written over


def test_serial_numbers_are_printed_on_request_only(tmp_path: Path) -> None:
    saved = save(
        tmp_path / "n",
        {
            "nvidia-smi -q -x": real("nvsmi/telegraf_tesla-t4.xml"),
            "slurmd -C": shape("n", 1, 4, 1, 9),
        },
        {"/sys/class/dmi/id/product_serial": "SN1\n", "/sys/class/dmi/id/product_name": "X12\n"},
    )
    plain = run("--from", str(saved)).stdout
    asked = json.loads(run("--from", str(saved), "--serials").stdout)
    assert "SN" not in plain
    assert json.loads(plain)["board"] == {"product": "X12"}
    assert asked["board"]["serial"] == "SN1"
    assert asked["devices"][0]["serial"] == "SN99978287D0"


def test_cards_on_the_bus_are_counted_beside_those_that_answer(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for entry in real("misc/lspci_a100.txt").splitlines():
        slot, kind = entry.split()[0], entry.partition("[")[2][:4]
        vendor, device = entry.rpartition("[")[2].partition("]")[0].split(":")
        place = f"/sys/bus/pci/devices/{slot}"
        files |= {
            f"{place}/class": f"0x{kind}00\n",
            f"{place}/vendor": f"0x{vendor}\n",
            f"{place}/device": f"0x{device}\n",
        }
    console = "/sys/bus/pci/devices/0000:07:00.0"
    for name, value in (("class", "0x030000"), ("vendor", "0x19e5"), ("device", "0x1711")):
        files[f"{console}/{name}"] = f"{value}\n"
    found = record(tmp_path / "n", {}, files)
    # NVSwitches are bridges, and the console of the board is no accelerator.
    assert found["bus"] == {"nvidia": {"0x20b2": 8}}


def test_cards_of_hygon_that_answer_to_rocm_smi_are_counted_once(tmp_path: Path) -> None:
    place = "/sys/bus/pci/devices/0000:01:00.0"
    files = {
        f"{place}/class": "0x038000\n",
        f"{place}/vendor": "0x1d94\n",
        f"{place}/device": "1\n",
    }
    table = real("vendor/hy_smi_8_full_load.txt")
    programs = {"hy-smi": table, "rocm-smi": real("vendor/rocm_smi_mi300x_8.txt")}
    assert {card["vendor"] for card in record(tmp_path / "n", programs, files)["devices"]} == {
        "hygon"
    }


def test_device_files_tell_of_cards_whose_tool_is_not_there(tmp_path: Path) -> None:
    files = {f"/dev/xpu{number}": "" for number in range(8)} | {"/dev/xpuctrl": ""}
    found = record(tmp_path / "n", {}, files | {"/proc/sys/kernel/hostname": "k1.example.org\n"})
    assert found["host"] == "k1"
    assert [(card["vendor"], card["minor"]) for card in found["devices"]] == [
        ("kunlunxin", number) for number in range(8)
    ]


def test_tools_without_proof_are_marked(tmp_path: Path) -> None:
    said = "Card 0\n    Product Name  : MLU590-M9\n"
    found = record(tmp_path / "n", {"cnmon info": said})
    assert found["tools"]["cnmon info"] == {"answer": "ok", "verified": False}
    assert found["unverified"] == ["cnmon"]
    assert found["devices"][0]["verified"] is False


def test_wrong_command_lines_are_refused(tmp_path: Path) -> None:
    for words in (["--timeout", "0"], ["--timeout", "x"], ["--from", str(tmp_path / "no")], ["x"]):
        done = run(*words)
        assert done.returncode == 2, words
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


# One file, and old interpreters.


def interpreters() -> list[str]:
    """Return old Pythons that start, the oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = []
    for version in ("3.6", "3.7", "3.8", "3.9"):
        near = [shutil.which(f"python{version}") or ""]
        for path in (*near, *map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}"))):
            with contextlib.suppress(OSError):
                argv = [path, "-c", "import zlib, sys; assert sys.version_info[0] == 3"]
                tried = subprocess.run(argv, capture_output=True, check=False, timeout=60)
                if path and tried.returncode == 0:
                    found.append(path)
                    break
    return found


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return sn-probe as one file."""
    path = tmp_path / "sn-probe"
    assert run("--pack", str(path)).returncode == 0
    return path


def without_times(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return {key: value for key, value in found.items() if key not in ("time", "seconds")}


def test_the_file_needs_nothing_beside_it(packed: Path, tmp_path: Path) -> None:
    assert packed.read_bytes() == pack()
    away = tmp_path / "away"
    away.mkdir()
    shutil.move(packed, away / "p")
    saved = save(tmp_path / "n", {"nvidia-smi -q -x": H100, "slurmd -C": shape("n", 2, 4, 1, 9000)})
    for argv in ([str(away / "p")], [sys.executable, "-I", "-S", str(away / "p")]):
        done = subprocess.run(
            [*argv, "--from", str(saved)], cwd=away, capture_output=True, text=True, timeout=60,
            check=True, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert without_times(done.stdout) == without_times(run("--from", str(saved)).stdout)
    copied = tmp_path / "copied"
    argv = [sys.executable, str(away / "p"), "--pack", str(copied)]
    assert subprocess.run(argv, timeout=60, check=True).returncode == 0
    assert copied.read_bytes() == pack()


@pytest.mark.parametrize("index", range(4))
def test_old_pythons_read_the_same(index: int, packed: Path, tmp_path: Path) -> None:
    found = interpreters()
    if index >= len(found):
        pytest.skip("no such old Python on this machine")
    samples = {
        "nvidia-smi -q -x": real("nvsmi/telegraf_a100-sxm4-v12.xml"),
        "nvidia-smi topo -m": real("topo/h100_8gpu_18nic_full_ansi.txt"),
        "npu-smi info": real("ascend/npu_smi_info_910c_16chips.txt"),
        "rocm-smi -a --showmeminfo vram --json": real("vendor/rocm_smi_mi100_rocm602.json"),
        "hy-smi": real("vendor/hy_smi_8_full_load.txt"),
        "ibstat": real("ib/ibstat_b300_cx8_down_cx7_up.txt"),
        "slurmd -C": shape("n1", 2, 56, 2, 2063000),
    }
    saved = save(tmp_path / "n", samples)
    argv = [found[index], "-I", str(packed), "--from", str(saved)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(done.stdout) == without_times(run("--from", str(saved)).stdout)
    # And on the machine itself, with whatever tools it has.
    here = subprocess.run(argv[:3], capture_output=True, text=True, timeout=90, check=True)
    assert json.loads(here.stdout)["sn_probe"] == 1


def test_the_probe_keeps_to_python_3_6_and_the_standard_library() -> None:
    for path in sorted(PROBE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 6))
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom):
                assert each.level == 1 or each.module in sys.stdlib_module_names | {"xml.etree"}
                assert each.module not in ("__future__", "dataclasses"), path
            elif isinstance(each, ast.Import):
                names = {alias.name for alias in each.names}
                assert names <= sys.stdlib_module_names - {"dataclasses"}, path
            elif isinstance(each, ast.keyword):
                assert each.arg not in ("capture_output", "text", "shell"), path


def test_any_user_may_run_it(packed: Path, tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.geteuid() != 0 or python is None:
        pytest.skip("needs root, to become another user, and the system's Python")
    shown = Path("/var/tmp") / f"sn-probe-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        shutil.copyfile(packed, shown)
        shown.chmod(0o755)
        done = subprocess.run(
            [python, str(shown), "--timeout", "20"], capture_output=True, text=True, timeout=60,
            check=False, user="nobody", group="nogroup", cwd="/",
        )  # fmt: skip
    finally:
        shown.unlink(missing_ok=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["node"]["cores"] > 0


def test_a_log_of_gpus_has_the_form_of_a_real_one() -> None:
    # What the tests make up has the same tags as what nvidia-smi printed.
    made = gpus("X", 1, 1)
    text = real("nvsmi/telegraf_rtx-3080-v13.xml")
    for tag in ("product_name", "minor_number", "clusterUuid", "cliqueId", "attached_gpus"):
        assert f"<{tag}>" in made
        assert f"<{tag}>" in text
