{{- define "gpuctl.labels" -}}
app.kubernetes.io/part-of: gpuctl
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gpuctl.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* "true" if a pod of its own collects usage; empty otherwise. */}}
{{- define "gpuctl.collector" -}}
{{- if and .Values.usage.enabled (not .Values.usage.withService) }}true{{ end }}
{{- end }}

{{/* "true" if the service collects usage; empty otherwise. */}}
{{- define "gpuctl.serviceCollects" -}}
{{- if and .Values.usage.enabled .Values.usage.withService }}true{{ end }}
{{- end }}

{{- define "gpuctl.replicas" -}}
{{- if include "gpuctl.serviceCollects" . }}1{{ else }}{{ .Values.service.replicas }}{{ end }}
{{- end }}

{{/* The settings of the database of usage and of what is collected. */}}
{{- define "gpuctl.usageSettings" -}}
{{- if not .Values.usage.databaseSecret }}
usage_database: /var/lib/gpuctl/usage.db
{{- end }}
usage_cluster: {{ .Values.usage.cluster | quote }}
usage_scrape_interval: {{ .Values.usage.scrapeInterval }}
{{- end }}

{{/* The database of usage for a container. */}}
{{- define "gpuctl.databaseVariable" -}}
env:
  # The environment takes precedence over the file.
  - name: GPUCTL_SERVER_USAGE_DATABASE
    valueFrom:
      secretKeyRef: {name: {{ .Values.usage.databaseSecret | quote }}, key: url}
{{- end }}

{{/* Reject values that are valid one by one, but not together. */}}
{{- define "gpuctl.check" -}}
{{- if ne .Release.Namespace "gpuctl-system" }}
{{- fail "pool definitions are in the namespace gpuctl-system, so the chart must be too: add `--namespace gpuctl-system --create-namespace`" }}
{{- end }}
{{- if and (include "gpuctl.serviceCollects" .) (not .Values.service.enabled) }}
{{- fail "usage.withService needs service.enabled" }}
{{- end }}
{{- if and (include "gpuctl.serviceCollects" .) .Values.usage.databaseSecret }}
{{- fail "usage.withService collects into a file on a volume: leave usage.databaseSecret out, or set usage.withService to false" }}
{{- end }}
{{- if and .Values.usage.enabled (not .Values.prometheus) }}
{{- fail "usage.enabled needs prometheus, the URL of Prometheus with the metrics of the GPUs" }}
{{- end }}
{{- if and .Values.service.ingress.enabled (not (and .Values.service.ingress.host .Values.service.ingress.tlsSecret)) }}
{{- fail "service.ingress.enabled needs service.ingress.host and service.ingress.tlsSecret" }}
{{- end }}
{{- end }}
