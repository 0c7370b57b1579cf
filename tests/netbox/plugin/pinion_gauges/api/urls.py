"""Where the lists are."""

from django.urls import path
from netbox.api.routers import NetBoxRouter

from . import views

app_name = "pinion_gauges"

router = NetBoxRouter()
router.register("gauges", views.GaugeViewSet)
router.register("readings", views.ReadingViewSet)
urlpatterns = [path("relations/", views.RelationsView.as_view()), *router.urls]
