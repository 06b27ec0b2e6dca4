//! A client with little overhead: HTTP/1.1 with keep-alive over rustls and a blocking socket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, ClientConnection, StreamOwned,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};

use super::tls::trusting;

/// A certificate and its key for handshakes, which never resume an earlier session.
#[derive(Clone)]
pub struct Credentials(Arc<ClientConfig>);

impl Credentials {
    /// From a certificate and a PKCS#8 key, both DER.
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let chain = vec![CertificateDer::from(certificate)];
        let mut config = trusting()
            .with_client_auth_cert(chain, key)
            .expect("a certificate and its key");
        config.resumption = Resumption::disabled();
        Self(Arc::new(config))
    }
}

/// One connection.
pub struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
    token: String,
    buffer: Vec<u8>,
    /// The length of what was received of an answer.
    filled: usize,
}

impl Client {
    /// Connects; requests carry this session token unless it is empty.
    pub fn new(at: SocketAddr, token: &str) -> Self {
        static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        let config = CONFIG.get_or_init(|| Arc::new(trusting().with_no_client_auth()));
        let mut client = Self::over(at, config.clone());
        client.carry(token);
        client
    }

    /// Connects with a certificate and completes the handshake.
    pub fn presenting(at: SocketAddr, credentials: &Credentials) -> Self {
        let mut client = Self::over(at, credentials.0.clone());
        while client.stream.conn.is_handshaking() {
            client
                .stream
                .conn
                .complete_io(&mut client.stream.sock)
                .expect("a handshake");
        }
        client
    }

    fn over(at: SocketAddr, config: Arc<ClientConfig>) -> Self {
        let socket = TcpStream::connect(at).expect("a connection");
        socket.set_nodelay(true).expect("a socket");
        let connection =
            ClientConnection::new(config, ServerName::from(at.ip())).expect("a TLS session");
        Self {
            stream: StreamOwned::new(connection, socket),
            token: String::new(),
            buffer: vec![0; 1 << 14],
            filled: 0,
        }
    }

    /// Sets the session token of further requests.
    pub fn carry(&mut self, token: &str) {
        self.token = if token.is_empty() {
            String::new()
        } else {
            format!("zt-session: {token}\r\n")
        };
    }

    /// Sends a request and returns the body of its answer, which must be a success.
    pub fn send(&mut self, method: &str, path: &str, body: &str) -> &[u8] {
        let (status, answer) = self.ask(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(answer)
        );
        answer
    }

    /// Sends a request and returns the status and body of its answer.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, &[u8]) {
        let (token, length) = (&self.token, body.len());
        let media = if body.starts_with('{') {
            "application/json"
        } else {
            "text/plain"
        };
        let content = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: {media}\r\ncontent-length: {length}\r\n")
        };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n{token}{content}\r\n{body}");
        self.stream
            .write_all(request.as_bytes())
            .expect("a request");
        self.filled = 0;
        let (status, start, length) = loop {
            self.read();
            if let Some(found) = head(&self.buffer[..self.filled]) {
                break found;
            }
        };
        let end = match length {
            Some(length) => start + length,
            None => self.chunks(start),
        };
        while self.filled < end {
            self.read();
        }
        (status, &self.buffer[start..end])
    }

    /// Reads what has arrived.
    fn read(&mut self) {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        let read = self
            .stream
            .read(&mut self.buffer[self.filled..])
            .expect("an answer");
        assert!(read > 0, "the connection ended within an answer");
        self.filled += read;
    }

    /// Reads the chunks (RFC 9112, section 7.1) from `start` on and leaves their data there.
    /// Returns the end of the data.
    fn chunks(&mut self, start: usize) -> usize {
        const BREAK: &[u8] = b"\r\n";
        let (mut at, mut end) = (start, start);
        loop {
            let line = loop {
                match self.buffer[at..self.filled]
                    .windows(BREAK.len())
                    .position(|bytes| bytes == BREAK)
                {
                    Some(line) => break line,
                    None => self.read(),
                }
            };
            let size = std::str::from_utf8(&self.buffer[at..at + line])
                .ok()
                .and_then(|size| usize::from_str_radix(size, 16).ok());
            let (data, size) = (at + line + BREAK.len(), size.expect("the size of a chunk"));
            at = data + size + BREAK.len();
            while self.filled < at {
                self.read();
            }
            if size == 0 {
                return end;
            }
            self.buffer.copy_within(data..data + size, end);
            end += size;
        }
    }
}

/// For a complete head: the status, its length with the blank line, and the length of the body,
/// unless it comes in chunks.
fn head(answer: &[u8]) -> Option<(u16, usize, Option<usize>)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end])
        .expect("a head")
        .to_ascii_lowercase();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    assert!(
        length.is_some() || head.contains("transfer-encoding: chunked"),
        "the length of the body is unknown"
    );
    Some((status, end, length))
}
