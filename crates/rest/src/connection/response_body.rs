//! The body of an answer. The body is passed to the HTTP library in small parts, so that the
//! library copies no more than it can send.

use std::{
    error::Error as StdError,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use actix_web::{
    body::{BodySize, BoxBody, MessageBody},
    web::Bytes,
};

use super::memory_ledger::Hold;

/// The maximum bytes of a part: the default HTTP/2 frame size (RFC 9113, section 4.2).
pub(crate) const PART: usize = 16 << 10;

/// A body that is held for the client until it is sent.
pub(crate) struct Outgoing {
    body: BoxBody,
    /// Bytes from the body that are not passed on yet.
    rest: Bytes,
    hold: Option<Arc<Hold>>,
}

impl Outgoing {
    /// A body and its hold.
    pub(crate) fn new(body: BoxBody, hold: Option<Arc<Hold>>) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            hold,
        }
    }
}

impl MessageBody for Outgoing {
    type Error = Box<dyn StdError>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_next(cx)).transpose()? {
                Some(next) => this.rest = next,
                None => {
                    if let Some(hold) = &this.hold {
                        hold.took_all();
                    }
                    return Poll::Ready(None);
                }
            }
        }
        if let Some(hold) = &this.hold {
            hold.took();
        }
        let part = this.rest.split_to(this.rest.len().min(PART));
        Poll::Ready(Some(Ok(part)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::super::memory_ledger::{MemoryBounds, MemoryLedger};
    use super::*;

    #[test]
    fn bodies_go_out_in_parts() {
        let hold = Arc::new(
            MemoryLedger::new(MemoryBounds {
                each: 1,
                total: 1 << 30,
            })
            .open(None)
            .hold(0),
        );
        let mut body = Outgoing::new(BoxBody::new(Bytes::from(vec![7; 2 * PART + 1])), Some(hold));
        assert_eq!(body.size(), BodySize::Sized(2 * PART as u64 + 1));
        let mut next =
            || match Pin::new(&mut body).poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(part))) => part.len(),
                _ => 0,
            };
        assert_eq!([next(), next(), next(), next()], [PART, PART, 1, 0]);
    }
}
