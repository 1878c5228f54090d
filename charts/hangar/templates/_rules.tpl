{{- /* What the operator may do. These are the rules of operator/rbac.yaml, line by line: a test compares
them. Here they are in parts, because a Role in each watched namespace can take the place of the first. */ -}}

{{- define "hangar.rules.objects" -}}
# The objects, and their status.
- apiGroups: [hangar.dev]
  resources: [mcpupstreams, tenantpolicies]
  verbs: [list, watch]
- apiGroups: [hangar.dev]
  resources: [mcpupstreams/status, tenantpolicies/status]
  verbs: [patch]
# Secrets are asked for by the label hangar.dev/use only; a rule cannot say so.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
{{- end }}

{{- define "hangar.rules.tokens" -}}
# Whose token a gateway shows.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}

{{- define "hangar.rules.own" -}}
# Which gateway pods there are.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# The serving key is made once, and taken over from an earlier installation; the CA is published; the epoch is counted.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [hangar-operator-tls]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [hangar-operator-ca]
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [hangar-operator-state]
  verbs: [get, update]
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [create]
{{- end }}
