//! Certificates (X.509, RFC 5280), read once: what callers ask about is picked out when the bytes come in.

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
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_CERTIFICATE_POLICIES, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS, Oid,
};
use x509_parser::prelude::{FromDer, X509Version};

const LABEL: &str = "CERTIFICATE";

/// Extensions that restrict what a certificate is good for. One that cannot be read may not count as absent.
const RESTRICTING: [Oid<'static>; 4] =
    [OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_KEY_USAGE, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_NAME_CONSTRAINTS];

/// A certificate. `Debug` and `Display` show its fingerprint only.
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

/// How many further authorities may stand between this one and a leaf; `None` without a limit.
type PathLength = Option<u32>;

/// Who can say whether the certificate may be relied on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// Version 3 and nothing unusual: webpki and our own path agree on what it means.
    Plainly,
    /// The same with policies that are critical: whoever asks for none may rely on it (RFC 5280 section 6.1), but webpki does not.
    WithPolicies,
    /// A version before 3, which knows no extensions and which webpki refuses.
    Old,
    /// Has name constraints, which webpki applies and our own path does not.
    Constrained,
    /// Has a critical extension that is not processed here, so nothing below it may be relied on (RFC 5280 section 4.2), or an extension
    /// that matters and cannot be read.
    Strictly,
}

impl Certificate {
    /// Reads one certificate.
    ///
    /// # Errors
    /// [`Error::BadDer`], also for bytes behind it.
    pub fn from_der(der: &[u8]) -> Result<Self> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| Error::BadDer)?;
        // RFC 5280 section 4.1.1.2: the algorithm stands there twice and must be the same
        if !rest.is_empty() || parsed.tbs_certificate.signature != parsed.signature_algorithm {
            return Err(Error::BadDer);
        }
        let names = parsed.subject_alternative_name().ok().flatten();
        Ok(Self {
            subject: Name::from_der(parsed.subject().as_raw()),
            issuer: Name::from_der(parsed.issuer().as_raw()),
            public_key: PublicKey::from_der(parsed.public_key().raw),
            names: names.map(|names| AlternativeNames::read(&names.value.general_names)).unwrap_or_default(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            authority: authority(&parsed),
            signs: signs(&parsed),
            for_clients: for_clients(&parsed),
            judged: judged(&parsed),
            der: CertificateDer::from(der.to_vec()),
        })
    }

    /// Reads one or more PEM blocks. Text in front of the first is skipped, only white space may stand between and behind.
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::Trailing`], [`Error::WrongBlock`] if one is no certificate, [`Error::BadDer`].
    pub fn bundle(text: &str) -> Result<Vec<Self>> {
        pem::all(text)?.iter().map(Self::from_block).collect()
    }

    /// Reads the first PEM block and ignores what stands around it.
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
        if block.tag() == LABEL { Self::from_der(block.contents()) } else { Err(Error::WrongBlock) }
    }

    /// The bytes of the certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// One PEM block with a line feed at the end of each line, also the last.
    pub fn pem(&self) -> String {
        pem::write(LABEL, &self.der)
    }

    /// Lower case hexadecimal SHA-1 of the bytes, 40 characters. A name that routers and clients compare, not a proof.
    pub fn fingerprint(&self) -> String {
        hash(&self.der)
    }

    /// Whether that is the fingerprint of the first certificate in a text. What else the certificate is made of is not looked at.
    pub fn is_known_by(fingerprint: &str, pem: &str) -> bool {
        pem::first(pem).is_ok_and(|(block, _)| block.tag() == LABEL && hash(block.contents()) == fingerprint)
    }

    /// Whom it is about.
    pub fn subject(&self) -> &Name {
        &self.subject
    }

    /// Who signed it, by name.
    pub fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// The key it is about.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// Its alternative names.
    pub fn names(&self) -> &AlternativeNames {
        &self.names
    }

    /// First second of its validity, unix time.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// Last second of its validity, unix time.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// May a server that shows it be called `host`, a name or an address?
    pub fn is_for(&self, host: &str) -> bool {
        let leaf = EndEntityCert::try_from(&self.der);
        let name = ServerName::try_from(host);
        leaf.is_ok_and(|leaf| name.is_ok_and(|name| leaf.verify_is_valid_for_subject_name(&name).is_ok()))
    }

    /// Is `now` (unix seconds) within its dates?
    pub fn valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Does it say of itself that it is a certificate authority's (basic constraints)? Certificates of version 1 never do.
    pub fn is_ca(&self) -> bool {
        self.authority.is_some()
    }

    /// Does it name itself as its issuer?
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Does the issuer's name fit, and does the signature verify with its key? Says nothing about dates, flags or trust.
    pub fn is_signed_by(&self, issuer: &Self) -> bool {
        self.issuer == issuer.subject && Signed::read(&self.der).and_then(|signed| signed.verify(&issuer.public_key)).is_ok()
    }

    /// May its key sign certificates at all? It needs `cA` in its basic constraints, and `keyCertSign` if it has a key usage extension.
    pub(super) fn may_sign(&self) -> bool {
        self.is_ca() && self.signs
    }

    /// May it stand in our own path above `below` other authorities, as far as it says itself?
    pub(super) fn may_sign_above(&self, below: u32) -> bool {
        self.is_understood() && self.may_anchor(below)
    }

    /// Does its extended key usage admit TLS clients? Without the extension everything is admitted.
    pub(super) fn is_for_clients(&self) -> bool {
        self.for_clients
    }

    /// Does our own path know what all of its extensions mean?
    fn is_understood(&self) -> bool {
        matches!(self.judged, Judged::Plainly | Judged::WithPolicies)
    }

    /// Does webpki take it as a leaf, its dates apart?
    pub(super) fn suits_webpki(&self) -> bool {
        matches!(self.judged, Judged::Plainly | Judged::Constrained | Judged::Strictly) && !self.is_ca()
    }

    /// Does it have policies because of which webpki does not take it?
    pub(super) fn has_policies(&self) -> bool {
        self.judged == Judged::WithPolicies
    }

    /// May it stand in a path of webpki's above `below` other authorities? webpki applies name constraints, but looks at the key usage of
    /// no certificate, and of an anchor at nothing but name, key and name constraints.
    pub(super) fn may_anchor(&self, below: u32) -> bool {
        let understood = !matches!(self.judged, Judged::Old | Judged::Strictly);
        understood && self.may_sign() && self.authority.is_some_and(|limit| limit.is_none_or(|limit| below <= limit))
    }

    /// Does it demand more understanding than our own path has?
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

fn hash(der: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der).as_ref())
}

fn authority(parsed: &X509Certificate<'_>) -> Option<PathLength> {
    let constraints = parsed.basic_constraints().ok()??.value;
    constraints.ca.then_some(constraints.path_len_constraint)
}

/// RFC 5280 section 4.2.1.3: where there is a key usage extension, signing certificates needs `keyCertSign` in it.
fn signs(parsed: &X509Certificate<'_>) -> bool {
    parsed.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

fn for_clients(parsed: &X509Certificate<'_>) -> bool {
    match parsed.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(usage)) => usage.value.client_auth || usage.value.any,
        Err(_) => false,
    }
}

fn judged(parsed: &X509Certificate<'_>) -> Judged {
    if parsed.version() != X509Version::V3 {
        return Judged::Old;
    }
    let any = |demands: fn(&X509Extension<'_>) -> bool| parsed.extensions().iter().any(demands);
    if any(is_beyond_us) {
        Judged::Strictly
    } else if any(|extension| extension.oid == OID_X509_EXT_NAME_CONSTRAINTS) {
        Judged::Constrained
    } else if any(|extension| extension.critical && extension.oid == OID_X509_EXT_CERTIFICATE_POLICIES) {
        Judged::WithPolicies
    } else {
        Judged::Plainly
    }
}

/// Is it critical and not processed here, or processed here and not readable?
fn is_beyond_us(extension: &X509Extension<'_>) -> bool {
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
