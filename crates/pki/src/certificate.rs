//! Certificates (X.509, RFC 5280), parsed once: the properties that callers need are read when the
//! bytes come in.

use super::signature::Signed;
use super::{AlternativeNames, Error, Name, PublicKey, Result, pem};
use data_encoding::HEXLOWER;
use ring::digest;
use rustls::pki_types::{CertificateDer, ServerName};
use std::fmt;
use webpki::EndEntityCert;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ParsedExtension, X509Extension};
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_CERTIFICATE_POLICIES,
    OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE, OID_X509_EXT_NAME_CONSTRAINTS, Oid,
};
use x509_parser::prelude::{FromDer, X509Version};

const LABEL: &str = "CERTIFICATE";

/// Extensions that restrict the use of a certificate. One that cannot be read must not count as
/// absent.
const RESTRICTING: [Oid<'static>; 4] = [
    OID_X509_EXT_BASIC_CONSTRAINTS,
    OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS,
];

/// A certificate. `Debug` and `Display` print only its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    subject: Name,
    issuer: Name,
    public_key: PublicKey,
    names: AlternativeNames,
    not_before: i64,
    not_after: i64,
    authority: Option<PathLength>,
    signs: bool,
    for_clients: bool,
    judged: Judged,
}

/// The number of authorities allowed between this one and a leaf; `None` without a limit.
type PathLength = Option<u32>;

/// Which verifier can judge the certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// Version 3 without unusual extensions: webpki and our own path agree on it.
    Plainly,
    /// Version 3 with critical policies: RFC 5280 section 6.1 allows to accept it if no policy is
    /// required, but webpki does not.
    WithPolicies,
    /// A version before 3, which has no extensions and which webpki rejects.
    Old,
    /// It has name constraints, which webpki applies and our own path does not.
    Constrained,
    /// It has a critical extension that is not processed here, so that nothing below it may be
    /// accepted (RFC 5280 section 4.2), or a relevant extension that cannot be read.
    Strictly,
}

impl Certificate {
    /// Reads one certificate.
    ///
    /// # Errors
    /// [`Error::BadDer`], also for trailing bytes.
    pub fn from_der(der: &[u8]) -> Result<Self> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| Error::BadDer)?;
        // RFC 5280 section 4.1.1.2: the algorithm appears twice and must be the same.
        if !rest.is_empty() || parsed.tbs_certificate.signature != parsed.signature_algorithm {
            return Err(Error::BadDer);
        }
        let names = parsed.subject_alternative_name().ok().flatten();
        Ok(Self {
            subject: Name::from_der(parsed.subject().as_raw()),
            issuer: Name::from_der(parsed.issuer().as_raw()),
            public_key: PublicKey::from_der(parsed.public_key().raw),
            names: names
                .map(|names| AlternativeNames::read(&names.value.general_names))
                .unwrap_or_default(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            authority: authority(&parsed),
            signs: signs(&parsed),
            for_clients: for_clients(&parsed),
            judged: judge(&parsed),
            der: CertificateDer::from(der.to_vec()),
        })
    }

    /// Reads one or more PEM blocks. Text before the first is skipped; only white space may be
    /// between and after them.
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::Trailing`], [`Error::WrongBlock`] if one is no certificate,
    /// [`Error::BadDer`].
    pub fn bundle(text: &str) -> Result<Vec<Self>> {
        pem::all(text)?.iter().map(Self::from_block).collect()
    }

    /// Reads the certificates in the text of an operator's file, at least one. A private key and
    /// any text may be around them (RFC 7468 section 2).
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::WrongBlock`] if no block is a certificate, [`Error::BadDer`].
    pub fn in_file(text: &str) -> Result<Vec<Self>> {
        let mut blocks = pem::in_file(text)?;
        blocks.retain(|block| block.tag() == LABEL);
        if blocks.is_empty() {
            Err(Error::WrongBlock)
        } else {
            blocks.iter().map(Self::from_block).collect()
        }
    }

    /// Reads the first PEM block and ignores the text around it.
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::WrongBlock`], [`Error::BadDer`].
    pub fn first(text: &str) -> Result<Self> {
        Self::from_block(&pem::first(text)?.0)
    }

    /// Reads exactly one PEM block, as [`bundle`](Self::bundle) does.
    ///
    /// # Errors
    /// As for [`bundle`](Self::bundle); [`Error::Trailing`] also for a second block.
    pub fn only(text: &str) -> Result<Self> {
        Self::from_block(&pem::only(text)?)
    }

    fn from_block(block: &::pem::Pem) -> Result<Self> {
        if block.tag() == LABEL {
            Self::from_der(block.contents())
        } else {
            Err(Error::WrongBlock)
        }
    }

    /// The DER of the certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// One PEM block; every line ends with a line feed.
    pub fn pem(&self) -> String {
        pem::write(LABEL, &self.der)
    }

    /// SHA-1 of the DER in lower case hexadecimal, 40 characters. Routers and clients use it as a
    /// name; it proves nothing.
    pub fn fingerprint(&self) -> String {
        hash(&self.der)
    }

    /// SHA-256 of the DER as browsers and openssl show it: pairs of hexadecimal digits in upper
    /// case, with colons.
    pub fn browser_fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.der);
        digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<Vec<_>>()
            .join(":")
    }

    /// Whether this is the fingerprint of the first certificate in a text. The certificate is not
    /// parsed.
    pub fn is_known_by(fingerprint: &str, pem: &str) -> bool {
        pem::first(pem)
            .is_ok_and(|(block, _)| block.tag() == LABEL && hash(block.contents()) == fingerprint)
    }

    /// The subject.
    pub fn subject(&self) -> &Name {
        &self.subject
    }

    /// The name of the issuer.
    pub fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// The public key of the subject.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The alternative names.
    pub fn names(&self) -> &AlternativeNames {
        &self.names
    }

    /// The first second of its validity, in unix time.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// The last second of its validity, in unix time.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Whether it is valid for a server with this name or address.
    pub fn is_for(&self, host: &str) -> bool {
        let leaf = EndEntityCert::try_from(&self.der);
        let name = ServerName::try_from(host);
        leaf.is_ok_and(|leaf| {
            name.is_ok_and(|name| leaf.verify_is_valid_for_subject_name(&name).is_ok())
        })
    }

    /// Whether `now` (unix seconds) is within its validity.
    pub fn valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Whether its basic constraints say that it is a certificate authority. Certificates of
    /// version 1 never are.
    pub fn is_ca(&self) -> bool {
        self.authority.is_some()
    }

    /// Whether it names itself as its issuer.
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Whether the issuer's name matches and the signature verifies with its key. Dates, flags and
    /// trust are not checked.
    pub fn is_signed_by(&self, issuer: &Self) -> bool {
        self.check_signature(issuer).is_ok()
    }

    /// As [`is_signed_by`](Self::is_signed_by), with the reason.
    ///
    /// # Errors
    /// [`Error::OtherIssuer`], [`Error::BadSignature`]; [`Error::Unsupported`] names a kind of key
    /// or an algorithm; [`Error::BadDer`].
    pub(super) fn check_signature(&self, issuer: &Self) -> Result<()> {
        if self.issuer != issuer.subject {
            return Err(Error::OtherIssuer);
        }
        Signed::read(&self.der)?.verify(&issuer.public_key)
    }

    /// Whether its key may sign certificates. It needs `cA` in its basic constraints, and
    /// `keyCertSign` if it has a key usage extension.
    pub(super) fn may_sign(&self) -> bool {
        self.is_ca() && self.signs
    }

    /// Whether its own extensions allow it in our own path above `below` other authorities.
    pub(super) fn may_sign_above(&self, below: u32) -> bool {
        self.is_understood() && self.may_anchor(below)
    }

    /// Whether its extended key usage allows TLS clients. Without the extension every use is
    /// allowed.
    pub(super) fn is_for_clients(&self) -> bool {
        self.for_clients
    }

    /// Whether our own path understands all of its extensions.
    fn is_understood(&self) -> bool {
        matches!(self.judged, Judged::Plainly | Judged::WithPolicies)
    }

    /// Whether webpki accepts it as a leaf, apart from its dates.
    pub(super) fn suits_webpki(&self) -> bool {
        matches!(
            self.judged,
            Judged::Plainly | Judged::Constrained | Judged::Strictly
        ) && !self.is_ca()
    }

    /// Whether webpki rejects it because of its policies.
    pub(super) fn has_policies(&self) -> bool {
        self.judged == Judged::WithPolicies
    }

    /// Whether it may be in a path of webpki above `below` other authorities. webpki applies name
    /// constraints, but checks no key usage; of an anchor it checks only name, key and name
    /// constraints.
    pub(super) fn may_anchor(&self, below: u32) -> bool {
        let understood = !matches!(self.judged, Judged::Old | Judged::Strictly);
        understood
            && self.may_sign()
            && self
                .authority
                .is_some_and(|limit| limit.is_none_or(|limit| below <= limit))
    }

    /// Whether it has name constraints and is otherwise understood.
    pub(super) fn is_constrained(&self) -> bool {
        self.judged == Judged::Constrained
    }

    /// Whether only webpki can verify it.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self.judged, Judged::Constrained | Judged::Strictly)
    }
}

impl AsRef<Certificate> for Certificate {
    fn as_ref(&self) -> &Certificate {
        self
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({self})")
    }
}

pub(super) fn hash(der: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der).as_ref())
}

fn authority(parsed: &X509Certificate<'_>) -> Option<PathLength> {
    let constraints = parsed.basic_constraints().ok()??.value;
    constraints.ca.then_some(constraints.path_len_constraint)
}

/// RFC 5280 section 4.2.1.3: if there is a key usage extension, it must include `keyCertSign` for
/// signing certificates.
fn signs(parsed: &X509Certificate<'_>) -> bool {
    parsed
        .key_usage()
        .is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

fn for_clients(parsed: &X509Certificate<'_>) -> bool {
    match parsed.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(usage)) => usage.value.client_auth || usage.value.any,
        Err(_) => false,
    }
}

fn judge(parsed: &X509Certificate<'_>) -> Judged {
    if parsed.version() != X509Version::V3 {
        return Judged::Old;
    }
    let any = |demands: fn(&X509Extension<'_>) -> bool| parsed.extensions().iter().any(demands);
    if any(is_unsupported) {
        Judged::Strictly
    } else if any(|extension| extension.oid == OID_X509_EXT_NAME_CONSTRAINTS) {
        Judged::Constrained
    } else if any(|extension| {
        extension.critical && extension.oid == OID_X509_EXT_CERTIFICATE_POLICIES
    }) {
        Judged::WithPolicies
    } else {
        Judged::Plainly
    }
}

/// Whether an extension is critical and not processed here, or processed here and not readable.
fn is_unsupported(extension: &X509Extension<'_>) -> bool {
    match extension.parsed_extension() {
        ParsedExtension::BasicConstraints(_)
        | ParsedExtension::KeyUsage(_)
        | ParsedExtension::ExtendedKeyUsage(_)
        | ParsedExtension::SubjectAlternativeName(_)
        | ParsedExtension::CertificatePolicies(_)
        | ParsedExtension::NameConstraints(_) => false,
        _ => extension.critical || RESTRICTING.contains(&extension.oid),
    }
}
