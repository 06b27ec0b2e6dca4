//! Requests that the controller sends to other servers: key sets and token endpoints of issuers,
//! and its own advertised addresses.
//!
//! Here: one HTTP client with bounds on time and bytes. Not here: which addresses may be asked
//! (`entity/signer_url.rs`). Start at [`HttpClient`]. Invariants: no redirect is followed, no proxy
//! is used, and an answer is read up to the caller's bound only. Answers are asked for without
//! compression; one that is compressed with gzip all the same is read, and its bound is that of the
//! text. A URL that a server chose leads to this host or its link only if that server is there, too
//! (`resolver.rs`).

mod error;
mod resolver;
mod tls;

use std::{io::Read, sync::Arc, time::Duration};

use flate2::read::MultiGzDecoder;
use rustls::{ClientConfig, pki_types::CertificateDer};
use ureq::{
    Agent, Body,
    config::Config,
    http::{Request, Response, Uri},
    unversioned::{
        resolver::DefaultResolver,
        transport::{Connector, TcpConnector},
    },
};

pub use error::HttpError;
use resolver::ChosenByServer;
use tls::TlsConnector;

const AGENT: &str = concat!("overkeep/", env!("CARGO_PKG_VERSION"));

/// An HTTP client. Cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    agent: Agent,
    config: Config,
    tls: TlsConnector,
}

/// An answer with any status.
pub struct HttpAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpClient {
    /// Trusts the authorities of the system. A request including its answer may take at most
    /// `most`.
    ///
    /// # Errors
    /// TLS cannot be set up, which is a defect.
    pub fn of_system(most: Duration) -> Result<Self, HttpError> {
        Self::trusting(&system_authorities(), most)
    }

    /// Trusts these authorities only.
    ///
    /// # Errors
    /// As [`HttpClient::of_system`].
    pub fn trusting(authorities: &[CertificateDer<'_>], most: Duration) -> Result<Self, HttpError> {
        let tls = TlsConnector::new(authorities).map_err(HttpError::Tls)?;
        Ok(Self::connecting(tls, most))
    }

    /// Connects as this configuration says.
    pub fn with_tls(tls: Arc<ClientConfig>, most: Duration) -> Self {
        Self::connecting(TlsConnector::of(tls), most)
    }

    fn connecting(tls: TlsConnector, most: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(most))
            .max_redirects(0)
            .proxy(None);
        let config = config
            .http_status_as_error(false)
            .user_agent(AGENT)
            .accept_encoding("identity")
            .build();
        let agent = Agent::with_parts(
            config.clone(),
            TcpConnector::default().chain(tls.clone()),
            DefaultResolver::default(),
        );
        Self { agent, config, tls }
    }

    /// Sends a request with these headers and this body. Blocks.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub fn send(&self, request: Request<&[u8]>, most: u64) -> Result<HttpAnswer, HttpError> {
        read(self.agent.run(request), most)
    }

    /// Sends a GET. Blocks.
    ///
    /// # Errors
    /// There is no answer, or the answer has more than `most` bytes.
    pub fn get(&self, url: &str, most: u64) -> Result<HttpAnswer, HttpError> {
        read(
            self.agent
                .get(lower_scheme(url))
                .header("accept", "application/json")
                .call(),
            most,
        )
    }

    /// The same client, for URLs that the server at `origin` chose: those that lead to this host or
    /// its link are rejected, unless `origin` leads there.
    ///
    /// # Errors
    /// `origin` is not a URL.
    pub fn chosen_by(&self, origin: &str) -> Result<Self, HttpError> {
        let origin: Uri = origin.parse().map_err(|_| HttpError::Origin)?;
        let resolver = ChosenByServer {
            origin,
            resolver: DefaultResolver::default(),
        };
        let (config, tls) = (self.config.clone(), self.tls.clone());
        Ok(Self {
            agent: Agent::with_parts(
                config.clone(),
                TcpConnector::default().chain(tls.clone()),
                resolver,
            ),
            config,
            tls,
        })
    }

    /// Posts a body. Blocks.
    ///
    /// # Errors
    /// As [`HttpClient::get`].
    pub fn post(
        &self,
        url: &str,
        media: &str,
        body: &[u8],
        most: u64,
    ) -> Result<HttpAnswer, HttpError> {
        read(
            self.agent
                .post(lower_scheme(url))
                .header("accept", "application/json")
                .header("content-type", media)
                .send(body),
            most,
        )
    }
}

/// The authorities of the system.
pub fn system_authorities() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The URL with its scheme in lower case (RFC 3986 section 3.1: case has no meaning there, but the
/// client tells `https` only so).
fn lower_scheme(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
        None => url.to_owned(),
    }
}

fn read(answer: Result<Response<Body>, ureq::Error>, most: u64) -> Result<HttpAnswer, HttpError> {
    let answer = answer?;
    let (status, mut body) = (answer.status().as_u16(), Vec::new());
    let coding = answer
        .headers()
        .get("content-encoding")
        .map(|coding| coding.to_str().unwrap_or_default().to_ascii_lowercase());
    let reader = answer.into_body().into_reader();
    let reader: Box<dyn Read> = match coding.as_deref() {
        None | Some("identity") => Box::new(reader),
        Some("gzip" | "x-gzip") => Box::new(MultiGzDecoder::new(reader)),
        Some(_) => return Err(HttpError::Compressed),
    };
    reader
        .take(most.saturating_add(1))
        .read_to_end(&mut body)
        .map_err(|error| HttpError::Body(Arc::new(error)))?;
    if body.len() as u64 > most {
        Err(HttpError::TooLong(most))
    } else {
        Ok(HttpAnswer { status, body })
    }
}
