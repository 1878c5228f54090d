"""Makes and finds the virtual environment of the Python peers.

    environment.py make    make it unless it is there, and print its interpreter
    environment.py find    print its interpreter, or fail

It lives in ~/.cache/hangar, one per content of requirements.txt and Python version, and counts
only when the marker says that the installation went through.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
MARKER = "complete"


def folder() -> pathlib.Path:
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "hangar" / f"python-{key}"


def make(where: pathlib.Path) -> None:
    if sys.version_info < (3, 10):
        sys.exit("Python 3.10 or newer is needed")
    shutil.rmtree(where, ignore_errors=True)
    quiet = [sys.executable, "-m", "venv", str(where)]
    if subprocess.run(quiet, stdout=sys.stderr).returncode != 0:
        sys.exit("the venv module is missing: install it (Debian: python3-venv)")
    pip = [str(where / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--requirement", str(REQUIREMENTS)]
    for command in (install, [*pip, "check"]):
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit(f"failed: {' '.join(command)}")
    (where / MARKER).touch()


def main() -> None:
    where = folder()
    match sys.argv[1:]:
        case ["make"]:
            if not (where / MARKER).exists():
                make(where)
        case ["find"]:
            if not (where / MARKER).exists():
                sys.exit(f"{where} is not there")
        case _:
            sys.exit(__doc__)
    print(where / "bin" / "python")


main()
