"""Find the least memory limit with which runc starts a container: the bound of `memory-limit` and `memory-high`.

Run as root, with the runc programs to try:

    python benchmarks/least_memory.py [RUNC ...]

Without an argument the rig's own runc is tried. Each limit is tried several times, because a start near the bound
fails now and then; a limit counts as good when all of its tries succeed. Swap is limited to the same amount, as NRI
does. The program in the container is busybox's `true`: a container of any use needs more.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.rig import packages

TRIES: Final = 5
STEP: Final = 256 << 10
HIGHEST: Final = 64 << 20
_TIMEOUT_S: Final = 60


def bundle(folder: Path, runc: str) -> Path:
    """Make a bundle whose only program is busybox."""
    root = folder / "rootfs" / "bin"
    root.mkdir(parents=True)
    for name in ("proc", "sys", "dev"):
        (root.parent / name).mkdir()
    program = root / "true"
    program.write_bytes(packages.unpacked("busybox").program("busybox").read_bytes())
    program.chmod(0o755)
    subprocess.run([runc, "spec"], cwd=folder, check=True)
    return folder


def starts(runc: str, folder: Path, limit: int, name: str) -> str:
    """Run the container once with a limit in bytes; return the cause of a failure, or an empty text."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config["process"] |= {"args": ["/bin/true"], "terminal": False}
    memory = {"limit": limit, "swap": limit} if limit else {}
    config["linux"]["resources"] = {"memory": memory}
    config["linux"]["cgroupsPath"] = f"/least-memory-{name}"
    (folder / "config.json").write_text(json.dumps(config))
    command = [runc, "--root", str(folder / "state"), "run", name]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"still starting after {_TIMEOUT_S} s"
    finally:
        subprocess.run([*command[:3], "delete", "--force", name], capture_output=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"exit code {done.returncode}")[-200:]


def least(runc: str) -> tuple[int, str]:
    """Return the least good limit in bytes, in steps of `STEP`, and the error of the step below it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = bundle(Path(scratch), runc)
        if why := starts(runc, folder, 0, "unlimited"):
            raise SystemExit(f"{runc} starts nothing here: {why}")
        bad, good, said = 0, HIGHEST, ""
        while good - bad > STEP:
            limit = (bad + good) // 2 // STEP * STEP
            why = next((w for n in range(TRIES) if (w := starts(runc, folder, limit, f"l{limit}-{n}"))), "")
            if why:
                bad, said = limit, why
            else:
                good = limit
        return good, said


def main() -> None:
    """Print one line for each runc."""
    for runc in sys.argv[1:] or [str(packages.unpacked("runc").program("runc"))]:
        version = subprocess.run([runc, "--version"], capture_output=True, text=True, check=True).stdout
        limit, said = least(runc)
        print(f"{version.splitlines()[0]}: {limit} bytes ({limit / (1 << 20):.2f} MiB); below it: {said}")


if __name__ == "__main__":
    main()
