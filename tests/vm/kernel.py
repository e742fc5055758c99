"""The guest's kernel: the distribution's package, unpacked in the cache, with its modules indexed."""

from dataclasses import dataclass
from pathlib import Path

from tests.rig import RigError, commands, packages
from tests.rig.waiting import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Kernel:
    """Hold the kernel; `modules` is the folder that depmod and modprobe know as /lib/modules/RELEASE."""

    image: Path
    release: str
    modules: Path

    def needed(self, *names: str) -> list[Path]:
        """Return the files of these modules and of the modules that they need, in the order of loading."""
        lines = (self.modules / "modules.dep").read_text().splitlines()
        needs = {file: rest.split() for file, _, rest in (line.partition(":") for line in lines)}
        by_name = {Path(file).name.partition(".")[0]: file for file in needs}
        if unknown := set(names) - by_name.keys():
            raise RigError(f"{self.release} has no modules {', '.join(sorted(unknown))}")
        files = [file for name in names for file in (*reversed(needs[by_name[name]]), by_name[name])]
        return [self.modules / file for file in dict.fromkeys(files)]


def prepared() -> Kernel:
    """Return the kernel: from the cache, or the first time from the mirror."""
    tree = packages.unpacked("kernel").folder
    image = next((tree / "boot").glob("vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    folders = (tree / "lib/modules", tree / "usr/lib/modules")  # the latter in newer releases
    modules = next(folder for folder in folders if folder.is_dir()) / release
    if not (modules / "modules.dep").exists():
        base = modules.parents[2] if modules.parts[-3] == "lib" else tree
        _index(base, release)
    return Kernel(image, release, modules)


def _index(base: Path, release: str) -> None:
    commands.output(["depmod", "-b", str(base), release], seconds=PATIENCE_SECONDS)
