//! The file of an identity: the address of its controller, its certificate and key, and the
//! authorities that it trusts. It is the JSON that the clients of such networks write and read.
//!
//! A key, certificate or bundle is text of PEM, with or without `pem:` before it, or names a file:
//! a path, or `file:` and a path. What is written has `pem:` and the path of the client interface
//! in its address, because every client reads these forms. Members that have no meaning here are
//! kept.

use std::{fmt, io, path::Path};

use pki::{Certificate, ClientCertificate, PrivateKey, bundle_pem};
use serde_json::{Map, Value as Json, json};
use zeroize::Zeroizing;

mod error;

pub use error::IdentityFileError;

/// The path of the client interface.
const CLIENT: &str = "/edge/client/v1";
/// The most authorities that a file gets by renewals.
const AUTHORITIES: usize = 64;
/// Marks text of PEM.
const PEM: &str = "pem:";
/// Marks the path of a file.
const FILE: &str = "file:";
/// Forms that need a program of somebody else.
const FOREIGN: [&str; 4] = ["pkcs11:", "parsec:", "keychain:", "engine:"];

/// An identity as its file describes it.
#[derive(Clone)]
pub struct IdentityFile {
    /// The addresses of the client interface, the preferred one first: at least one.
    controllers: Vec<String>,
    /// `None` for an identity that logs in in another way than with a certificate.
    certificate: Option<ClientCertificate>,
    /// Empty if the file names none: those of the system are trusted then.
    authorities: Vec<Certificate>,
    /// The whole document, with the members that have no meaning here.
    document: Map<String, Json>,
}

impl IdentityFile {
    /// A new identity. `controller` is the address of a controller, with or without the path of the
    /// client interface.
    ///
    /// # Errors
    /// [`IdentityFileError::Member`] for an address that is not one of HTTPS.
    pub fn new(
        controller: &str,
        certificate: Option<ClientCertificate>,
        authorities: Vec<Certificate>,
    ) -> Result<Self, IdentityFileError> {
        let address = address(controller)
            .ok_or_else(|| IdentityFileError::of("ztAPI", "it must be an address of https"))?;
        let mut file = Self {
            controllers: vec![address.clone()],
            certificate: None,
            authorities,
            document: Map::new(),
        };
        file.document.insert("ztAPI".to_owned(), json!(address));
        file.set_certificate(certificate);
        Ok(file)
    }

    /// Reads the file of an identity.
    ///
    /// # Errors
    /// The file, or one that it names, cannot be read; it is no JSON; a member is missing or
    /// unusable.
    pub fn read(path: &Path) -> Result<Self, IdentityFileError> {
        let text = pki::secret_of(path).map_err(|error| IdentityFileError::File {
            path: path.to_owned(),
            error,
        })?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self, IdentityFileError> {
        let document: Map<String, Json> =
            serde_json::from_str(text).map_err(IdentityFileError::NoJson)?;
        let controllers = controllers_of(&document)?;
        let of_id = |name: &str, member| match document.get("id").and_then(|id| id.get(name)) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(value)) if value.trim().is_empty() => Ok(None),
            Some(Json::String(value)) => Ok(Some(value.as_str())),
            Some(_) => Err(IdentityFileError::of(member, "it must be text")),
        };
        let key = of_id("key", "id.key")?.map(|value| content("id.key", value));
        let chain = of_id("cert", "id.cert")?.map(|value| content("id.cert", value));
        let certificate = match (key.transpose()?, chain.transpose()?) {
            (Some(key), Some(chain)) => Some(certificate(&key, &chain)?),
            (None, None) => None,
            (Some(_), None) => {
                return Err(IdentityFileError::of(
                    "id.cert",
                    "it is missing beside id.key",
                ));
            }
            (None, Some(_)) => {
                return Err(IdentityFileError::of(
                    "id.key",
                    "it is missing beside id.cert",
                ));
            }
        };
        let authorities = match of_id("ca", "id.ca")? {
            Some(value) => Certificate::in_file(&content("id.ca", value)?)
                .map_err(|error| IdentityFileError::of("id.ca", error))?,
            None => Vec::new(),
        };
        Ok(Self {
            controllers,
            certificate,
            authorities,
            document,
        })
    }

    /// The addresses of the client interface, the preferred one first.
    pub fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// The certificate with which the identity logs in.
    pub fn certificate(&self) -> Option<&ClientCertificate> {
        self.certificate.as_ref()
    }

    /// The authorities below which servers are trusted; empty for those of the system.
    pub fn authorities(&self) -> &[Certificate] {
        &self.authorities
    }

    /// The fingerprint of the certificate.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        let leaf = self.certificate.as_ref().and_then(ClientCertificate::leaf);
        leaf.map(Certificate::fingerprint)
    }

    /// The text of the file, which is secret.
    ///
    /// # Errors
    /// It cannot be written as JSON, which is a defect.
    pub(crate) fn text(&self) -> io::Result<Zeroizing<String>> {
        let mut text = serde_json::to_string_pretty(&self.document)?;
        text.push('\n');
        Ok(Zeroizing::new(text))
    }

    /// The identity with a renewed certificate, whose key may be a new one, and with more
    /// authorities. What the file does not hold itself stays where it is.
    ///
    /// # Errors
    /// The key is new, and the present one is in a file of its own.
    pub(crate) fn with_renewed(
        &self,
        certificate: ClientCertificate,
        authorities: Vec<Certificate>,
    ) -> Result<Self, IdentityFileError> {
        let mut renewed = self.clone();
        let id = renewed.document.get_mut("id").and_then(Json::as_object_mut);
        let id = id.ok_or_else(|| IdentityFileError::of("id", "it is missing"))?;
        let is_same = self
            .certificate
            .as_ref()
            .is_some_and(|own| own.key().public() == certificate.key().public());
        if !is_same {
            let key = id.get("key").and_then(Json::as_str).unwrap_or_default();
            if !is_text(key) {
                return Err(IdentityFileError::of(
                    "id.key",
                    "it names a file, which a new key is not written to",
                ));
            }
            id.insert("key".to_owned(), inline(&certificate.key().to_pem()));
        }
        let chain: String = certificate.chain().iter().map(Certificate::pem).collect();
        id.insert("cert".to_owned(), inline(&chain));
        let is_inline = id.get("ca").and_then(Json::as_str).is_some_and(is_text);
        for authority in authorities {
            let is_known = renewed
                .authorities
                .iter()
                .any(|one| one.der() == authority.der());
            if is_inline && !is_known && renewed.authorities.len() < AUTHORITIES {
                renewed.authorities.push(authority);
                id.insert("ca".to_owned(), inline(&bundle_pem(&renewed.authorities)));
            }
        }
        renewed.certificate = Some(certificate);
        Ok(renewed)
    }

    fn set_certificate(&mut self, certificate: Option<ClientCertificate>) {
        let mut id = Map::new();
        if let Some(certificate) = &certificate {
            let chain: String = certificate.chain().iter().map(Certificate::pem).collect();
            id.insert("key".to_owned(), inline(&certificate.key().to_pem()));
            id.insert("cert".to_owned(), inline(&chain));
        }
        if !self.authorities.is_empty() {
            id.insert("ca".to_owned(), inline(&bundle_pem(&self.authorities)));
        }
        self.document.insert("id".to_owned(), Json::Object(id));
        self.certificate = certificate;
    }
}

/// Text of PEM, as a member of the document.
fn inline(text: &str) -> Json {
    json!(format!("{PEM}{text}"))
}

/// The key is secret.
impl fmt::Debug for IdentityFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdentityFile({:?})", self.controllers)
    }
}

/// The addresses of the client interface that a document names.
fn controllers_of(document: &Map<String, Json>) -> Result<Vec<String>, IdentityFileError> {
    let many = document.get("ztAPIs").and_then(Json::as_array);
    let one = document.get("ztAPI").into_iter();
    let mut controllers: Vec<String> = Vec::new();
    for value in one.chain(many.into_iter().flatten()) {
        let address = value
            .as_str()
            .and_then(address)
            .ok_or_else(|| IdentityFileError::of("ztAPI", "it must be an address of https"))?;
        if !controllers.contains(&address) {
            controllers.push(address);
        }
    }
    if controllers.is_empty() {
        return Err(IdentityFileError::of("ztAPI", "it is missing"));
    }
    Ok(controllers)
}

/// The address of the client interface of a controller whose address has another path or none, or
/// no scheme.
pub(crate) fn address(text: &str) -> Option<String> {
    const HTTPS: &str = "https://";
    let text = text.trim();
    let rest = match text.split_once("://") {
        None => text,
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
        Some(_) => return None,
    };
    let rest = rest.trim_end_matches('/');
    let host = rest.split('/').next().unwrap_or_default();
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_host || host.contains(['@', '?', '#']) {
        return None;
    }
    if rest == host {
        Some(format!("{HTTPS}{host}{CLIENT}"))
    } else {
        Some(format!("{HTTPS}{rest}"))
    }
}

/// Whether a member holds its PEM text itself.
fn is_text(value: &str) -> bool {
    let value = value.trim();
    value.starts_with(PEM) || value.starts_with("-----BEGIN ")
}

/// The PEM text that a member holds or names.
fn content(member: &'static str, value: &str) -> Result<Zeroizing<String>, IdentityFileError> {
    let value = value.trim();
    if let Some(text) = value.strip_prefix(PEM) {
        return Ok(Zeroizing::new(text.to_owned()));
    }
    if value.starts_with("-----BEGIN ") {
        return Ok(Zeroizing::new(value.to_owned()));
    }
    if let Some(form) = FOREIGN.iter().find(|form| value.starts_with(**form)) {
        return Err(IdentityFileError::of(
            member,
            format!("keys of {form} are not supported"),
        ));
    }
    let path = match value.strip_prefix(FILE) {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None => value,
    };
    pki::secret_of(Path::new(path))
        .map_err(|error| IdentityFileError::of(member, format!("{path}: {error}")))
}

fn certificate(key: &str, chain: &str) -> Result<ClientCertificate, IdentityFileError> {
    let key = PrivateKey::in_file(key).map_err(|error| IdentityFileError::of("id.key", error))?;
    let chain =
        Certificate::in_file(chain).map_err(|error| IdentityFileError::of("id.cert", error))?;
    ClientCertificate::new(chain, key).map_err(|error| IdentityFileError::of("id.cert", error))
}

#[cfg(test)]
mod tests;
