"""`pinion:cluster:Release`: one Helm release of a chart on this machine.

Invariants:

* One release of a name, whatever happened before: create and update are the same ``helm upgrade --install``, and what a killed helm left
  pending is put aside first (`_settle`), without touching the objects that it made.
* A release is a site's by a label of helm's own records (``helm list -l pinion/site=lab``). One without it was somebody else's: it is taken
  over when the stack says so, and left alone otherwise.
* What a chart holds counts, by its digest; where it lies does not.
* Values go to helm on standard input.
* A refresh finds a release that is gone or failed, values that someone changed, and objects that are no longer as the chart says; the last
  are told under the input `drift`, which no program states, so the next update repairs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from typing_extensions import override

from pinion.drivers.cluster import (
    DEPLOYED,
    PENDING,
    RECORD,
    UNINSTALLING,
    ClusterClient,
    HelmRecord,
    drift,
    helm_records,
    objects_in,
)
from pinion.plan.cluster import RELEASE_HISTORY, SITE_LABEL
from pinion.provider.cluster import charts
from pinion.provider.cluster.comparing import as_live
from pinion.provider.cluster.connection import Connector, asked, told
from pinion.provider.cluster.helm import Helm, HelmFailedError, unreachable
from pinion.provider.cluster.pods import PodWatch
from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    Checked,
    Created,
    Difference,
    Failure,
    Found,
    PartialError,
    PluginError,
    Properties,
    RefusedError,
    ResourceKind,
    UnreachableError,
    Value,
    differences,
    has_unknown,
    mark_like,
    plain,
    plain_properties,
)
from pinion.provider.shape import ORIGIN, Shape

#: Inputs that are ours and not the program's: what the chart holds, and what a refresh found.
DIGEST, DRIFT = "digest", "drift"


class ReleaseWish(BaseModel):
    """A Helm release: *chart* is a path that begins at the repository, *timeout* seconds that its pods have until they are ready.

    Without *wait* nobody waits for them, and a release that fails stays as it is; with it, a failed one goes back to the revision before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    site: str
    namespace: str
    name: str
    chart: str
    values: dict[str, JsonValue] = Field(default_factory=dict)
    wait: bool = True
    timeout: int = Field(default=300, ge=1, le=86400)

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def label(self) -> str:
        """For messages."""
        return f"Release {self.id} (chart {Path(self.chart).name})"


class ReleaseKind(ResourceKind):
    """Helm releases. *adopt*: the stack lets us take over what exists; *home* is a folder for helm's caches."""

    shape: Shape[ReleaseWish] = Shape(ReleaseWish, {})

    def __init__(self, connector: Callable[[], Connector], home: Path, adopt: Callable[[], bool]) -> None:
        self._connector, self._home, self._adopt = connector, home, adopt

    # --- what is wanted -----------------------------------------------------------------------------------------------

    @override
    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        """See `ResourceKind.check`: puts the digest of the chart in."""
        checked = self.shape.check({key: value for key, value in news.items() if key not in {DIGEST, DRIFT}})
        chart = checked.inputs.get("chart")
        if checked.failures or not isinstance(chart, str):
            return checked
        place = charts.place(chart)
        try:
            if not charts.is_chart(place):
                return Checked(news, [Failure("chart", f"{place} is no chart: no Chart.yaml in it")])
            return Checked({**checked.inputs, DIGEST: charts.checksum(place)})
        except OSError as error:
            return Checked(news, [Failure("chart", f"{place} cannot be read: {error.strerror}")])

    @override
    def diff(
        self,
        call: Call,
        resource_id: str,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        """See `ResourceKind.diff`: where a chart lies is no difference, what it holds is."""
        return differences(old_inputs, news, replace=("name", "namespace"), ignore=[*ignore, ORIGIN, "chart"])

    # --- doing it -----------------------------------------------------------------------------------------------------

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: one of this site that exists already is upgraded."""
        if preview and has_unknown(news):
            return Created("", news)
        wish = self.shape.value(news)
        self._claim(call, wish)
        if preview:
            return Created("", self._previewed(call, news, wish))
        return Created(wish.id, self._upgraded(call, news, wish))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`."""
        if preview and has_unknown(news):
            return news
        wish = self.shape.value(news)
        return self._previewed(call, news, wish) if preview else self._upgraded(call, news, wish)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`."""
        namespace, _, name = resource_id.rpartition("/")
        label = f"Release {resource_id}"
        client = self._client(call)
        held = asked(label, lambda: helm_records(client, namespace, name))
        if not held:
            return None
        last = held[-1]
        stated: Properties = inputs or {"name": name, "namespace": namespace, "site": last.labels.get(SITE_LABEL, "")}
        found = {key: value for key, value in stated.items() if key != DRIFT}
        found["values"] = _changed_values(stated.get("values"), last.values)
        if not found["values"] and not stated.get("values"):
            del found["values"]
        if last.status != DEPLOYED:
            said = [f"release {resource_id} is {last.status}"]
        else:
            said = asked(label, lambda: drift(client, last.manifest, namespace))
        if said:
            found[DRIFT] = said
        return Found(resource_id, found, _outputs(found, last))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`: one that somebody has uninstalled already is fine, one of another site is left alone."""
        wish = self.shape.value(old_inputs)
        label = f"Release {resource_id}"
        client = self._client(call)
        held = asked(label, lambda: helm_records(client, wish.namespace, wish.name))
        if not held:
            return
        if (site := held[-1].labels.get(SITE_LABEL, wish.site)) != wish.site:
            call.warn(f"{label} is of site {site} by now ({SITE_LABEL}): left alone")
            return
        call.status("uninstalls")
        self._uninstall(call, wish, int(call.timeout or wish.timeout))

    # --- details ------------------------------------------------------------------------------------------------------

    def _helm(self) -> Helm:
        connection = self._connector().connection()
        return Helm(connection.kubeconfig, connection.context, self._home)

    def _client(self, call: Call) -> ClusterClient:
        return told(call, self._connector().connection().client)

    def _claim(self, call: Call, wish: ReleaseWish) -> None:
        """Refuse a release that is there and not this site's, unless the stack takes over what exists."""
        client = self._client(call)
        held = asked(wish.label, lambda: helm_records(client, wish.namespace, wish.name))
        site = held[-1].labels.get(SITE_LABEL) if held else wish.site
        if site == wish.site:
            return
        whose = f"of site {site}" if site else f"not of a site of Pinion's (no label {SITE_LABEL} on its records)"
        if not self._adopt():
            raise RefusedError(
                f"{wish.label} exists already and is {whose}. Give it another name in the site file; or, to have it taken over and "
                "upgraded, say: pulumi config set pinion:adopt true"
            )
        call.warn(
            f"{wish.label} exists already and is {whose}; it is taken over, and a destroy of this stack uninstalls it"
        )

    def _settle(self, call: Call, client: ClusterClient, wish: ReleaseWish) -> None:
        """Put aside what a killed helm left of the release, so that helm will work on it again. Raises `ClusterError`.

        helm refuses a release whose latest revision is pending. Whoever wrote that revision is dead: helm ends with the plugin that started
        it, and the engine runs one update of a stack at a time. Its record is deleted, and not the objects that it made: the next install
        adopts them, as they carry the release's name. A half-done uninstall is finished.
        """
        for record in helm_records(client, wish.namespace, wish.name):
            if record.status in PENDING:
                call.info(
                    f"release {wish.id}: revision {record.revision} was left {record.status} by a killed run; goes on from there"
                )
                client.delete(RECORD, wish.namespace, record.secret, uid=record.uid)
            elif record.status == UNINSTALLING:
                call.info(f"release {wish.id}: was left half uninstalled by a killed run; finishing that first")
                self._uninstall(call, wish, wish.timeout)

    def _uninstall(self, call: Call, wish: ReleaseWish, seconds: int) -> None:
        options = ("--ignore-not-found", "--wait", "--timeout", f"{seconds}s")
        try:
            self._helm().run(call, "uninstall", wish.name, "--namespace", wish.namespace, *options)
        except HelmFailedError as error:
            raise _refused(f"{wish.label}: helm uninstall", str(error)) from None

    def _upgraded(self, call: Call, news: Properties, wish: ReleaseWish) -> Properties:
        """Install or upgrade; the outputs. A release that is there but not as wanted stays in the state (`PartialError`)."""
        client = self._client(call)
        asked(wish.label, lambda: self._settle(call, client, wish))
        origin = str(news.get(ORIGIN, f"release {wish.id}"))
        watch = PodWatch(call, client, wish.namespace, f"app.kubernetes.io/instance={wish.name}", origin)
        call.status("installs")
        failed = None
        try:
            self._helm().run(
                call, *_arguments(wish, call.timeout), *_waiting(wish), given=_values(news), meanwhile=watch.look
            )
        except HelmFailedError as error:
            failed = "\n".join([f"{wish.label}: helm upgrade at {client.server}: {error}", *watch.seen])
            if unreachable(str(error)):
                raise UnreachableError(failed) from None
        held = asked(wish.label, lambda: helm_records(client, wish.namespace, wish.name))
        if failed is None:
            if not held:
                raise PluginError(f"{wish.label}: is gone right after helm had installed it; someone uninstalls it")
            return _outputs(news, held[-1])
        if not held:
            raise RefusedError(failed)
        if held[-1].status == DEPLOYED:  # it went back to the revision before, which serves
            raise RefusedError(f"{failed}\nRolled back: revision {held[-1].revision}, as it was before, serves.")
        broken = {**news, DRIFT: [f"release is {held[-1].status}"]}
        raise PartialError(wish.id, _outputs(broken, held[-1]), [failed], broken)

    def _previewed(self, call: Call, news: Properties, wish: ReleaseWish) -> Properties:
        """The inputs, after helm has rendered the chart with them: bad values are an error of the preview."""
        arguments = _arguments(wish, call.timeout)
        try:
            self._helm().run(call, *arguments, "--dry-run=server", "--hide-secret", given=_values(news))
        except HelmFailedError as error:
            if not unreachable(str(error)):
                if "another operation" in str(error):  # left by a killed run; the update settles it
                    return dict(news)
                raise _refused(f"{wish.label}: helm upgrade --dry-run", str(error)) from None
            call.warn(f"{wish.label}: not checked against the cluster: {error}")
        return {**news, "status": UNKNOWN}


def _outputs(inputs: Properties, held: HelmRecord) -> Properties:
    status = {
        "appVersion": held.chart.get("appVersion"),
        "chart": held.chart.get("name"),
        "revision": held.revision,
        "status": held.status,
        "version": held.chart.get("version"),
    }
    names: dict[str, list[str]] = {}
    for item in objects_in(held.manifest, held.namespace):
        metadata = item["metadata"]
        names.setdefault(f"{item['kind']}/{item['apiVersion']}", []).append(
            f"{metadata['namespace']}/{metadata['name']}"
        )
    return mark_like(
        {**inputs, "status": status, "resourceNames": {kind: sorted(found) for kind, found in names.items()}}, inputs
    )


def _arguments(wish: ReleaseWish, allowed: float | None) -> list[str]:
    """helm's command line for *wish*; *allowed* seconds by the engine bound it."""
    seconds = min(wish.timeout, int(allowed)) if allowed else wish.timeout
    head = ["upgrade", wish.name, str(charts.place(wish.chart)), "--install", "--namespace", wish.namespace]
    mark = ["--labels", f"{SITE_LABEL}={wish.site}"]
    return [*head, *mark, "--values", "-", "--timeout", f"{seconds}s", "--history-max", str(RELEASE_HISTORY)]


def _waiting(wish: ReleaseWish) -> list[str]:
    return ["--atomic", "--wait"] if wish.wait else []


def _values(news: Properties) -> str:
    return json.dumps(plain_properties(news).get("values") or {})


def _changed_values(stated: Value, held: Mapping[str, Any]) -> Value:
    """The values of the live release, secret where ours are: the stated ones when they are the same."""
    if plain(stated) == held or (not stated and not held):
        return stated if stated is not None else {}
    live = as_live(stated, dict(held)) if stated is not None else {}
    extra = {key: value for key, value in held.items() if not isinstance(stated, Mapping) or key not in stated}
    return {**live, **extra} if isinstance(live, Mapping) else live


def _refused(label: str, reason: str) -> PluginError:
    text = f"{label}: {reason}"
    return UnreachableError(text) if unreachable(reason) else RefusedError(text)
