//! Connections that may be slow, half-open, idle, or present a certificate: HTTP/1.1 over rustls
//! and a blocking socket.

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::{
    ClientConfig, ClientConnection, StreamOwned,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};

use super::tls::trusting;

/// How to connect.
#[derive(Clone)]
pub struct Manner(Arc<ClientConfig>);

impl Manner {
    /// Without a certificate.
    pub fn plain() -> Self {
        Self::new(trusting().with_no_client_auth())
    }

    /// Without a certificate, with HTTP/2.
    pub fn multiplexed() -> Self {
        let mut config = trusting().with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::new(config)
    }

    /// With a certificate and its key.
    pub fn showing(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self::new(
            trusting()
                .with_client_auth_cert(chain, key)
                .expect("a certificate and its key"),
        )
    }

    /// The TLS configuration, for callers that connect themselves.
    #[allow(dead_code, reason = "only the relay bench makes some")]
    pub fn tls(&self) -> &Arc<ClientConfig> {
        &self.0
    }

    fn new(mut config: ClientConfig) -> Self {
        // Without resumption, so that every connection does a full handshake.
        config.resumption = Resumption::disabled();
        Self(Arc::new(config))
    }
}

/// One connection.
pub struct Wire {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// Seconds to wait, if the answer has a `Retry-After`.
    pub retry_after: Option<u64>,
    pub body: Vec<u8>,
}

impl Wire {
    /// Connects and completes the handshake.
    pub fn open(at: SocketAddr, manner: &Manner) -> Result<Self> {
        Self::over(TcpStream::connect(at)?, at, manner)
    }

    /// The same from another address of this machine.
    #[allow(dead_code, reason = "only the flood bench comes from elsewhere")]
    pub fn open_from(from: IpAddr, at: SocketAddr, manner: &Manner) -> Result<Self> {
        let socket = socket(
            if at.is_ipv4() {
                AddressFamily::INET
            } else {
                AddressFamily::INET6
            },
            SocketType::STREAM,
            None,
        )?;
        bind(&socket, &SocketAddr::new(from, 0))?;
        connect(&socket, &at)?;
        Self::over(socket.into(), at, manner)
    }

    fn over(socket: TcpStream, at: SocketAddr, manner: &Manner) -> Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        let connection = ClientConnection::new(manner.0.clone(), ServerName::from(at.ip()))
            .map_err(Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a request and reads its answer; `head` is lines of headers, each with its line end.
    pub fn ask(&mut self, method: &str, path: &str, head: &str, body: &str) -> Result<Answer> {
        self.send(request(method, path, head, body).as_bytes())?;
        self.answer()
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream.sock
    }

    /// Reads an answer.
    pub fn answer(&mut self) -> Result<Answer> {
        let mut part = [0; 16384];
        self.buffer.clear();
        loop {
            if let Some((answer, length)) = parsed(&self.buffer)
                && answer.body.len() >= length
            {
                return Ok(answer);
            }
            match self.stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&part[..count]),
            }
        }
    }
}

/// A request; `head` is lines of headers, each with its line end.
pub fn request(method: &str, path: &str, head: &str, body: &str) -> String {
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let media = if body.is_empty() {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n{head}{media}{length}\r\n{body}")
}

/// An answer whose head is complete, with the body read so far, and the announced length of the
/// body.
fn parsed(bytes: &[u8]) -> Option<(Answer, usize)> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_default();
    let number = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    let answer = Answer {
        status,
        retry_after: number("retry-after:"),
        body: bytes[end..].to_vec(),
    };
    Some((
        answer,
        number("content-length:").unwrap_or_default() as usize,
    ))
}
