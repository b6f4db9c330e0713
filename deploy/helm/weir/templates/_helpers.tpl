{{/* Names, labels, and what becomes weir.toml. */}}

{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Room is left for "-headless" behind it. */}}
{{- define "weir.fullname" -}}
{{- $name := include "weir.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "weir.configMapName" -}}
{{- default (include "weir.fullname" .) .Values.config.configMap }}
{{- end }}

{{/* What no schema can say. Each message is one line: helm shows no more of it. */}}
{{- define "weir.check" -}}
{{- $config := .Values.config }}
{{- if not .Values.image.repository }}
{{- fail "image.repository is empty, and no image of Weir is published: build one whose entry point is weir (README.md of the chart), push it to a registry that the cluster reads, and set image.repository to its name" }}
{{- end }}
{{- $places := list }}
{{- if or $config.pools $config.routes $config.default }}{{ $places = append $places "config.pools, config.routes or config.default" }}{{ end }}
{{- if $config.file }}{{ $places = append $places "config.file" }}{{ end }}
{{- if $config.configMap }}{{ $places = append $places "config.configMap" }}{{ end }}
{{- if gt (len $places) 1 }}
{{- fail (printf "%s are set, and only one of them becomes weir.toml: remove the others" (join " and " $places)) }}
{{- end }}
{{- if not (or $config.pools $config.file $config.configMap) }}
{{- fail "there is no memcached server: set config.pools.main.servers to a list such as [\"memcached-0.memcached:11211\"], or a whole weir.toml in config.file, or the name of a ConfigMap in config.configMap" }}
{{- end }}
{{- if and (eq .Values.kind "Deployment") .Values.clients.hostPort }}
{{- fail "clients.hostPort is set, and kind is Deployment: two of its pods cannot have one port of a node; set kind to DaemonSet, or clients.hostPort to 0" }}
{{- end }}
{{- $none := list "0" "0%" }}
{{- if and (has (toString .Values.rollout.maxSurge) $none) (has (toString .Values.rollout.maxUnavailable) $none) }}
{{- fail "rollout.maxSurge and rollout.maxUnavailable are both 0, so no pod could ever be replaced: set one of them to 1" }}
{{- end }}
{{- end }}

{{/*
weir.toml of the values. What JSON writes of a text, a number, a truth value or a list of texts, TOML reads alike.
*/}}
{{- define "weir.toml" -}}
{{- if .Values.config.file -}}
{{ .Values.config.file | trim }}
{{- else -}}
{{- with .Values.config.default -}}
default = {{ toRawJson . }}

{{ end -}}
[proxy]
{{- range $name, $value := .Values.config.proxy }}
{{ $name }} = {{ toRawJson $value }}
{{- end }}
{{- range $pool, $settings := .Values.config.pools }}

[pools.{{ include "weir.tomlKey" $pool }}]
servers = [
{{- range $settings.servers }}
  {{ toRawJson . }},
{{- end }}
]
{{- range $name, $value := omit $settings "servers" }}
{{ $name }} = {{ toRawJson $value }}
{{- end }}
{{- end }}
{{- with .Values.config.routes }}

[routes]
{{- range $prefix, $pool := . }}
{{ toRawJson $prefix }} = {{ toRawJson $pool }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "weir.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end }}
{{- end }}
