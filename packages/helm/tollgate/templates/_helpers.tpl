{{- define "tollgate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 57 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 57 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* What no instance could serve, said before it is applied. */ -}}
{{- define "tollgate.refusals" -}}
{{- if and (not .Values.store.secret) (gt (int .Values.replicas) 1) -}}
{{- fail "replicas is above 1 and store.secret is empty: each instance would admit the whole limit. Name the secret with the URL of your Redis, or set replicas=1" -}}
{{- end -}}
{{- if and .Values.admin.enabled (not .Values.admin.secret) -}}
{{- fail "admin.enabled is true and admin.secret is empty: name the secret whose key admin-token has TOLLGATE_ADMIN_TOKEN" -}}
{{- end -}}
{{- if and .Values.admin.enabled (eq (int .Values.admin.port) 8700) -}}
{{- fail "admin.port is 8700, where clients are served: choose another" -}}
{{- end -}}
{{- end -}}
