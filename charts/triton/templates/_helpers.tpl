{{/* Labels that select the pods of this release: never change, the Deployment's selector is immutable. */}}
{{- define "triton.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "triton.labels" -}}
{{ include "triton.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Named by its content: pods of the revision before keep theirs, should one of them start again. */}}
{{- define "triton.model" -}}
{{ .Release.Name }}-{{ toJson .Values.model | sha256sum | trunc 8 }}
{{- end }}

{{/* What Pod Security's level "restricted" asks of a container, and a read-only root besides. */}}
{{- define "triton.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "triton.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}
