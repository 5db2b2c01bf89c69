"""A private slurmctld that runs a copy of a configuration, alone on loopback."""

from __future__ import annotations

from .foreground import foreground
from .installed import installed_release
from .log import judge
from .preflight import Findings, check
from .siteconf import Dropped, SiteConf, read_site_conf
from .twin import Twin, TwinSpec

__all__ = [
    "Dropped",
    "Findings",
    "SiteConf",
    "Twin",
    "TwinSpec",
    "check",
    "foreground",
    "installed_release",
    "judge",
    "read_site_conf",
]
