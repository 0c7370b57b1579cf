"""How the lists are asked: by the fields of the models, as Django names them."""

from netbox.filtersets import NetBoxModelFilterSet

from .models import Gauge, Reading


class GaugeFilterSet(NetBoxModelFilterSet):
    """`device` takes ids."""

    class Meta:
        model = Gauge
        fields = ("id", "name", "device")


class ReadingFilterSet(NetBoxModelFilterSet):
    """There is no filter for what is measured: whoever wants to know reads all."""

    class Meta:
        model = Reading
        fields = ("id", "name")
