//! What the gateway presents to an upstream.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::SecretKeyRef;
use crate::upstream::CaRef;

/// What the gateway presents to an upstream: the member of its type, and no other.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.bearer) == (self.type == 'Bearer') && has(self.header) == (self.type == 'Header') && has(self.oauth) == (self.type == 'OAuth')")
    .message("exactly the member of the type must be set: bearer for Bearer, header for Header, oauth for OAuth"))]
pub struct Credential {
    /// Bearer, Header or OAuth.
    #[serde(rename = "type")]
    pub type_: CredentialType,
    /// A token, sent as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<BearerCredential>,
    /// A value, sent in a header of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderCredential>,
    /// OAuth 2.0 client credentials (RFC 6749, section 4.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthCredential>,
}

/// Kind of a credential.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialType {
    Bearer,
    Header,
    OAuth,
}

/// A bearer token.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BearerCredential {
    /// Where the token is.
    pub secret_ref: SecretKeyRef,
}

/// A header with a secret value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeaderCredential {
    /// Name of the header.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub name: String,
    /// Where the value is.
    pub secret_ref: SecretKeyRef,
}

/// OAuth 2.0 client credentials.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OAuthCredential {
    /// Token endpoint, https only: the client secret travels there.
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^https://[^\s/?#@]+([/?][^\s#]*)?$")
    )]
    pub token_url: String,
    /// Client identifier.
    #[schemars(length(min = 1, max = 256))]
    pub client_id: String,
    /// Where the client secret is.
    pub secret_ref: SecretKeyRef,
    /// Scopes to ask for. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scopes: Option<Vec<String>>,
    /// Audience to ask for (RFC 8707). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub audience: Option<String>,
    /// Certificates to trust at the token endpoint instead of the public roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaRef>,
}
