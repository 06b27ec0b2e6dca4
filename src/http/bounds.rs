//! Bounds that are looked at before anything is done for a request, and how long its parts may take.

use std::{future::Future, sync::Arc, time::Duration};

use actix_web::HttpRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::row::{Permission, Row};
use crate::error::{Error, Refusal, Result};

/// Where to come back when too many requests are under way, in seconds.
const RETRY: u32 = 1;

/// Bounds on requests, and on what they may bring about.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests that are worked on at the same time.
    pub requests: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body where anybody may send one.
    pub open_body: usize,
    /// Time for a body to arrive, and from then on for the answer.
    pub time: Duration,
    /// Certificates of one session at the same time.
    pub certificates: usize,
    /// Origins whose pages may call; `*` for all.
    pub origins: Vec<String>,
}

impl Limits {
    /// Bytes of a body for a row.
    pub fn body_of(&self, row: &Row) -> usize {
        if row.permission == Permission::Open { self.open_body.min(self.body) } else { self.body }
    }
}

/// Where a request waits to be let in, which it never does: it is let in or sent away.
pub struct Gate {
    places: Arc<Semaphore>,
    head: usize,
}

impl Gate {
    /// With the bounds of these limits.
    pub fn new(limits: &Limits) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.requests)), head: limits.head }
    }

    /// Lets a request in; it is under way as long as its place is held.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many are; [`Refusal::HeadTooLarge`].
    pub fn admit(&self, request: &HttpRequest) -> Result<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| Error::Busy { retry_after: RETRY })?;
        let line = request.uri().path().len() + request.uri().query().map_or(0, str::len);
        let head = request.headers().iter().fold(line, |sum, (name, value)| sum + name.as_str().len() + value.len());
        if head > self.head { Err(Error::Refused(Refusal::HeadTooLarge)) } else { Ok(place) }
    }
}

/// What comes of some work, or a refusal where it takes too long.
///
/// # Errors
/// Its own, or the refusal.
pub async fn within<T>(time: Duration, refusal: Refusal, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(time, work).await.unwrap_or(Err(Error::Refused(refusal)))
}
