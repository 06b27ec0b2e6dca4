//! The connection to a server: standard TLS with our own certificate verifier
//! (`crates/pki/src/server_verifier.rs`). ureq accepts no custom verifier, so this is our TLS layer
//! for it.

use std::{
    fmt,
    io::{Read, Write},
    sync::Arc,
};

use pki::ServerVerifier;
use rustls::{
    ClientConfig, ClientConnection, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};
use ureq::{
    Error,
    unversioned::transport::{
        Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
        TransportAdapter,
    },
};

/// Adds TLS to a connection if the address is https.
#[derive(Clone)]
pub(crate) struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    /// Trusts servers whose certificates chain to `trusted`.
    ///
    /// # Errors
    /// The crypto provider supports no TLS version, which is a defect.
    pub(crate) fn new(trusted: &[CertificateDer<'_>]) -> Result<Self, pki::Error> {
        let verifier = Arc::new(ServerVerifier::new(trusted));
        Ok(Self(Arc::new(pki::client_config(verifier, None)?)))
    }

    /// Connects with this configuration.
    pub(crate) fn of(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        below: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(below) = below else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(below)));
        }
        let host = details.uri.host().unwrap_or_default();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let name = ServerName::try_from(bare).map_err(|_| {
            Error::Tls("the host of the address is neither a DNS name nor an IP address")
        })?;
        let mut connection = ClientConnection::new(self.0.clone(), name.to_owned())?;
        let mut socket = TransportAdapter::new(below.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        connection.complete_io(&mut socket)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport {
            buffers,
            stream: StreamOwned::new(connection, socket),
        })))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector(..)")
    }
}

/// A connection with TLS.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport(..)")
    }
}
