{{- define "noetl.labels" -}}
app.kubernetes.io/name: noetl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Selects pods: (dict "root" . "component" "server") */ -}}
{{- define "noetl.selector" -}}
app.kubernetes.io/name: noetl
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "noetl.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The name of a pool in environment variables. */ -}}
{{- define "noetl.variable" -}}
{{ . | upper | replace "-" "_" }}
{{- end }}

{{- define "noetl.nats" -}}
{{- if .Values.nats.enabled -}}
{{ .Release.Name }}-nats:4222
{{- else -}}
{{ required "nats.url is required if nats.enabled is false" .Values.nats.url }}
{{- end -}}
{{- end }}

{{- /* The users of NATS; a pool without a user is an error at the installation, not at the first connection. */ -}}
{{- define "noetl.natsUsers" -}}
{{- $users := .Values.nats.users | default (.Files.Get "files/nats-users.conf") -}}
{{- range $pool, $_ := .Values.pools -}}
{{- if not (contains (printf "\"pool-%s\"" $pool) $users) -}}
{{- fail (printf "nats.users has no user for the pool %s: run `noetl nats-users %s > users.conf`, and add --set-file nats.users=users.conf" $pool (keys $.Values.pools | sortAlpha | join " ")) -}}
{{- end -}}
{{- end -}}
{{ $users }}
{{- end }}

{{- /* A variable from the secret: (dict "root" . "name" "NOETL_KEY") */ -}}
{{- define "noetl.fromSecret" -}}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .root.Values.secret }}, key: {{ .name }}}}
{{- end }}

{{- define "noetl.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "noetl.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "noetl.scratch" -}}
volumes:
  - {name: tmp, emptyDir: {}}
  - {name: home, emptyDir: {}}
{{- end }}

{{- define "noetl.mounts" -}}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: home, mountPath: /var/lib/noetl}
{{- end }}
