//! The requests of an enrollment, and their answers.

use std::time::Duration;

use http::{Request, header};
use model::outbound::{HttpAnswer, HttpClient, HttpError};
use pki::{Certificate, certificates_of_base64};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value as Json, json};

use super::{error::EnrollmentError, method::EnrollmentMethod, token::EnrollmentToken};
use crate::{api_error::ApiError, controller::Envelope, identity_file::address};

/// How long one request and its answer may take.
pub(super) const MOST: Duration = Duration::from_secs(30);
/// The most bytes of an answer.
const MAX_LENGTH: u64 = 1 << 20;

/// The authorities of the network.
pub(super) fn authorities(
    client: &HttpClient,
    token: &EnrollmentToken,
) -> Result<Vec<Certificate>, EnrollmentError> {
    let url = format!("{}/.well-known/est/cacerts", token.controller());
    let answer = client
        .get(&url, MAX_LENGTH)
        .map_err(|error| EnrollmentError::Unproven {
            controller: token.controller().to_owned(),
            reason: error.to_string(),
        })?;
    let answer = accepted(token, answer)?;
    let text = String::from_utf8_lossy(&answer.body);
    let found = certificates_of_base64(&text).map_err(|error| unusable(token, error))?;
    if found.is_empty() {
        return Err(unusable(token, "it names no authority"));
    }
    Ok(found)
}

/// Redeems a token for the chain of a certificate, leaf first. `request` is PEM.
pub(super) fn certificate(
    client: &HttpClient,
    token: &EnrollmentToken,
    request: &str,
) -> Result<Vec<Certificate>, EnrollmentError> {
    #[derive(Deserialize)]
    struct Issued {
        cert: String,
    }
    let media = "application/x-pem-file";
    let issued: Issued = data(token, post(client, token, media, request.as_bytes())?)?;
    Certificate::in_file(&issued.cert).map_err(|error| unusable(token, error))
}

/// Enrolls with the certificate that `client` presents.
pub(super) fn adopt(
    client: &HttpClient,
    token: &EnrollmentToken,
    name: Option<&str>,
) -> Result<(), EnrollmentError> {
    let body = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
    let (media, body) = match token.method() {
        EnrollmentMethod::Ca => ("application/json", body.to_string()),
        _ => ("text/plain", String::new()),
    };
    match post(client, token, media, body.as_bytes()) {
        // Whoever enrolls twice with one certificate has what they want.
        Err(EnrollmentError::Refused { code, .. })
            if token.method() == EnrollmentMethod::Ca && code == "CERT_IN_USE" =>
        {
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Redeems a token for a password.
pub(super) fn set_password(
    client: &HttpClient,
    token: &EnrollmentToken,
    password: &str,
) -> Result<(), EnrollmentError> {
    let body = zeroize::Zeroizing::new(json!({ "password": password }).to_string());
    post(client, token, "application/json", body.as_bytes()).map(drop)
}

/// The token with which anybody finds the network of the controller at `url`, a server that the
/// authorities of the system prove. Blocks.
///
/// # Errors
/// [`EnrollmentError::NoAnswer`], [`EnrollmentError::Refused`] or [`EnrollmentError::Answer`].
pub fn network_token(url: &str) -> Result<String, EnrollmentError> {
    #[derive(Deserialize)]
    struct Named {
        token: String,
    }
    let controller = address(url).ok_or_else(|| EnrollmentError::NoAnswer {
        controller: url.to_owned(),
        reason: "it must be an address of https".to_owned(),
    })?;
    let no_answer = |error: HttpError| EnrollmentError::NoAnswer {
        controller: controller.clone(),
        reason: error.to_string(),
    };
    let client = HttpClient::of_system(MOST).map_err(no_answer)?;
    let url = format!("{controller}/network-jwts");
    let answer = client.get(&url, MAX_LENGTH).map_err(no_answer)?;
    let answer = accepted_by(&controller, answer)?;
    let unusable = |reason: &str| EnrollmentError::Answer {
        controller: controller.clone(),
        reason: reason.to_owned(),
    };
    let tokens: Envelope<Vec<Named>> =
        serde_json::from_slice(&answer.body).map_err(|error| unusable(&error.to_string()))?;
    let first = tokens.data.into_iter().next();
    first
        .map(|named| named.token)
        .ok_or_else(|| unusable("it holds no token"))
}

fn post(
    client: &HttpClient,
    token: &EnrollmentToken,
    media: &str,
    body: &[u8],
) -> Result<HttpAnswer, EnrollmentError> {
    let (controller, method) = (token.controller(), token.method());
    let query = match method {
        EnrollmentMethod::Ca => format!("method={method}"),
        _ => format!("method={method}&token={}", token.id()),
    };
    let request = Request::post(format!("{controller}/enroll?{query}"))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, media)
        .body(body)
        .map_err(|_| EnrollmentError::Token("its id cannot be part of an address".to_owned()))?;
    let answer = client
        .send(request, MAX_LENGTH)
        .map_err(|error| EnrollmentError::NoAnswer {
            controller: controller.to_owned(),
            reason: error.to_string(),
        })?;
    accepted(token, answer)
}

fn accepted(token: &EnrollmentToken, answer: HttpAnswer) -> Result<HttpAnswer, EnrollmentError> {
    accepted_by(token.controller(), answer)
}

fn accepted_by(controller: &str, answer: HttpAnswer) -> Result<HttpAnswer, EnrollmentError> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let ApiError { code, reason } = ApiError::of(&answer);
    Err(EnrollmentError::Refused {
        controller: controller.to_owned(),
        code,
        reason,
    })
}

fn data<T: DeserializeOwned>(
    token: &EnrollmentToken,
    answer: HttpAnswer,
) -> Result<T, EnrollmentError> {
    let envelope: Envelope<Json> =
        serde_json::from_slice(&answer.body).map_err(|error| unusable(token, error))?;
    serde_json::from_value(envelope.data).map_err(|error| unusable(token, error))
}

fn unusable(token: &EnrollmentToken, reason: impl ToString) -> EnrollmentError {
    EnrollmentError::Answer {
        controller: token.controller().to_owned(),
        reason: reason.to_string(),
    }
}
