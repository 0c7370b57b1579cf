#!/usr/bin/python3 -IS
"""A network card behind `ethtool`, `dcb` and `ip`: it answers in their shapes, keeps what it is told, and writes down every change.

The state is a JSON file named by $NIC_STATE; $NIC_SYS is its sysfs. Installed under each program's name.
Shapes after ethtool 6.1 (ring.c, coalesce.c, features.c, pause.c) and iproute2 6.1 (dcb/).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

STATE = Path(os.environ["NIC_STATE"])


def ethtool(state: dict[str, object], option: str, nic: str, *rest: str) -> None:
    """Answer one call; odd options are questions."""
    card = state[nic]
    assert isinstance(card, dict)
    if option == "-g":
        print(
            f"Ring parameters for {nic}:\nPre-set maximums:\nRX:\t\t{card['ring_max']}\nRX Mini:\tn/a\nRX Jumbo:\tn/a"
        )
        print(f"TX:\t\t{card['ring_max']}\nCurrent hardware settings:\nRX:\t\t{card['rx']}\nRX Mini:\tn/a")
        print(f"RX Jumbo:\tn/a\nTX:\t\t{card['tx']}\nRX Buf Len:\t\tn/a\nCQE Size:\t\tn/a\nTX Push:\toff")
    elif option == "-c":
        print(f"Coalesce parameters for {nic}:\nAdaptive RX: {card['adaptive-rx']}  TX: {card['adaptive-tx']}")
        print("stats-block-usecs:\tn/a\nsample-interval:\tn/a\npkt-rate-low:\t\tn/a\n")
        print(f"rx-usecs:\t{card['rx-usecs']}\nrx-frames:\t128\nrx-usecs-irq:\tn/a\n\ntx-usecs:\t{card['tx-usecs']}")
    elif option == "-k":
        print(f"Features for {nic}:\nrx-checksumming: on\ntcp-segmentation-offload: {card['tso']}")
        print("\ttx-tcp-segmentation: on\n\ttx-tcp-ecn-segmentation: off [fixed]")
        print(f"generic-segmentation-offload: {card['gso']}\ngeneric-receive-offload: {card['gro']}")
        print("large-receive-offload: off [fixed]")
    elif option == "-a":
        print(
            f"Pause parameters for {nic}:\nAutonegotiate:\toff\nRX:\t\t{card['pause-rx']}\nTX:\t\t{card['pause-tx']}\n"
        )
    else:
        pairs = dict(zip(rest[::2], rest[1::2], strict=True))
        if option == "-G" and any(int(value) > int(card["ring_max"]) for value in pairs.values()):
            sys.exit("netlink error: requested ring size exceeds maximum\nnetlink error: Invalid argument")
        known = {"-G": "", "-C": "", "-K": "", "-A": "pause-"}[option]
        card.update({f"{known}{key}": value for key, value in pairs.items()})


def dcb(state: dict[str, object], *words: str) -> None:
    """Answer one call."""
    card = state[words[words.index("dev") + 1]]
    assert isinstance(card, dict)
    rest = words[words.index("dev") + 2 :]
    if words[:3] == ("-j", "app", "show"):
        print(json.dumps({"dscp_prio": [[int(dscp), priority, " "] for dscp, priority in card["app"].items()]}))
    elif words[:3] == ("-j", "pfc", "show"):
        print(json.dumps({"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": card["pfc"]}))
    elif words[:2] == ("app", "replace"):
        card["app"].update({dscp: int(priority) for dscp, priority in (entry.split(":") for entry in rest[1:])})
    elif words[:2] == ("pfc", "set"):
        for entry in rest[1:]:
            priority, value = entry.split(":")
            card["pfc"][int(priority)] = value == "on"


def ip(state: dict[str, object], *words: str) -> None:
    """`ip link set dev NIC mtu N`: the kernel shows it in sysfs."""
    nic, mtu = words[words.index("dev") + 1], words[words.index("mtu") + 1]
    (Path(os.environ["NIC_SYS"]) / "class/net" / nic / "mtu").write_text(f"{mtu}\n")


def main() -> None:
    """Be the program that this file is called as."""
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    state = json.loads(STATE.read_text())
    if name in state.get("broken", []):
        sys.exit(f"{name}: netlink error: Operation not supported")
    before = json.dumps(state)
    {"ethtool": ethtool, "dcb": dcb, "ip": ip}[name](state, *words)
    if name == "ip" or json.dumps(state) != before:
        with STATE.with_suffix(".changes").open("a") as log:
            log.write(f"{name} {' '.join(words)}\n")
    STATE.write_text(json.dumps(state))


if __name__ == "__main__":
    main()
