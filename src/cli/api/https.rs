//! HTTPS requests to a controller with pinned certificate authorities.

use std::{io::Read, sync::Arc, time::Duration};

use rest::{Header, LocalPart};
use rustls::crypto::ring;
use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

use super::request::ApiRequest;
use crate::cli::failure::CommandError;

const CONNECTING: Duration = Duration::from_secs(15);
/// How long an answer may be awaited. Some operations, such as checks of the data file, answer when
/// they are done.
const AWAITING: Duration = Duration::from_secs(30 * 60);
/// How long the body of an answer may take, except of a stream of events, which does not end.
const RECEIVING: Duration = Duration::from_secs(30 * 60);
/// How long a stream of events may be silent. A controller sends a line every 15 seconds.
const SILENCE: Duration = Duration::from_secs(5 * 60);
/// How long a request about a login and its answer may take together.
const LOGGING_IN: Duration = Duration::from_secs(60);
/// The stream of events.
const EVENTS: &str = "/overkeep/v1/events";

/// How much time a client has for its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// About a login: the server may be any.
    Login,
    /// Of a command.
    Command,
}
/// Bytes read at a time.
const PIECE: usize = 64 << 10;

/// The scheme of every address.
const SCHEME: &str = "https://";

/// An address of a controller without a slash at its end. The scheme may be written in capitals
/// (RFC 3986 section 3.1). `None` if it is not that of HTTPS.
pub(crate) fn tidy(url: &str) -> Option<String> {
    let (scheme, host) = url
        .trim()
        .trim_end_matches('/')
        .split_at_checked(SCHEME.len())?;
    scheme
        .eq_ignore_ascii_case(SCHEME)
        .then(|| format!("{SCHEME}{host}"))
}

/// The HTTP client for a controller. `ca` is the PEM of the trusted authorities. With `None` the
/// server is not verified, which is only for fetching its authorities.
///
/// # Errors
/// The PEM holds no certificate.
pub fn agent(ca: Option<&str>, patience: Patience) -> Result<Agent, CommandError> {
    let tls =
        TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    let tls = match ca {
        None => tls.disable_verification(true),
        Some(pem) => {
            let parsed =
                pem::parse_many(pem).map_err(|error| CommandError::of(format!("ca: {error}")))?;
            let of = |block: &pem::Pem| {
                (block.tag() == "CERTIFICATE")
                    .then(|| Certificate::from_der(block.contents()).to_owned())
            };
            let roots: Vec<Certificate<'static>> = parsed.iter().filter_map(of).collect();
            if roots.is_empty() {
                return Err(CommandError::of("ca: the file holds no PEM certificate"));
            }
            tls.root_certs(RootCerts::Specific(Arc::new(roots)))
        }
    };
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .timeout_connect(Some(CONNECTING))
        .max_redirects(0)
        .proxy(None);
    let config = config
        .http_status_as_error(false)
        .allow_non_standard_methods(true);
    let config = match patience {
        Patience::Login => config.timeout_global(Some(LOGGING_IN)),
        Patience::Command => config
            .timeout_recv_response(Some(AWAITING))
            .timeout_recv_body(Some(RECEIVING)),
    };
    Ok(config
        .user_agent(concat!("overkeep/", env!("CARGO_PKG_VERSION")))
        .build()
        .into())
}

/// Why a request has no complete answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// A part of the request cannot be sent.
    #[error("{0}")]
    Request(#[from] ureq::http::Error),
    /// The controller does not answer.
    #[error("{0}")]
    NoAnswer(#[from] ureq::Error),
    /// The answer is interrupted, or nobody takes it.
    #[error("{0}")]
    Interrupted(#[from] std::io::Error),
}

/// Sends a request and passes the parts of the answer to `take`.
///
/// # Errors
/// See [`HttpsError`].
pub fn ask(
    agent: &Agent,
    url: &str,
    token: &str,
    request: ApiRequest,
    take: &mut dyn FnMut(LocalPart) -> std::io::Result<()>,
) -> Result<(), HttpsError> {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(&request.query)
        .finish();
    let mark = if query.is_empty() { "" } else { "?" };
    let mut asked = ureq::http::Request::builder()
        .method(request.method.as_str())
        .uri(format!("{url}{}{mark}{query}", request.path));
    if !token.is_empty() {
        asked = asked.header("zt-session", token);
    }
    for (name, value) in &request.headers {
        asked = asked.header(name, value);
    }
    if let Some((media, _)) = &request.body {
        asked = asked.header("content-type", media);
    }
    let body = request.body.map(|(_, text)| text).unwrap_or_default();
    let asked = asked.body(body)?;
    let asked = if request.path == EVENTS {
        agent
            .configure_request(asked)
            .timeout_recv_body(None)
            .timeout_per_read(Some(SILENCE))
            .build()
    } else {
        asked
    };
    let answer = agent.run(asked)?;
    let header = |name: &str| {
        answer
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let (media, tag) = (header("content-type").unwrap_or_default(), header("etag"));
    let warnings = Header::warnings(header);
    take(LocalPart::Head {
        status: answer.status().as_u16(),
        media,
        tag,
        warnings,
    })?;
    let mut reader = answer.into_body().into_reader();
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(()),
            read => take(LocalPart::Piece(
                piece.get(..read).unwrap_or_default().to_vec(),
            ))?,
        }
    }
}
