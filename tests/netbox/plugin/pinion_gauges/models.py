"""A gauge is on a device; a reading is of any object."""

from django.contrib.contenttypes.fields import GenericForeignKey
from django.db import models
from netbox.models import NetBoxModel


class Gauge(NetBoxModel):
    """Goes with its device."""

    name = models.CharField(max_length=100)
    device = models.ForeignKey("dcim.Device", on_delete=models.CASCADE, related_name="+")

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        """There is no page: the address of the API says where it is."""
        return f"/api/plugins/gauges/gauges/{self.pk}/"


class Reading(NetBoxModel):
    """Names what it is of by type and id."""

    name = models.CharField(max_length=100)
    measured_type = models.ForeignKey("contenttypes.ContentType", on_delete=models.PROTECT, related_name="+")
    measured_id = models.PositiveBigIntegerField()
    measured = GenericForeignKey("measured_type", "measured_id")

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        """As of a gauge."""
        return f"/api/plugins/gauges/readings/{self.pk}/"
