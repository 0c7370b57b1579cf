"""Where images, locks and keys lie: what anyone may read in the cache, what belongs to a site and its operator in the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pinion.image.errors import ImageError
from pinion.lab.state import cache_root, state_root

#: No lab instance can be called so (`pinion.lab.state.InstanceState`).
_FOLDER = "_images"


@dataclass(frozen=True, slots=True)
class Store:
    """The folders of one site's images."""

    cache: Path
    state: Path

    @classmethod
    def of(cls, site: str) -> Store:
        """The store of *site* under `$PINION_CACHE` and `$PINION_STATE`; the state's folders are made, 0700."""
        found = cls(cache_root() / "disks", state_root() / _FOLDER / site)
        if any(mark in str(found.cache) for mark in "'\"$` \n"):
            raise ImageError(
                f"cache folder {found.cache}: build scripts cannot take its name; set PINION_CACHE to a plain path"
            )
        for folder in (found.state.parent, found.state, found.nodes, found.host_keys, found.tokens):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        found.pool.mkdir(parents=True, exist_ok=True)
        return found

    @property
    def pool(self) -> Path:
        """Package files, as locked."""
        return self.cache / "pool"

    @property
    def archives(self) -> Path:
        """Vendors' image archives, each under its SHA-256: whole, or not there under that name."""
        return self.cache / "archives"

    @property
    def kind_file(self) -> Path:
        """What the site's base is made of, once that was decided."""
        return self.state / "base.json"

    def base(self, key: str) -> Path:
        """The folder of the base image with this key: exists only whole."""
        return self.cache / f"base-{key[:16]}"

    @property
    def lock_file(self) -> Path:
        """The recorded packages: of all sites of this operator, so that one base serves them all."""
        return self.state.parent / "packages.lock.json"

    @property
    def signing_key(self) -> Path:
        return self.state.parent / "signing.pem"

    @property
    def nodes(self) -> Path:
        """Images of nodes: 0600, for they hold host keys and tokens."""
        return self.state / "nodes"

    def node(self, name: str) -> Path:
        """The image of one node."""
        return self.nodes / f"{name}.img"

    @property
    def host_keys(self) -> Path:
        return self.state / "host_keys"

    @property
    def tokens(self) -> Path:
        """The enrolment tokens that are in the nodes' images, 0600, until they are on a card."""
        return self.state / "tokens"

    @property
    def known_hosts(self) -> Path:
        """The host keys of all nodes that have an image, for PINION_KNOWN_HOSTS."""
        return self.state / "known_hosts"

    @property
    def admin_key(self) -> Path:
        """The operator's own login key, where none was given."""
        return self.state / "admin_ed25519"
