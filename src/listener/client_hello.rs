//! The first message of a TLS client, read without an answer to it: which application protocols does it offer?

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Rewind;

/// A hello has at most this many bytes: one record of TLS.
const MOST: usize = 16 << 10;
/// So many are read at a time.
const STEP: usize = 2048;

/// What a client offers (RFC 7301), nothing if it does not say.
pub type Offers = Option<Vec<Vec<u8>>>;

/// Reads the hello of a client. It is read again from the connection that comes back.
///
/// # Errors
/// It is none, it is too long, or it does not come whole.
pub async fn read<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<(Offers, Rewind<S>)> {
    let (mut acceptor, mut read) = (Acceptor::default(), Vec::new());
    loop {
        let mut part = [0; STEP];
        let count = stream.read(&mut part).await?;
        let mut part = part.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(part);
        if read.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the hello of a client is too long"));
        }
        while !part.is_empty() {
            acceptor.read_tls(&mut part)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let offers = accepted.client_hello().alpn().map(|offers| offers.map(<[u8]>::to_vec).collect());
                    return Ok((offers, Rewind::new(read, stream)));
                }
                Err((error, mut alert)) => {
                    let mut answer = Vec::new();
                    alert.write_all(&mut answer)?;
                    stream.write_all(&answer).await?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }
}
