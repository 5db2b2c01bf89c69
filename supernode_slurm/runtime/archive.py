"""sn-launch as one file: a zip archive that any Python from 3.8 on runs.

Python 3.8, standard library only.
"""

from __future__ import annotations

import io
import pkgutil
import zipfile

_PACKAGE = __name__.split(".", 1)[0]
_MODULES = ("__init__", "hostlist")
_PACKAGES = ("plan", "runtime")
_MAIN = f"""\
import sys

if sys.version_info < (3, 8):
    sys.exit("sn-launch: error: needs Python 3.8 or newer, this is %s" % sys.version.split()[0])

from {_PACKAGE}.runtime.launch import main

sys.exit(main())
"""
_SHEBANG = b"#!/usr/bin/env python3\n"


def archive() -> bytes:
    """Return the archive, the same bytes whenever it is made from the same sources."""
    files = {"__main__.py": _MAIN.encode("ascii")}
    for name in (*(f"{module}.py" for module in _MODULES), *_sources()):
        found = pkgutil.get_data(_PACKAGE, name)
        if found is not None:
            files[f"{_PACKAGE}/{name}"] = found
    stream = io.BytesIO()
    stream.write(_SHEBANG)
    with zipfile.ZipFile(stream, "w") as target:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name)  # its date is 1980, its owner nobody
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            target.writestr(entry, text, compresslevel=9)
    return stream.getvalue()


def _sources() -> list[str]:
    """Return the modules of the packages inside, as paths below the project's own."""
    from .. import plan
    from . import __path__ as runtime

    return [
        f"{folder}/{name}.py"
        for folder, path in zip(_PACKAGES, (plan.__path__, runtime))
        for name in ("__init__", *(found.name for found in pkgutil.iter_modules(path)))
    ]
