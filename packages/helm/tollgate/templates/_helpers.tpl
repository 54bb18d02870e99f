{{- /* At most 54 characters, so that NAME-headless is the name of a service, too. */ -}}
{{- define "tollgate.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tollgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "tollgate.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* Whether there can be several instances at a time, not counting those of a rollout. */ -}}
{{- define "tollgate.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}yes{{ end -}}
{{- end -}}

{{- /* The config maps of policies and of Envoy's rules; empty where there are none. */ -}}
{{- define "tollgate.policies" -}}
{{- .Values.policiesConfigMap | default (ternary (include "tollgate.name" .) "" (not (empty .Values.policies))) -}}
{{- end -}}

{{- define "tollgate.rules" -}}
{{- $own := printf "%s-envoy" (include "tollgate.name" .) -}}
{{- .Values.envoy.configMap | default (ternary $own "" (not (empty .Values.envoy.rules))) -}}
{{- end -}}

{{- /* A probe of the given root, path and option of `tollgate health`. The kubelet trusts every
certificate and has none, so where clients need one a command asks on loopback. */ -}}
{{- define "tollgate.probe" -}}
{{- if .root.Values.tls.clientAuthority -}}
exec:
  command:
    - /usr/bin/tollgate
    - health
    - 127.0.0.1:{{ int .root.Values.admin.port }}
    {{- with .option }}
    - {{ . }}
    {{- end }}
timeoutSeconds: 3
{{- else if .root.Values.tls.secret -}}
httpGet: { path: {{ .path }}, port: http, scheme: HTTPS }
{{- else -}}
httpGet: { path: {{ .path }}, port: http }
{{- end -}}
{{- end -}}

{{- /* What no instance could serve, said before it is applied. */ -}}
{{- define "tollgate.refusals" -}}
{{- $v := .Values -}}
{{- if and (not $v.store.secret) (gt (int $v.replicas) 1) -}}
{{- fail "replicas is above 1 and store.secret is empty: each instance would admit the whole limit. Name the secret with the URL of your Redis, or set replicas=1" -}}
{{- end -}}
{{- if $v.autoscaling.enabled -}}
{{- if not $v.store.secret -}}
{{- fail "autoscaling.enabled is true and store.secret is empty: each instance would admit the whole limit. Name the secret with the URL of your Redis" -}}
{{- end -}}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- if not (dig "requests" "cpu" "" $v.resources) -}}
{{- fail "autoscaling.enabled is true and resources.requests.cpu is empty: autoscaling.targetCPU is a part of it" -}}
{{- end -}}
{{- end -}}
{{- if not (or (include "tollgate.policies" .) (include "tollgate.rules" .) $v.envoy.xds) -}}
{{- fail "policies is empty, and so are policiesConfigMap, envoy.rules, envoy.configMap and envoy.xds: without any of them every request would meet a demo policy" -}}
{{- end -}}
{{- if and (or $v.envoy.rules $v.envoy.configMap $v.envoy.xds $v.envoy.metrics) (not $v.grpc.enabled) -}}
{{- fail "envoy has rules, a configMap, xds or metrics, and grpc.enabled is false: nobody could ask by them. Set grpc.enabled=true" -}}
{{- end -}}
{{- if and $v.envoy.rules $v.envoy.configMap -}}
{{- fail "envoy.rules and envoy.configMap are both there: choose one of them" -}}
{{- end -}}
{{- if and $v.envoy.xds (or $v.envoy.rules $v.envoy.configMap) -}}
{{- fail "envoy.xds is there beside envoy.rules or envoy.configMap: choose one of them" -}}
{{- end -}}
{{- if and $v.envoy.metrics (not (or $v.envoy.rules $v.envoy.configMap $v.envoy.xds)) -}}
{{- fail "envoy.metrics is true without rules: set envoy.rules, envoy.configMap or envoy.xds" -}}
{{- end -}}
{{- if and $v.resp.enabled (not $v.resp.secret) -}}
{{- fail "resp.enabled is true and resp.secret is empty: name the secret with the passwords of clients" -}}
{{- end -}}
{{- if and $v.resp.enabled (not (or $v.resp.passwordKey $v.resp.usersKey)) -}}
{{- fail "resp.enabled is true, and resp.passwordKey and resp.usersKey are empty: name a key of resp.secret in one of them" -}}
{{- end -}}
{{- if and $v.tls.clientAuthority (not $v.tls.secret) -}}
{{- fail "tls.clientAuthority is there and tls.secret is empty: name the secret with the service's own certificate" -}}
{{- end -}}
{{- if and $v.tls.clientAuthority $v.admin.enabled -}}
{{- fail "tls.clientAuthority and admin.enabled are both there: the administrators' listener would want a certificate of probes, too. Leave it on loopback, and use kubectl port-forward" -}}
{{- end -}}
{{- if and $v.tls.secret $v.metrics.podMonitor.enabled (not $v.metrics.podMonitor.tlsConfig) -}}
{{- fail "metrics.podMonitor.tlsConfig is empty, and tls.secret is not: say how Prometheus checks the certificate, such as {insecureSkipVerify: true}" -}}
{{- end -}}
{{- if and $v.admin.enabled (not $v.admin.secret) -}}
{{- fail "admin.enabled is true and admin.secret is empty: name the secret whose key admin-token has TOLLGATE_ADMIN_TOKEN" -}}
{{- end -}}
{{- if has (int $v.admin.port) (list 8700 8081 6380) -}}
{{- fail (printf "admin.port is %d, where clients are served: choose another" (int $v.admin.port)) -}}
{{- end -}}
{{- $ports := list (int $v.service.port) -}}
{{- if $v.grpc.enabled }}{{ $ports = append $ports (int $v.grpc.port) }}{{ end -}}
{{- if $v.resp.enabled }}{{ $ports = append $ports (int $v.resp.port) }}{{ end -}}
{{- if ne (len $ports) (len (uniq $ports)) -}}
{{- fail "service.port, grpc.port and resp.port are of one service: give each another number" -}}
{{- end -}}
{{- end -}}
