"""What a host runs first, by ``python3 -c``: it takes the program from the first line of standard input, or from the host's own cache.

Compiling costs a small board more than all that the program then does, so the compiled program is kept in /var/cache/pinion-onhost (root
only), named by the digest of its sources and the Python that compiled it. Only what every Python has is imported, and as little of it as
possible.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib
from importlib._bootstrap import ModuleSpec  # importlib.machinery costs more than all of this

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, ModuleType

FOLDER = "/var/cache/pinion-onhost"


def load(digest: str, packed: bytes, folder: str = FOLDER) -> Mapping[str, CodeType]:
    """Module name to code, from the cache *folder* or from *packed*, which is a zip in base64 (then it is kept)."""
    path = f"{folder}/onhost-{digest}-{sys.implementation.cache_tag}"
    try:
        with open(path, "rb") as kept:
            owner, data = os.fstat(kept.fileno()).st_uid, kept.read()
    except OSError:
        owner, data = -1, b""
    if owner == os.geteuid() and len(data) > 4 and int.from_bytes(data[:4], "big") == zlib.crc32(data[4:]):
        cached: Mapping[str, CodeType] = marshal.loads(data[4:])
        return cached
    import binascii
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(binascii.a2b_base64(packed))) as archive:
        names = archive.namelist()
        codes = {name[:-3].replace("/", "."): compile(archive.read(name), name, "exec") for name in names}
    data = marshal.dumps(codes)
    try:
        keep(path, zlib.crc32(data).to_bytes(4, "big") + data)
    except OSError:  # not root, a full disk: the next run compiles again
        pass
    return codes


def keep(path: str, data: bytes) -> None:
    """Keep *data* by rename, and drop what other versions kept. Raises `OSError`."""
    folder, _, name = path.rpartition("/")
    temporary = f"{path}.{os.getpid()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    for other in os.listdir(folder):
        if other.startswith("onhost-") and other != name:
            os.unlink(f"{folder}/{other}")


class Program:
    """Finds and loads modules among *codes*; ``__init__`` makes a package."""

    def __init__(self, codes: Mapping[str, CodeType]) -> None:
        self.codes = codes

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """The module *name* of the program; None for any other."""
        package = f"{name}.__init__" in self.codes
        return ModuleSpec(name, self, is_package=package) if package or name in self.codes else None  # type: ignore[arg-type]

    def create_module(self, spec: object) -> None:
        """Python's own kind of module will do."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        name = module.__name__
        exec(self.codes[name if name in self.codes else f"{name}.__init__"], module.__dict__)


if __name__ == "__main__":
    given, zipped = sys.stdin.buffer.readline().split()
    sys.meta_path.insert(0, Program(load(given.decode(), zipped)))
    from onhost.main import main  # type: ignore[import-not-found]

    sys.exit(main())
