//! The controller's issuing authority: certificates from requests.

use super::der::{self, SEQUENCE};
use super::validity::{Validity, date, serial};
use super::{
    AlternativeNames, Certificate, Csr, Error, KeyedCertificate, Material, Name, PrivateKey,
    PublicKey, Result, chain,
};
use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SigningKey,
    SubjectPublicKeyInfo,
};
use std::fmt;

/// Issues certificates with the intermediate's key, and holds the authorities needed to verify
/// them.
pub struct Authority {
    issuer: Issuer<'static, PrivateKey>,
    certificate: Certificate,
    cas: Vec<Certificate>,
    retired: Vec<Certificate>,
}

impl Authority {
    /// Opens stored material.
    ///
    /// # Errors
    /// The errors of [`KeyedCertificate::open`]; [`Error::NotACa`]; [`Error::Untrusted`] if the
    /// root did not sign the intermediate, directly or through adopted authorities.
    pub fn open(material: &Material) -> Result<Self> {
        let root = Certificate::only(&material.root.certificate)?;
        let signing = KeyedCertificate::open(&material.intermediate)?;
        let certificate = signing.certificate;
        if !certificate.may_sign() || !root.may_sign() {
            return Err(Error::NotACa);
        }
        let read = |pems: &[String]| {
            pems.iter()
                .map(|pem| Certificate::only(pem))
                .collect::<Result<Vec<_>>>()
        };
        let (retired, adopted) = (read(&material.retired)?, read(&material.adopted)?);
        if !chain(&certificate, &adopted)
            .last()
            .is_some_and(|top| top.is_signed_by(&root))
        {
            return Err(Error::Untrusted);
        }
        let issuer = Issuer::from_ca_cert_der(certificate.der(), signing.key)?;
        let mut cas = vec![certificate.clone()];
        // An adopted root may itself be what signs.
        cas.extend((root != certificate).then_some(root));
        cas.extend(retired.iter().cloned().chain(adopted));
        Ok(Self {
            issuer,
            cas,
            retired,
            certificate,
        })
    }

    /// The certificate that signs everything issued here.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The signing certificate, the root above it, retired intermediates and adopted authorities:
    /// what is needed to verify every certificate issued here, or by the controller whose authority
    /// was adopted.
    pub fn cas(&self) -> &[Certificate] {
        &self.cas
    }

    /// The authorities that clients should trust; retired intermediates only until they expire.
    pub fn trusted(&self, now: i64) -> impl Iterator<Item = &Certificate> {
        self.cas.iter().filter(move |ca| {
            **ca == self.certificate || ca.is_self_issued() || now <= ca.not_after()
        })
    }

    /// Whether a certificate was issued here, by the current or a retired intermediate.
    pub fn has_issued(&self, certificate: &Certificate) -> bool {
        std::iter::once(&self.certificate)
            .chain(&self.retired)
            .any(|ca| ca.may_sign() && certificate.is_signed_by(ca))
    }

    /// A certificate for a TLS client: subject and key of the request, and the given alternative
    /// names.
    ///
    /// # Errors
    /// [`Error::BadName`] for a name that is not ASCII, [`Error::Expired`] once the authority
    /// itself has expired.
    pub fn issue_client(
        &self,
        csr: &Csr,
        names: &AlternativeNames,
        validity: Validity,
    ) -> Result<Certificate> {
        self.issue(
            csr.subject(),
            csr.public_key(),
            names,
            &[ExtendedKeyUsagePurpose::ClientAuth],
            validity,
        )
    }

    /// A certificate for a TLS server: subject and key of the request, and the given alternative
    /// names.
    ///
    /// # Errors
    /// As [`issue_client`](Self::issue_client).
    pub fn issue_server(
        &self,
        csr: &Csr,
        names: &AlternativeNames,
        validity: Validity,
    ) -> Result<Certificate> {
        self.issue(
            csr.subject(),
            csr.public_key(),
            names,
            &[ExtendedKeyUsagePurpose::ServerAuth],
            validity,
        )
    }

    /// A client certificate for one API session: no alternative names, valid for exactly 12 hours.
    ///
    /// # Errors
    /// As [`issue_client`](Self::issue_client).
    pub fn issue_session(&self, csr: &Csr, now: i64) -> Result<Certificate> {
        self.issue_client(csr, &AlternativeNames::default(), Validity::session(now))
    }

    /// The controller's own leaf for an existing key. It serves TLS and can also be a client
    /// certificate towards other controllers.
    ///
    /// # Errors
    /// [`Error::BadName`] without a host name or address, otherwise as
    /// [`issue_client`](Self::issue_client).
    pub fn issue_own(
        &self,
        key: &PrivateKey,
        hosts: &AlternativeNames,
        validity: Validity,
    ) -> Result<KeyedCertificate> {
        let subject = Name::of(&hosts.first_host().ok_or(Error::BadName)?);
        let usages = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = self.issue(&subject, &key.public(), hosts, &usages, validity)?;
        Ok(KeyedCertificate {
            certificate,
            key: key.clone(),
        })
    }

    fn issue(
        &self,
        subject: &Name,
        key: &PublicKey,
        names: &AlternativeNames,
        usages: &[ExtendedKeyUsagePurpose],
        validity: Validity,
    ) -> Result<Certificate> {
        let validity = validity.within(&self.certificate);
        if validity.not_after < validity.not_before {
            return Err(Error::Expired);
        }
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::NoCa;
        params.serial_number = Some(serial()?);
        params.not_before = date(validity.not_before)?;
        params.not_after = date(validity.not_after)?;
        params.subject_alt_names = names.to_rcgen()?;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DataEncipherment,
        ];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        params.distinguished_name = placeholder_subject(subject);
        let spki = SubjectPublicKeyInfo::from_der(key.der())
            .map_err(|_| Error::Unsupported("kind of key".into()))?;
        let draft = params.signed_by(&spki, &self.issuer)?;
        self.with_names(draft.der(), subject)
    }

    /// Replaces the issuer and subject that rcgen wrote by the original bytes, and signs again.
    ///
    /// rcgen keeps one value per attribute type and encodes it again: one of two `OU`s would be
    /// lost, and an issuer with an unusual string type would no longer match by name.
    fn with_names(&self, draft: &[u8], subject: &Name) -> Result<Certificate> {
        let outer = der::inside(SEQUENCE, draft)?;
        let [message, algorithm, _] = outer.as_slice() else {
            return Err(Error::BadDer);
        };
        let fields = der::inside(SEQUENCE, message)?;
        let [version, serial, signed_how, _, dates, _, rest @ ..] = fields.as_slice() else {
            return Err(Error::BadDer);
        };
        let before = [
            version,
            serial,
            signed_how,
            self.certificate.subject().der(),
            dates,
            subject.der(),
        ]
        .concat();
        let message = der::element(SEQUENCE, &[before, rest.concat()].concat());
        let signature = der::bit_string(&self.issuer.key().sign(&message)?);
        Certificate::from_der(&der::element(
            SEQUENCE,
            &[&message, *algorithm, &signature].concat(),
        ))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.certificate)
    }
}

/// The subject given to rcgen. It only matters whether it is empty, because then alternative names
/// have to be critical (RFC 5280 section 4.2.1.6).
fn placeholder_subject(subject: &Name) -> rcgen::DistinguishedName {
    let mut name = rcgen::DistinguishedName::new();
    if !subject.is_empty() {
        name.push(rcgen::DnType::CommonName, "");
    }
    name
}
