"""A rack whose site states every concern that a lab's hosts can have: a management host, two Pis that serve a model, and a GPU server."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lab.serving_rack import ServingRack

from pinion.lab.apt import machine_mirrors
from pinion.plan.concerns.firewall import RULES_FILE
from pinion.plan.concerns.identity import FOLDER, SERVICE, TIMER
from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.context import PI_COMMAND_LINE
from pinion.plan.programs import program_path

COMMON = ("base", "watchdog", "node_metrics", "firewall")
PIS, GPUS = ("pi_boot", "pi_tuning", "power_thermal"), ("gpu_tuning", "nic_tuning")
STATED = """\
networks:
  gpu-rdma: {vid: 102, purpose: rdma, prefix: 10.77.102.0/24, mtu: 9000}
gpu_servers:
  nv-1:
    platform: lab
    profile: lab-gpu-server
    rack: r1
    unit: 8
    network: control
    port: tor-1 Ethernet9
    rdma: {network: gpu-rdma, ports: {tor-1: Ethernet10-11}}
concerns:
  base:
    time_zone: Europe/Berlin
    update_window: "sun 02:00-05:00"
    package_sources: {own: {uri: "@uri@", suites: [trixie, trixie-updates]}}
  watchdog: {}
  node_metrics: {interval: 15s}
  firewall:
    allow:
      package-mirror: {sources: [edge-inference, control], hosts: [mgmt-1], ports: [3142], why: the lab's apt}
  site_ca: {}
  identity: {lifetime: 30min}
  pi_boot: {}
  pi_tuning: {}
  power_thermal: {}
  gpu_tuning: {}
  nic_tuning: {}
"""
#: Beside the lab's own, which each start of a machine writes anew.
SOURCE = "/etc/apt/sources.list.d/own.sources"
#: What the image of a Raspberry Pi has on its boot partition.
IMAGE = "console=serial0,115200 root=PARTUUID=0a1b2c3d-02 rootwait quiet"
#: Says whether a TCP port of somebody else answers within two seconds.
REACHES = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2); print('yes')"
#: More than five eighths of a certificate's life, and less than all of it.
AHEAD = 1200
#: The program with a sense of the hour that is *ahead*: a container has its machine's clock.
LATER = f"""\
import importlib.machinery, importlib.util, sys, time
loader = importlib.machinery.SourceFileLoader("program", "{program_path("identity")}")
program = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
sys.modules["program"] = program
loader.exec_module(program)
sys.exit(program.main(["renew"], lambda: time.time() + {AHEAD}))
"""
#: The unit's own sandbox, for that program.
DROP_IN = "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -I -B /run/later.py\n"


@dataclass(frozen=True)
class ConcernsRack(ServingRack):
    """One instance with all of it. Its hosts install the packages of their concerns themselves."""

    BARE = True
    PARTS = "switch,authority,models"

    @classmethod
    def make(cls, folder: Path, name: str) -> ConcernsRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        for key in ("authority", "stranger", "person"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(folder / key)], check=True
            )
        # the mirror of this machine, as the lab's own file names it
        (uri, *_) = re.findall(r"^URIs: (\S+)", machine_mirrors().proxied_sources(), re.MULTILINE)
        stated, more = rack.stated(), yaml.safe_load(STATED.replace("@uri@", uri))
        stated["networks"] |= more["networks"]
        stated["gpu_servers"] = more["gpu_servers"]
        stated["concerns"] = more["concerns"] | {key: value for key, value in stated["concerns"].items() if value}
        stated["access"]["authorities"] = [(folder / "authority.pub").read_text().strip()]
        rack.state(stated)
        return rack

    def stated(self) -> dict[str, Any]:
        """The site file."""
        read: dict[str, Any] = yaml.safe_load(self.site.read_text())
        return read

    def state(self, stated: dict[str, Any]) -> None:
        """Write the site file."""
        self.site.write_text(yaml.safe_dump(stated, sort_keys=False))

    def put_boot_files(self, name: str) -> None:
        """What the image of a Raspberry Pi has on its boot partition, which a lab machine lacks."""
        self.on(name, f"mkdir -p /boot/firmware; echo '{IMAGE}' >{PI_COMMAND_LINE}; echo dtparam=spi=on >{CONFIG_FILE}")

    # --- who gets in ------------------------------------------------------------------------------------------------------

    def logs_in_by_certificate(self, name: str, signer: str, principal: str, valid: str = "-1m:+5m") -> bool:
        """Whether a certificate of *signer* for *principal* logs a person in as administrator."""
        key = self.folder / "person"
        by = str(self.folder / signer)
        subprocess.run(
            ["ssh-keygen", "-q", "-s", by, "-I", "test", "-n", principal, "-V", valid, f"{key}.pub"], check=True
        )
        try:
            return self.logs_in_by_key(name, "person", "ops", f"CertificateFile={key}-cert.pub")
        finally:
            Path(f"{key}-cert.pub").unlink()

    def logs_in_by_key(self, name: str, key: str, user: str, *options: str) -> bool:
        """Whether *key* of the rack's folder logs *user* in and makes him root."""
        known = f"UserKnownHostsFile={self.store.ssh / 'known_hosts'}"
        words = [word for option in ("BatchMode=yes", "IdentitiesOnly=yes", known, *options) for word in ("-o", option)]
        address = f"{user}@{self.host(name).address}"
        login = self.inside_command("ssh", *words, "-i", str(self.folder / key), address, "sudo -n id -u")
        deadline = time.monotonic() + 120
        while True:
            done = subprocess.run(login, env=self.environment, capture_output=True, text=True, check=False)
            if done.stdout.strip() == "0":
                return True
            if "Permission denied" in done.stderr:
                return False
            # sshd_config(5), PerSourcePenalties: after some refused logins the address is not heard for a while
            assert time.monotonic() < deadline, done.stderr
            time.sleep(2)

    def reaches_port(self, source: str, target: str, port: int) -> bool:
        """Whether *source* can open *port* of *target*."""
        asked = f'python3 -c "{REACHES}" {self.host(target).address} {port} 2>/dev/null || echo no'
        return self.on(source, asked).strip() == "yes"

    def locking_out(self, name: str) -> dict[str, Any]:
        """The firewall of *name* without its way in: valid, and nobody gets in who is not in already."""
        stated = self.host(name).concerns["firewall"].model_dump(mode="json")
        for file in stated["files"]:
            if file["path"] == RULES_FILE:
                lines = file["content"].splitlines(keepends=True)
                file["content"] = "".join(line for line in lines if '"ssh: ' not in line)
        return stated

    # --- certificates -----------------------------------------------------------------------------------------------------

    def serial(self, name: str) -> str:
        """The serial number of the certificate in use on *name*."""
        return self.on(name, f"openssl x509 -noout -serial -in {FOLDER}/current/cert.pem").strip()

    def later(self, name: str) -> int:
        """Run the unit on *name* as if it were `AHEAD` seconds later; its exit code."""
        folder = f"/run/systemd/system/{SERVICE}.d"
        # A start joins a run that the timer began, and that one would not be this: so let it end, and have no more of them.
        alone = f"systemctl stop {TIMER}; systemctl start {SERVICE} >/dev/null 2>&1\n"
        given = f"mkdir -p {folder}; cat >/run/later.py <<'END'\n{LATER}END\ncat >{folder}/later.conf <<'END'\n{DROP_IN}END\n"
        run = f"systemctl daemon-reload; systemctl start {SERVICE} >/dev/null 2>&1; echo $?\n"
        after = f"rm -r {folder} /run/later.py; systemctl daemon-reload; systemctl reset-failed {SERVICE} 2>/dev/null\n"
        again = f"systemctl start {TIMER}"
        return int(self.on(name, alone + given + run + after + again).strip())

    def said(self, name: str) -> str:
        """The last words of the unit on *name*."""
        return self.on(name, f"journalctl -u {SERVICE} -n 20 -o cat")
