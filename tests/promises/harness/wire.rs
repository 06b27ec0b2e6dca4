//! A TLS connection without an HTTP library: a test decides which bytes are sent, and when.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

use super::{caller::Caller, tls};

/// An HTTP/2 frame.
pub fn frame(kind: u8, flags: u8, stream: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), bytes].concat()
}

/// A complete HTTP/2 request for a path (RFC 7541).
pub fn asking_for(path: &str, stream: u32) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    frame(
        1,
        5,
        stream,
        &[
            b"\x82\x87\x44",
            &[length][..],
            path.as_bytes(),
            b"\x41\x02it",
        ]
        .concat(),
    )
}

/// A TLS connection whose server certificate is not verified.
pub struct Wire(StreamOwned<ClientConnection, TcpStream>);

impl Wire {
    /// Connects to the controller of a caller.
    pub fn to(caller: &Caller) -> Self {
        Self::with_protocol(caller, b"http/1.1")
    }

    /// The same with HTTP/2 (RFC 9113) and this initial window per stream.
    pub fn multiplexed(caller: &Caller, window: u32) -> Self {
        let mut wire = Self::with_protocol(caller, b"h2");
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        wire.send(&frame(
            4,
            0,
            0,
            &[&[0, 4], &window.to_be_bytes()[..]].concat(),
        ))
        .unwrap();
        wire
    }

    fn with_protocol(caller: &Caller, protocol: &[u8]) -> Self {
        let at = caller.url.strip_prefix("https://").unwrap();
        let socket = TcpStream::connect(at).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (mut config, name) = (
            tls::trusting().with_no_client_auth(),
            ServerName::try_from("localhost").unwrap(),
        );
        config.alpn_protocols = vec![protocol.to_vec()];
        let mut stream = StreamOwned::new(
            ClientConnection::new(Arc::new(config), name).unwrap(),
            socket,
        );
        stream.conn.complete_io(&mut stream.sock).unwrap();
        Self(stream)
    }

    pub fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The HTTP/2 frames received until the other end closes or the read times out: kind and stream
    /// of each.
    pub fn frames(&mut self) -> Vec<(u8, u32)> {
        let (bytes, mut rest, mut frames) = (self.bytes().0, 0, Vec::new());
        while let Some(&[a, b, c, kind, _, d, e, f, g]) = bytes
            .get(rest..rest + 9)
            .and_then(|head| head.first_chunk::<9>())
        {
            frames.push((kind, u32::from_be_bytes([d, e, f, g])));
            rest += 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        }
        frames
    }

    /// A connection with this ALPN protocol on which nothing has been sent.
    pub fn bare(caller: &Caller, protocol: &[u8]) -> Self {
        Self::with_protocol(caller, protocol)
    }

    /// Closes the sending side. Returns what the other end sends until it closes.
    pub fn finish(mut self) -> String {
        self.0.conn.send_close_notify();
        drop(self.0.flush());
        drop(self.0.sock.shutdown(std::net::Shutdown::Write));
        self.read().0
    }

    /// Closes TLS and disconnects.
    pub fn leave(mut self) {
        self.0.conn.send_close_notify();
        self.0.flush().unwrap();
    }

    /// What is received until the other end closes or the read times out, and whether it was
    /// closed.
    pub fn read(&mut self) -> (String, bool) {
        let (read, closed) = self.bytes();
        (String::from_utf8_lossy(&read).into_owned(), closed)
    }

    /// The first part of what is received; nothing if the other end closes before.
    pub fn first(&mut self) -> String {
        let mut part = [0; 16384];
        let count = self.0.read(&mut part).unwrap_or_default();
        String::from_utf8_lossy(&part[..count]).into_owned()
    }

    fn bytes(&mut self) -> (Vec<u8>, bool) {
        let (mut read, mut part) = (Vec::new(), [0; 16384]);
        let closed = loop {
            match self.0.read(&mut part) {
                Ok(0) => break true,
                Ok(count) => read.extend_from_slice(&part[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        (read, closed)
    }
}
