//! A connection without a client library: what is sent is what a test says, however odd, and when it says so.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

use super::{caller::Caller, tls};

/// A TLS connection, whoever is at the other end.
pub struct Wire(StreamOwned<ClientConnection, TcpStream>);

impl Wire {
    /// Connects to the controller of a caller.
    pub fn to(caller: &Caller) -> Self {
        let at = caller.url.strip_prefix("https://").unwrap();
        let socket = TcpStream::connect(at).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (config, name) = (tls::trusting().with_no_client_auth(), ServerName::try_from("localhost").unwrap());
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket);
        stream.conn.complete_io(&mut stream.sock).unwrap();
        Self(stream)
    }

    pub fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Says that nothing more comes, and leaves.
    pub fn leave(mut self) {
        self.0.conn.send_close_notify();
        self.0.flush().unwrap();
    }

    /// What comes until the other end closes or cuts the connection off, or for so long nothing comes; and whether it was closed.
    pub fn read(&mut self) -> (String, bool) {
        let (mut read, mut part) = (Vec::new(), [0; 16384]);
        let closed = loop {
            match self.0.read(&mut part) {
                Ok(0) => break true,
                Ok(count) => read.extend_from_slice(&part[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        (String::from_utf8_lossy(&read).into_owned(), closed)
    }
}
