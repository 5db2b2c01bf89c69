"""A private slurmctld that runs a copy of a configuration, alone on loopback."""

from __future__ import annotations

from .log import judge
from .siteconf import Dropped, SiteConf, read_site_conf
from .twin import Twin, TwinSpec

__all__ = ["Dropped", "SiteConf", "Twin", "TwinSpec", "judge", "read_site_conf"]
