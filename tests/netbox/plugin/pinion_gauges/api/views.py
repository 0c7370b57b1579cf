"""The lists, and what Django's models say of NetBox's own kinds."""

from django.apps import apps
from django.contrib.contenttypes.fields import GenericRelation
from netbox.api.viewsets import NetBoxModelViewSet
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ..filtersets import GaugeFilterSet, ReadingFilterSet
from ..models import Gauge, Reading
from .serializers import GaugeSerializer, ReadingSerializer


class GaugeViewSet(NetBoxModelViewSet):
    queryset = Gauge.objects.all()
    serializer_class = GaugeSerializer
    filterset_class = GaugeFilterSet


class ReadingViewSet(NetBoxModelViewSet):
    queryset = Reading.objects.all()
    serializer_class = ReadingSerializer
    filterset_class = ReadingFilterSet


class RelationsView(APIView):
    """For the tests: which record of `model` names one of `of` in which field, and what its deletion does to it, as Django will do it."""

    permission_classes = (IsAuthenticated,)
    schema = None

    def get(self, request: Request) -> Response:
        found = []
        for label in request.query_params.getlist("of"):
            for one in apps.get_model(label)._meta.get_fields(include_hidden=True):
                if isinstance(one, GenericRelation):
                    stem = one.object_id_field_name.removesuffix("_id")
                    found.append((label, one.related_model._meta.label_lower, stem, "CASCADE"))
                elif getattr(one.related_model, "_meta", None) and one.related_model._meta.auto_created:
                    continue  # the rows of a many-to-many field
                elif one.auto_created and not one.concrete and (one.one_to_many or one.one_to_one) and one.on_delete:
                    found.append((label, one.related_model._meta.label_lower, one.field.name, one.on_delete.__name__))
        return Response(found)
