//! A server with TLS on this host, for tests that play another server of the controller or of the
//! command line.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    sync::Arc,
    thread,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// A server that does not answer yet.
pub struct HttpsServer {
    pub url: String,
    listener: TcpListener,
    config: Arc<ServerConfig>,
}

impl HttpsServer {
    /// Takes a free port. Writes the certificate of its authority to `trusted`.
    pub fn bind(trusted: &Path) -> Self {
        let mut params = CertificateParams::default();
        (params.is_ca, params.key_usages) = (
            IsCa::Ca(BasicConstraints::Unconstrained),
            vec![KeyUsagePurpose::KeyCertSign],
        );
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(trusted, authority.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &authority)
            .unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = Arc::new(
            config
                .with_no_client_auth()
                .with_single_cert(vec![leaf.der().clone()], key)
                .unwrap(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            url: format!(
                "https://127.0.0.1:{}",
                listener.local_addr().unwrap().port()
            ),
            listener,
            config,
        }
    }

    /// Answers each request, one after another: `answer` gets its target and its body.
    pub fn run(self, answer: impl Fn(&str, &str) -> String + Send + 'static) {
        thread::spawn(move || {
            for stream in self.listener.incoming() {
                let mut stream = StreamOwned::new(
                    ServerConnection::new(self.config.clone()).unwrap(),
                    stream.unwrap(),
                );
                let Some((target, body)) = request(&mut stream) else {
                    continue;
                };
                stream.write_all(answer(&target, &body).as_bytes()).ok();
                stream.conn.send_close_notify();
                stream.flush().ok();
            }
        });
    }
}

/// Target and body of a request.
fn request(stream: &mut impl Read) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut target, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if target.is_empty() {
            target = line.split(' ').nth(1)?.to_owned();
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((target, String::from_utf8(body).ok()?))
}

/// A JSON answer.
pub fn answer_json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
