//! A client that costs little beside what it measures: HTTP/1.1, kept alive, over rustls and a blocking socket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// One connection.
pub struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
    token: String,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects; requests carry this session token unless it is empty.
    pub fn new(at: SocketAddr, token: &str) -> Self {
        let socket = TcpStream::connect(at).expect("a connection");
        socket.set_nodelay(true).expect("a socket");
        let connection = ClientConnection::new(config(), ServerName::from(at.ip())).expect("a TLS session");
        let token = if token.is_empty() { String::new() } else { format!("zt-session: {token}\r\n") };
        Self { stream: StreamOwned::new(connection, socket), token, buffer: vec![0; 1 << 20] }
    }

    /// Sends a request and gives the body of its answer, which must be a success.
    pub fn send(&mut self, method: &str, path: &str, body: &str) -> &[u8] {
        let (token, length) = (&self.token, body.len());
        let content =
            if body.is_empty() { String::new() } else { format!("content-type: application/json\r\ncontent-length: {length}\r\n") };
        let request = format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n{token}{content}\r\n{body}");
        self.stream.write_all(request.as_bytes()).expect("a request");
        let mut filled = 0;
        let (head, length) = loop {
            filled += self.stream.read(&mut self.buffer[filled..]).expect("an answer");
            if let Some(found) = head(&self.buffer[..filled]) {
                break found;
            }
        };
        if self.buffer.len() < head + length {
            self.buffer.resize(head + length, 0);
        }
        while filled < head + length {
            filled += self.stream.read(&mut self.buffer[filled..]).expect("an answer");
        }
        let answer = &self.buffer[..head + length];
        assert!(answer.starts_with(b"HTTP/1.1 2"), "{method} {path}: {}", String::from_utf8_lossy(answer));
        &answer[head..]
    }
}

/// The lengths of a complete head, with the blank line, and of the body that it announces.
fn head(answer: &[u8]) -> Option<(usize, usize)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).expect("a head");
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    Some((end, length.expect("a content-length")))
}

fn config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let make = || {
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().expect("versions");
        let anybody = versions.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)));
        Arc::new(anybody.with_no_client_auth())
    };
    CONFIG.get_or_init(make).clone()
}

/// The server is a child of this process: whoever it says it is.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
