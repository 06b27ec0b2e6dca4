//! Public information about the controller.

use std::collections::BTreeMap;

use model::{entity::VersionInfo, error::Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    answer::{Answer, Data, Reply},
    call::Call,
    header::Header,
    openapi::operation::{AnswerShape, Operation, Schemas},
};

/// The interfaces and their base paths.
const INTERFACES: [(&str, &str); 5] = [
    ("edge", "/edge/client/v1"),
    ("edge-client", "/edge/client/v1"),
    ("edge-management", "/edge/management/v1"),
    ("fabric", "/fabric/v1"),
    // OpenZiti clients look up only the names that they know and ignore this name.
    (OWN, "/overkeep/v1"),
];
/// The interface that only this controller has.
const OWN: &str = "overkeep";

/// Version and interfaces of this controller.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionDetail {
    /// By interface and its version.
    api_versions: BTreeMap<&'static str, BTreeMap<&'static str, ApiVersion>>,
    build_date: &'static str,
    /// Names of active capabilities.
    capabilities: Vec<&'static str>,
    revision: &'static str,
    runtime_version: &'static str,
    /// The version that clients compare with versions of OpenZiti. That of Overkeep is the version
    /// of its own interface in `apiVersions`.
    version: &'static str,
}

/// The location of an interface.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApiVersion {
    api_base_urls: Vec<String>,
    path: &'static str,
    /// Of the interface `overkeep`: the version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}

/// GET /version
pub(crate) async fn version(call: Call) -> Result<Data<VersionDetail>> {
    let interface = |name: &str, path: &'static str| {
        let api_base_urls = call
            .state
            .instance
            .addresses
            .iter()
            .map(|address| format!("https://{address}{path}"))
            .collect();
        let version = (name == OWN).then_some(env!("CARGO_PKG_VERSION"));
        BTreeMap::from([(
            "v1",
            ApiVersion {
                api_base_urls,
                path,
                version,
            },
        )])
    };
    Ok(Data(VersionDetail {
        api_versions: INTERFACES
            .into_iter()
            .map(|(name, path)| (name, interface(name, path)))
            .collect(),
        build_date: call.state.instance.build.date,
        capabilities: Vec::new(),
        revision: call.state.instance.build.revision,
        runtime_version: concat!("rust ", env!("CARGO_PKG_RUST_VERSION")),
        version: VersionInfo::COMPARED,
    }))
}

/// The capabilities that a controller of this version line can have.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Capability {
    OidcAuth,
    HaController,
}

/// GET /enumerated-capabilities
pub(crate) async fn capabilities(_: Call) -> Result<Data<Vec<Capability>>> {
    Ok(Data(vec![Capability::OidcAuth, Capability::HaController]))
}

/// The address of a protocol.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Protocol {
    /// `host:port`
    address: String,
}

/// GET /protocols
pub(crate) async fn protocols(call: Call) -> Result<Data<BTreeMap<&'static str, Protocol>>> {
    Ok(Data(BTreeMap::from([(
        "https",
        Protocol {
            address: call.state.instance.address.clone(),
        },
    )])))
}

/// The certificate authorities, base64 of a PKCS#7 structure (RFC 7030 section 4.1.3).
pub(crate) struct CaStore(String);

impl Answer for CaStore {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = serde_json::json!({ "type": "string" });
        let content = vec![("application/pkcs7-mime", Some(text))];
        operation.answer = Some(AnswerShape {
            status: 200,
            content,
            headers: &[Header::TransferEncoding],
        });
        operation.any_accept = true;
    }
    fn reply(self) -> Result<Reply> {
        let headers = vec![(Header::TransferEncoding.name(), "base64".to_owned())];
        Ok(Reply {
            status: 200,
            media: "application/pkcs7-mime",
            body: self.0.into_bytes().into(),
            headers,
        })
    }
}

/// GET /.well-known/est/cacerts
pub(crate) async fn ca_store(call: Call) -> Result<CaStore> {
    Ok(CaStore(
        call.state.keystore.bundle_pkcs7(call.now.seconds()),
    ))
}
