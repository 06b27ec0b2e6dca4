//! Sends an answer on an HTTP/2 stream (RFC 9113), in parts as the client reads.
//!
//! Not here: the connection and its requests (`connection/http2.rs`). Invariant: a part that was
//! passed to `h2` and is not yet written keeps the memory of its answer in the account of the
//! connection.

use std::{error::Error as StdError, future::poll_fn, pin::pin, sync::Arc};

use actix_http::{
    Response,
    body::{BodySize, BoxBody, MessageBody},
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};
use actix_web::web::Bytes;
use h2::{SendStream, server::SendResponse};
use tokio::time::{Instant, timeout};

use super::{connection_shared::ConnectionShared, memory_ledger::Hold, response_body::PART};

/// Sends an answer in parts as the client reads. Progress is recorded in the hold and the
/// connection.
///
/// # Errors
/// The body fails, or the client reads nothing for too long or resets the stream.
pub(crate) async fn send(
    line: &ConnectionShared,
    mut respond: SendResponse<Part>,
    reply: Response<BoxBody>,
    is_head: bool,
    hold: Arc<Hold>,
) -> Result<(), Box<dyn StdError>> {
    let (reply, body) = reply.into_parts();
    let mut left = match body.size() {
        BodySize::None => Some(0),
        BodySize::Sized(bytes) => Some(bytes),
        BodySize::Stream => None,
    };
    let head = head(&reply, body.size())?;
    let is_whole = is_head || left == Some(0);
    let mut stream = respond.send_response(head, is_whole)?;
    if is_whole {
        return Ok(());
    }
    let mut body = pin!(body);
    loop {
        let next = tokio::select! {
            next = poll_fn(|cx| body.as_mut().poll_next(cx)) => next,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Ok(()),
        };
        let Some(part) = next else { break };
        let part = part?;
        left = left.map(|left| left.saturating_sub(part.len() as u64));
        if timeout(
            line.patience,
            give(&mut stream, part, left == Some(0), &hold),
        )
        .await
        .map_err(|_| line.cut_off())??
        {
            return Ok(());
        }
        line.moved.set(Instant::now());
        hold.took();
    }
    hold.took_all();
    stream.send_data(
        Part {
            bytes: Bytes::new(),
            _hold: hold,
        },
        true,
    )?;
    Ok(())
}

/// Sends a part as the client's flow control allows; `is_last` ends the stream. Returns whether the
/// stream has ended.
async fn give(
    stream: &mut SendStream<Part>,
    mut part: Bytes,
    is_last: bool,
    hold: &Arc<Hold>,
) -> Result<bool, h2::Error> {
    while !part.is_empty() {
        stream.reserve_capacity(part.len().min(PART));
        let Some(room) = poll_fn(|cx| stream.poll_capacity(cx)).await.transpose()? else {
            return Ok(true);
        };
        let bytes = part.split_to(room.min(part.len()));
        let ends = is_last && part.is_empty();
        stream.send_data(
            Part {
                bytes,
                _hold: hold.clone(),
            },
            ends,
        )?;
        if ends {
            hold.took_all();
        }
    }
    Ok(is_last)
}

/// The head of an answer for HTTP/2, without the headers that it does not allow (RFC 9113, section
/// 8.2.2).
fn head(reply: &Response<()>, size: BodySize) -> Result<http::Response<()>, http::Error> {
    let mut head = http::Response::builder().status(reply.status().as_u16());
    let only_1 = [CONNECTION, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
    for (name, value) in reply.headers() {
        if !only_1.contains(name) && name != "keep-alive" && name != "proxy-connection" {
            head = head.header(name.as_str(), value.as_bytes());
        }
    }
    if !reply.headers().contains_key("date") {
        head = head.header(
            "date",
            httpdate::fmt_http_date(std::time::SystemTime::now()),
        );
    }
    if let BodySize::Sized(bytes) = size {
        head = head.header("content-length", bytes);
    }
    head.body(())
}

/// A part of an answer that `h2` has not written yet.
pub(crate) struct Part {
    bytes: Bytes,
    _hold: Arc<Hold>,
}

impl bytes::Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }
    fn advance(&mut self, count: usize) {
        bytes::Buf::advance(&mut self.bytes, count);
    }
}
