"""Quantities: one unit each, and errors that show what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supernode_slurm import units


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.bandwidth_gbs, "900 GB/s", 900.0),
        (units.bandwidth_gbs, "400 Gb/s", 50.0),
        (units.bandwidth_gbs, "400Gbps", 50.0),
        (units.bandwidth_gbs, "1.6 Tb/s", 200.0),
        (units.bandwidth_gbs, "1 GiB/s", 1.073741824),
        (units.latency_ns, "500 ns", 500.0),
        (units.latency_ns, "2 us", 2000.0),
        (units.memory_mib, "940 GiB", 962560),
        (units.memory_mib, "2 TB", 1907348),
        (units.power_w, "132 kW", 132000.0),
        (units.slurm_time, "7-00:00:00", "7-00:00:00"),
        (units.slurm_time, "UNLIMITED", "UNLIMITED"),
        (units.slurm_time, "30", "30"),
    ],
)
def test_a_quantity_has_one_unit(read: Callable[[str], Any], text: str, value: Any) -> None:
    assert read(text) == pytest.approx(value) if isinstance(value, float) else read(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30), ("1:30", 1.5), ("48:00:00", 2880), ("7-00:00:00", 10080), ("1-2", 1560),
        ("1-2:3", 1563), ("UNLIMITED", float("inf")),
    ],
)  # fmt: skip
def test_a_time_limit_in_minutes(text: str, value: float) -> None:
    assert units.minutes(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (units.bandwidth_gbs, "900"),
        (units.bandwidth_gbs, "900 GB"),
        (units.bandwidth_gbs, "-1 GB/s"),
        (units.bandwidth_gbs, "nan GB/s"),
        (units.latency_ns, "5 minutes"),
        (units.memory_mib, "940"),
        (units.memory_mib, "940 Gb"),
        (units.memory_mib, "1 KiB"),
        (units.power_w, "12 J"),
        (units.slurm_time, "7 days"),
        (units.slurm_time, "1:00\nPartitionName=x"),
        (units.bandwidth_gbs, "1" * 500 + " GB/s"),
    ],
)
def test_what_is_no_quantity_is_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read(text)
