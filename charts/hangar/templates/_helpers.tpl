{{- /* Labels of every object; takes {root, component}. */ -}}
{{- define "hangar.labels" -}}
{{ include "hangar.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Labels that never change: selectors and claims cannot be edited. By name and component the operator
knows a gateway pod. */ -}}
{{- define "hangar.selector" -}}
app.kubernetes.io/name: hangar
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* An image; takes {root, image}. */ -}}
{{- define "hangar.image" -}}
{{- $missing := "image.registry is not set: say where the images are, as --set image.registry=registry.example.com" -}}
{{- $registry := required $missing .root.Values.image.registry | trimSuffix "/" -}}
{{- $name := printf "%s/%s" $registry .image.repository -}}
{{- if .image.digest -}}
{{ printf "%s@%s" $name .image.digest }}
{{- else -}}
{{ printf "%s:%s" $name (.root.Values.image.tag | default .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- /* Where a pod may run; takes the values of its component. */ -}}
{{- define "hangar.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Both pods meet the `restricted` Pod Security Standard. */ -}}
{{- define "hangar.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "hangar.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Namespaces whose TenantPolicy objects count, as JSON. */ -}}
{{- define "hangar.tenantNamespaces" -}}
{{ .Values.tenants.namespaces | default (list .Release.Namespace) | toJson }}
{{- end }}

{{- /* What the schema cannot see. */ -}}
{{- define "hangar.check" -}}
{{- if and .Values.crds.check (not (.Capabilities.APIVersions.Has "hangar.dev/v1alpha1")) }}
{{- fail (printf "\n\nThe cluster does not serve hangar.dev/v1alpha1. Install the custom resources first:\n\n  helm upgrade --install hangar-crds charts/hangar-crds --namespace %s --create-namespace\n\nWithout a cluster (helm template) give --api-versions hangar.dev/v1alpha1, or set crds.check=false.\n" .Release.Namespace) }}
{{- end }}
{{- with .Values.watch.namespaces }}
{{- $watched := . }}
{{- range include "hangar.tenantNamespaces" $ | fromJsonArray }}
{{- if not (has . $watched) }}
{{- fail (printf "\n\nTenantPolicy objects of namespace %s count (tenants.namespaces, by default the release's own) and would never be read: add it to watch.namespaces.\n" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
