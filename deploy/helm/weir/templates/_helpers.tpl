{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "weir.host" -}}
{{- .Values.advertisedHost | default (printf "%s.%s.svc" (include "weir.name" .) .Release.Namespace) -}}
{{- end -}}

{{/* The protocol of the listener for clients; settingsSecret may name another one. */}}
{{- define "weir.protocol" -}}
{{- ternary "SSL" "PLAINTEXT" (ne .Values.tls.secret "") -}}
{{- end -}}

{{/* The port that clients connect to. */}}
{{- define "weir.port" -}}
{{- ternary .Values.tlsRoute.port 9092 .Values.tlsRoute.enabled -}}
{{- end -}}

{{- define "weir.consoleScheme" -}}
{{- ternary "HTTPS" "HTTP" (hasKey .Values.settings "console.ssl.keystore.location") -}}
{{- end -}}

{{/* Whether gateways share their rules, and need a key. */}}
{{- define "weir.shares" -}}
{{- $scope := get .Values.settings "quota.scope" -}}
{{- if and (eq .Values.mode "gateway") (or (eq $scope "cluster") (and (not $scope) (gt (int .Values.replicas) 1))) -}}
{{- if ne (get .Values.settings "gateway.cluster.protection") "acl" -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.clusterKey" -}}
{{- .Values.clusterKeySecret | default (printf "%s-cluster-key" (include "weir.name" .)) -}}
{{- end -}}

{{/* Seconds that a pod has to stop. */}}
{{- define "weir.grace" -}}
{{- $drain := int (get .Values.settings "gateway.drain.timeout.ms" | default 60000) -}}
{{- ternary (add 120 (div (add $drain 999) 1000)) 120 (eq .Values.mode "gateway") -}}
{{- end -}}
