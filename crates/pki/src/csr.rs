//! Certificate requests (PKCS#10, RFC 2986).

use super::signature::Signed;
use super::{AlternativeNames, Error, Name, PrivateKey, PublicKey, Result, pem};
use rcgen::{CertificateParams, DistinguishedName, DnType};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

/// A request with a verified signature, which proves that the requester holds the private key.
///
/// Only these three parts of a request are used. Requested usages, constraints and a CA flag cannot
/// get into a certificate, because they are not read.
#[derive(Debug, Clone)]
pub struct Csr {
    subject: Name,
    public_key: PublicKey,
    names: AlternativeNames,
}

/// The greatest length of a request, in bytes. One with an RSA key of 16384 bits has less than half
/// of it.
const MAX_LENGTH: usize = 16 << 10;

impl Csr {
    /// Writes a request for `key` with this common name and the organization of this program, as
    /// one PEM block.
    ///
    /// # Errors
    /// [`Error::Internal`] if the key cannot sign.
    pub fn write(key: &PrivateKey, common_name: &str) -> Result<String> {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, "Overkeep");
        subject.push(DnType::CommonName, common_name);
        let mut request = CertificateParams::default();
        request.distinguished_name = subject;
        let der = request.serialize_request(key)?;
        Ok(pem::write("CERTIFICATE REQUEST", der.der()))
    }

    /// Reads exactly one PEM block. Text before it and white space after it are skipped; the label
    /// is not checked.
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::Trailing`], [`Error::BadDer`], [`Error::BadSignature`],
    /// [`Error::Unsupported`] for unsupported keys and hashes (P-521, P-224, secp256k1; SHA-1),
    /// [`Error::Csr`] for an RSA key below 2048 bits and for more than 16 KiB of text.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            return Err(Error::Csr("the request is longer than 16 KiB"));
        }
        let block = pem::only(text)?;
        let (rest, request) =
            X509CertificationRequest::from_der(block.contents()).map_err(|_| Error::BadDer)?;
        if !rest.is_empty() {
            return Err(Error::BadDer);
        }
        let asked = &request.certification_request_info;
        let public_key = PublicKey::from_der(asked.subject_pki.raw);
        public_key.kind()?;
        public_key
            .usable()
            .map_err(|_| Error::Csr("the RSA key is shorter than 2048 bits"))?;
        Signed::read(block.contents())?.verify(&public_key)?;
        Ok(Self {
            subject: Name::from_der(asked.subject.as_raw()),
            public_key,
            names: names(&request),
        })
    }

    /// The requested subject, possibly empty.
    pub fn subject(&self) -> &Name {
        &self.subject
    }

    /// The key of the request.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The requested alternative names.
    pub fn names(&self) -> &AlternativeNames {
        &self.names
    }

    /// The same request with another common name, for certificates whose name the requester may not
    /// choose.
    ///
    /// # Errors
    /// [`Error::BadDer`] if the subject cannot be read.
    pub fn with_common_name(self, common_name: &str) -> Result<Self> {
        Ok(Self {
            subject: self.subject.with_common_name(common_name)?,
            ..self
        })
    }
}

fn names(request: &X509CertificationRequest<'_>) -> AlternativeNames {
    let mut extensions = request.requested_extensions().into_iter().flatten();
    let found = extensions.find_map(|extension| match extension {
        ParsedExtension::SubjectAlternativeName(names) => {
            Some(AlternativeNames::read(&names.general_names))
        }
        _ => None,
    });
    found.unwrap_or_default()
}
