//! The ClientHello of a TLS client, read without answering it, for the application protocols that
//! it offers.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Rewind;

/// A ClientHello may have at most this many bytes: one TLS record.
const LIMIT: usize = 16 << 10;
/// Bytes read at a time.
const STEP: usize = 2048;

/// The protocols that a client offers (RFC 7301); `None` if it sends no ALPN extension.
pub(crate) type Offers = Option<Vec<Vec<u8>>>;

/// Reads the ClientHello. The returned connection yields its bytes again.
///
/// # Errors
/// The bytes are not a ClientHello, it is too long, or the connection ends before it is complete.
pub(crate) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
) -> io::Result<(Offers, Rewind<S>)> {
    let (mut acceptor, mut read) = (Acceptor::default(), Vec::new());
    loop {
        let mut part = [0; STEP];
        let count = stream.read(&mut part).await?;
        let mut part = part.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(part);
        if read.len() > LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the TLS ClientHello is longer than 16 KiB",
            ));
        }
        while !part.is_empty() {
            acceptor.read_tls(&mut part)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let offers = accepted
                        .client_hello()
                        .alpn()
                        .map(|offers| offers.map(<[u8]>::to_vec).collect());
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
