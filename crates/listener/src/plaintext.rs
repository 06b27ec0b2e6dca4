//! Answers clients that speak HTTP on the TLS port: the answer says to use https.
//!
//! A TLS connection begins with a handshake record (RFC 8446, section 5.1), whose first byte is 22;
//! an HTTP/1 request begins with a letter. Only the first byte is read, and the answer is constant.
//! Invariant: such a connection costs no more than a handshake.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a client may take to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

const ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 68\r\nconnection: close\r\n\r\n\
    This port speaks https only: use https:// instead of http:// here.\r\n";
/// At most this much of the request is read: unread bytes would make the system reset the
/// connection and discard the answer.
const MAX_READ: usize = 16 << 10;

/// The connection, unless it begins with a letter; then it is answered and closed. Also `None` if
/// no byte arrives within `time_limit`.
pub(crate) async fn admitted(mut socket: TcpStream, time_limit: Duration) -> Option<TcpStream> {
    let mut first = [0];
    match timeout(time_limit, socket.peek(&mut first)).await {
        Ok(Ok(1)) if !first[0].is_ascii_alphabetic() => return Some(socket),
        Ok(Ok(1)) => drop(timeout(ANSWER_TIMEOUT, answer_http(&mut socket)).await),
        _ => {}
    }
    None
}

async fn answer_http(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(ANSWER).await?;
    socket.shutdown().await?;
    let (mut part, mut left) = ([0; 1024], MAX_READ);
    loop {
        let read = socket.read(&mut part).await?;
        left = left.saturating_sub(read);
        if read == 0 || left == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ANSWER;

    #[test]
    fn answer_length_is_correct() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{}",
            body.len()
        );
    }
}
