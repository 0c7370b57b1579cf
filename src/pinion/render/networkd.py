"""systemd.network(5): a port with the addresses that the plan gives it, and nothing that the network says of itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def network_file(
    name: str, addresses: Sequence[str], gateways: Sequence[str], mtu: int | None, *, without_carrier: bool = False
) -> str:
    """The file for the port *name*: *addresses* with their prefix lengths, one of *gateways* a family, *mtu* in bytes.

    *without_carrier*: the addresses are there at once, whether or not somebody has plugged the cable in.
    """
    lines = [
        "# From the plan.",
        "[Match]",
        f"Name={name}",
        "",
        "[Network]",
        "DHCP=no",
        "IPv6AcceptRA=no",
        "LLDP=no",
        "EmitLLDP=no",
        *(("ConfigureWithoutCarrier=yes", "IgnoreCarrierLoss=yes") if without_carrier else ()),
        *(f"Address={address}" for address in addresses),
        *(f"Gateway={gateway}" for gateway in gateways),
    ]
    if mtu is not None:
        lines += ["", "[Link]", f"MTUBytes={mtu}"]
    return "\n".join(lines) + "\n"
