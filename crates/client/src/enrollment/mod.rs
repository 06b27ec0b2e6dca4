//! Enrollment: a token becomes the file of an identity.
//!
//! The first connection is to the server that signed the token, which the handshake proves
//! (`pki::TokenVerifier`). It gives the authorities of the network; every later request goes to a
//! server that they prove. Start at [`enroll`].

mod error;
mod method;
mod requests;
mod token;

use std::sync::Arc;

use model::outbound::HttpClient;
use pki::{
    Certificate, ClientCertificate, Csr, KeyKind, PrivateKey, ServerVerifier, TokenVerifier,
    client_config,
};
use zeroize::Zeroizing;

use crate::identity_file::IdentityFile;
pub use error::EnrollmentError;
pub use method::EnrollmentMethod;
use requests::MOST;
pub use requests::network_token;
pub use token::EnrollmentToken;

/// What the person or machine that enrolls brings with it.
#[derive(Debug)]
pub enum Credential {
    /// Nothing: a key of this kind is made.
    NewKey(KeyKind),
    /// A certificate of an authority that the network knows.
    Certificate(ClientCertificate),
    /// The password that is to be set.
    Password(Zeroizing<String>),
}

/// Redeems a token. `name` is the name that an identity of method `ca` asks for; `now` is the time
/// in unix seconds. Blocks.
///
/// # Errors
/// As for each variant of [`EnrollmentError`]. Unless the controller has answered, the token can be
/// used again.
pub fn enroll(
    token: &EnrollmentToken,
    credential: Credential,
    name: Option<&str>,
    now: i64,
) -> Result<IdentityFile, EnrollmentError> {
    let method = token.method();
    if let Some(end) = token.end().filter(|end| *end <= now) {
        return Err(EnrollmentError::Ended(now - end));
    }
    let missing = |what| EnrollmentError::Credential(method, what);
    match (method, credential) {
        (EnrollmentMethod::Ott, Credential::NewKey(kind)) => {
            let key = PrivateKey::generate(kind)?;
            let request = Csr::write(&key, token.subject())?;
            let (client, authorities) = proven(token, None)?;
            let chain = requests::certificate(&client, token, &request)?;
            let certificate =
                ClientCertificate::new(chain, key).map_err(|error| EnrollmentError::Answer {
                    controller: token.controller().to_owned(),
                    reason: error.to_string(),
                })?;
            file(token, Some(certificate), authorities)
        }
        (EnrollmentMethod::OttCa | EnrollmentMethod::Ca, Credential::Certificate(certificate)) => {
            let (client, authorities) = proven(token, Some(&certificate))?;
            requests::adopt(&client, token, name)?;
            file(token, Some(certificate), authorities)
        }
        (EnrollmentMethod::Updb, Credential::Password(password)) => {
            let (client, authorities) = proven(token, None)?;
            requests::set_password(&client, token, &password)?;
            file(token, None, authorities)
        }
        (EnrollmentMethod::Network, _) => {
            let (_, authorities) = proven(token, None)?;
            file(token, None, authorities)
        }
        (EnrollmentMethod::Ott, _) => Err(missing("a key that is made here")),
        (EnrollmentMethod::OttCa | EnrollmentMethod::Ca, _) => {
            Err(missing("a certificate and its key"))
        }
        (EnrollmentMethod::Updb, _) => Err(missing("a password")),
    }
}

/// A client for the controller that signed the token, and the authorities of its network.
fn proven(
    token: &EnrollmentToken,
    certificate: Option<&ClientCertificate>,
) -> Result<(HttpClient, Vec<Certificate>), EnrollmentError> {
    let first = client_config(Arc::new(TokenVerifier::new(token.text())), None)?;
    let authorities = requests::authorities(&HttpClient::with_tls(Arc::new(first), MOST), token)?;
    let trusted: Vec<_> = authorities.iter().map(|one| one.der().clone()).collect();
    let later = client_config(Arc::new(ServerVerifier::new(&trusted)), certificate)?;
    Ok((HttpClient::with_tls(Arc::new(later), MOST), authorities))
}

fn file(
    token: &EnrollmentToken,
    certificate: Option<ClientCertificate>,
    authorities: Vec<Certificate>,
) -> Result<IdentityFile, EnrollmentError> {
    Ok(IdentityFile::new(
        token.controller(),
        certificate,
        authorities,
    )?)
}
