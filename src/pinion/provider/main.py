"""`pulumi-resource-pinion`: the program that Pulumi's engine starts for resources of the package `pinion`."""

from __future__ import annotations

import shutil
import tempfile
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from pinion.provider.plugin import (
    Call,
    Checked,
    InvalidError,
    Plugin,
    Properties,
    RefusedError,
    ResourceKind,
    UnsupportedError,
    serve,
)
from pinion.provider.settings import STACK_KEYS, Settings, check_settings, read_settings

if TYPE_CHECKING:
    from pinion.drivers.netbox import NetBoxDriver
    from pinion.drivers.switch import SwitchDriver
    from pinion.plan.model import SwitchPlan
    from pinion.provider.cluster.connection import Connector

SITE: Final = "pinion:netbox:Site"
VLAN: Final = "pinion:netbox:Vlan"
DEVICE: Final = "pinion:netbox:Device"
SWITCH_CONFIG: Final = "pinion:switch:Config"
NODE: Final = "pinion:cluster:Node"
RELEASE: Final = "pinion:cluster:Release"
TOKENS: Final = (SITE, VLAN, DEVICE, SWITCH_CONFIG, NODE, RELEASE)
_SITE_AND_NAME: Final = ("site", "name")
_WINDOW: Final = 0.02  # seconds that a call waits for others to share its bulk calls
_FRESH: Final = 60.0  # seconds for which one listing may answer further reads: writes are guarded by version


def _own_version() -> str:
    try:
        return version("pinion")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0.0.0"


class PinionPlugin(Plugin):
    """NetBox records, switch configuration, nodes and releases of a cluster. Connects when a resource first needs it: a stack may use one
    and not the other.
    """

    name = "pinion"
    version = _own_version()

    def __init__(self) -> None:
        self._settings = Settings()
        self._netbox: NetBoxDriver | None = None
        self._cluster: Connector | None = None
        self._helm_home: Path | None = None
        self._kinds: dict[str, ResourceKind] = {}
        self._lock = threading.Lock()

    # --- configuration ------------------------------------------------------------------------------------------------

    def schema(self) -> dict[str, object]:
        """The package schema, from the very models that `Check` uses."""
        from pinion.provider.package_schema import package_schema

        return package_schema(self.version, {token: self.kind(token) for token in TOKENS})

    def check_config(self, news: Properties) -> Checked:
        """See `Plugin.check_config`."""
        return check_settings(news)

    def configure(self, config: Properties, call: Call) -> None:  # noqa: ARG002
        """See `Plugin.configure`."""
        try:
            settings = read_settings(config)
        except ValidationError as error:
            wrong = "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors(include_input=False))
            raise InvalidError(f"the provider's configuration: {wrong}") from None
        with self._lock:
            self._settings = settings
            self._forget()

    # --- resources ----------------------------------------------------------------------------------------------------

    def kind(self, token: str) -> ResourceKind:
        """See `Plugin.kind`."""
        with self._lock:
            if token not in self._kinds:
                self._kinds[token] = self._make(token)
            return self._kinds[token]

    def _make(self, token: str) -> ResourceKind:
        # The imports are here because a stack seldom needs them all, and the engine waits for our port.
        if token == SWITCH_CONFIG:
            from pinion.provider.switch import ConfigKind

            return ConfigKind(self.switch_driver)
        if token == NODE:
            from pinion.provider.cluster.node import NodeKind

            return NodeKind(self.cluster)
        if token == RELEASE:
            from pinion.provider.cluster.release import ReleaseKind

            self._helm_home = Path(tempfile.mkdtemp(prefix="pinion-helm-"))
            return ReleaseKind(self.cluster, self._helm_home, self.adopts)
        from pinion.drivers.netbox.wanted.records import DeviceRecord, SiteRecords, VlanRecord
        from pinion.provider.netbox import Access, UnitKind

        if token == SITE:
            return UnitKind(SiteRecords, "site", ["site"], Access(lambda: self.netbox_driver().sites, self.adopts))
        if token == VLAN:
            return UnitKind(VlanRecord, "VLAN", _SITE_AND_NAME, Access(lambda: self.netbox_driver().vlans, self.adopts))
        if token == DEVICE:
            return UnitKind(
                DeviceRecord, "device", _SITE_AND_NAME, Access(lambda: self.netbox_driver().devices, self.adopts)
            )
        raise UnsupportedError(f"pinion has no resource {token}; it has {', '.join(TOKENS)}")

    def adopts(self) -> bool:
        """Whether the stack lets us take over what exists."""
        return self._settings.adopt

    def netbox_driver(self) -> NetBoxDriver:
        """The one connection to NetBox. `RefusedError` when the stack does not say where it is."""
        with self._lock:
            if self._netbox is None:
                self._netbox = self._connect_netbox()
            return self._netbox

    def _connect_netbox(self) -> NetBoxDriver:
        settings = self._settings
        token = settings.netbox_token
        if settings.netbox_url is None or token is None:
            raise RefusedError(_unset("netboxUrl" if settings.netbox_url is None else "netboxToken"))
        from pinion.drivers.netbox import NetBoxDriver

        return NetBoxDriver(
            url=settings.netbox_url,
            token=token.get_secret_value(),
            ca_file=str(settings.netbox_ca_file) if settings.netbox_ca_file else None,
            allow_plain_http=settings.netbox_allow_plain_http,
            connect_timeout=settings.netbox_connect_timeout,
            read_timeout=settings.netbox_read_timeout,
            total_time=settings.netbox_total_time,
            window=_WINDOW,
            fresh=_FRESH,
        )

    def switch_driver(self, plan: SwitchPlan) -> SwitchDriver:
        """The driver of one switch. `RefusedError` when the stack does not say how to log in."""
        settings = self._settings
        user, password, hosts = settings.switch_username, settings.switch_password, settings.switch_known_hosts
        if user is None or password is None or hosts is None:
            needed = {"switchUsername": user, "switchPassword": password, "switchKnownHosts": hosts}
            raise RefusedError(_unset(next(key for key, value in needed.items() if value is None)))
        from pinion.drivers.switch import SwitchAccess, open_driver

        access = SwitchAccess(
            host=plan.management_address.partition("/")[0],
            port=plan.management_port,
            username=user,
            password=password,
            enable_password=settings.switch_enable_password,
            known_hosts=hosts,
            confirm_within=settings.switch_confirm_within,
        )
        return open_driver(plan.driver, plan.name, access)

    def cluster(self) -> Connector:
        """The one connection to the cluster. `RefusedError` when the stack does not say where it is."""
        from pinion.provider.cluster.connection import Connector

        with self._lock:
            if self._cluster is None:
                kubeconfig = self._settings.kubernetes_kubeconfig
                if kubeconfig is None:
                    raise RefusedError(_unset("kubernetesKubeconfig"))
                self._cluster = Connector(kubeconfig.get_secret_value())
            return self._cluster

    # --- the end ------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """See `Plugin.cancel`: calls in flight end with an error, nothing is left waiting."""
        self.close()

    def close(self) -> None:
        """See `Plugin.close`."""
        with self._lock:
            self._forget()
            if self._helm_home is not None:
                shutil.rmtree(self._helm_home, ignore_errors=True)

    def _forget(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if self._netbox is not None:
            self._netbox.close()
            self._netbox = None


def _unset(key: str) -> str:
    name = STACK_KEYS[key]
    flag = "--secret " if key in ("netboxToken", "switchPassword") else ""
    return f"{name} is not set in this stack; say: pulumi config set {flag}{name} …"


def main() -> int:
    """Serve until the engine is gone."""
    return serve(PinionPlugin())


if __name__ == "__main__":
    raise SystemExit(main())
