//! The check of the certificate of a third-party authority when it is stored, and the reason, for
//! administrators, why it does not admit a certificate.

use super::signature::Signed;
use super::{Certificate, Error, Result};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, GeneralSubtree};
use x509_parser::prelude::FromDer;

impl Certificate {
    /// Checks that certificates below this authority can be verified: its kind of key is supported,
    /// and, if it signed itself, its algorithm; and its name constraints are only on names and
    /// addresses of hosts. Others are not processed (webpki rejects what they concern), so that RFC
    /// 5280 section 4.2.1.10 asks to reject them.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names the part; [`Error::BadDer`].
    pub fn check_as_authority(&self) -> Result<()> {
        self.public_key().usable()?;
        if self.is_self_issued() {
            Signed::read(self.der())?.check_algorithm()?;
        }
        let (_, parsed) = X509Certificate::from_der(self.der()).map_err(|_| Error::BadDer)?;
        let Ok(Some(constraints)) = parsed.name_constraints() else {
            return Ok(());
        };
        let subtrees = [
            &constraints.value.permitted_subtrees,
            &constraints.value.excluded_subtrees,
        ];
        match subtrees
            .into_iter()
            .flatten()
            .flatten()
            .find_map(unsupported_form)
        {
            Some(form) => Err(Error::Unsupported(
                format!("name constraints on {form}").into(),
            )),
            None => Ok(()),
        }
    }

    /// Why [`Verification::anchor_of`](super::Verification::anchor_of) does not accept this
    /// certificate directly below `authority`, whatever its purpose: half a sentence, for
    /// administrators. `now` is in unix seconds.
    pub fn refusal_below(&self, authority: &Self, now: i64) -> String {
        let untimely = |certificate: &Self| {
            if now < certificate.not_before() {
                "is not valid yet"
            } else {
                "has expired"
            }
        };
        match self.check_signature(authority) {
            Err(Error::OtherIssuer) => return "it is not signed by the certificate authority, because its issuer has another name".into(),
            Err(Error::BadSignature) => return "it is not signed with the key of the certificate authority".into(),
            Err(error) => return error.to_string(),
            Ok(()) => {}
        }
        if !self.valid_at(now) {
            format!("it {}", untimely(self))
        } else if !authority.valid_at(now) {
            format!("the certificate of the authority {}", untimely(authority))
        } else if !authority.is_ca() {
            "the basic constraints of the authority do not make it one".into()
        } else if !authority.may_sign() {
            "the key usage of the authority does not include the signing of certificates".into()
        } else if authority.is_constrained() {
            "the name constraints of the authority do not admit it".into()
        } else if authority.is_strict() {
            "the authority has a critical extension that is not processed here".into()
        } else if self.is_strict() {
            "it has a critical extension that is not processed here".into()
        } else {
            "the authority does not admit it".into()
        }
    }
}

/// The form of the names that a constraint is on, unless webpki applies such constraints.
fn unsupported_form(subtree: &GeneralSubtree<'_>) -> Option<&'static str> {
    match subtree.base {
        GeneralName::DNSName(_) | GeneralName::IPAddress(_) => None,
        GeneralName::DirectoryName(_) => Some("directory names"),
        GeneralName::RFC822Name(_) => Some("mail addresses"),
        GeneralName::URI(_) => Some("URIs"),
        GeneralName::RegisteredID(_) => Some("registered ids"),
        GeneralName::OtherName(..) => Some("names of other types"),
        _ => Some("names of an unknown form"),
    }
}
