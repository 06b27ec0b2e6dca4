//! Bounds that are looked at before anything is done for a request, and how long its parts may take.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::HttpRequest;
use futures_util::FutureExt;
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    oneshot::{Receiver, Sender, channel},
};

use super::permission::Permission;
use crate::error::{Error, Refusal, Result};

/// Seconds after which it is worth asking again, when too many requests are under way.
const RETRY: u32 = 1;

/// Bounds on requests, and on what they may bring about.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests that are worked on at the same time, and as many again whose bodies are waited for.
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
    /// Bytes of a body of a request that needs this permission.
    pub fn body_of(&self, permission: Permission) -> usize {
        if permission == Permission::Open { self.open_body.min(self.body) } else { self.body }
    }
}

/// A place of a request that is worked on, until it is dropped.
pub type RequestSlot = OwnedSemaphorePermit;

/// Where a request is let in or sent away; it waits there for nothing but the rest of its body.
pub struct Admission {
    places: Arc<Semaphore>,
    head: usize,
    arrivals: Arrivals,
}

impl Admission {
    /// With the bounds of these limits.
    pub fn new(limits: &Limits) -> Self {
        let arrivals = Arrivals { most: limits.requests, waiting: Mutex::default() };
        Self { places: Arc::new(Semaphore::new(limits.requests)), head: limits.head, arrivals }
    }

    /// Lets a request in; it is worked on as long as its place is held.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many are; [`Refusal::HeadTooLarge`].
    pub fn admit(&self, request: &HttpRequest) -> Result<RequestSlot> {
        let place = self.place()?;
        let line = request.uri().path().len() + request.uri().query().map_or(0, str::len);
        let head = request.headers().iter().fold(line, |sum, (name, value)| sum + name.as_str().len() + value.len());
        if head > self.head { Err(Error::Refused(Refusal::HeadTooLarge)) } else { Ok(place) }
    }

    fn place(&self) -> Result<RequestSlot> {
        self.places.clone().try_acquire_owned().map_err(|_| Error::Busy { retry_after: RETRY })
    }

    /// Waits for the body of a request that has a place. One that is not there at once is waited for without that, so that whoever sends
    /// none takes nobody's place; of too many that are waited for, the one that has been longest is given up.
    ///
    /// # Errors
    /// [`Refusal::TooSlow`], [`Error::Busy`], and those of the body.
    pub async fn body<T>(&self, place: RequestSlot, time: Duration, body: impl Future<Output = Result<T>>) -> Result<(T, RequestSlot)> {
        let mut body = pin!(body);
        if let Some(arrived) = body.as_mut().now_or_never() {
            return arrived.map(|body| (body, place));
        }
        drop(place);
        let (_arrival, overtaken) = self.arrivals.wait();
        let arrived = tokio::select! {
            arrived = within(time, Refusal::TooSlow, body) => arrived?,
            _ = overtaken => return Err(Error::Refused(Refusal::TooSlow)),
        };
        Ok((arrived, self.place()?))
    }
}

/// Requests whose bodies are waited for, in their order.
struct Arrivals {
    most: usize,
    waiting: Mutex<ArrivalTimer>,
}

#[derive(Default)]
struct ArrivalTimer {
    next: u64,
    /// Dropped, they tell that others came.
    bodies: BTreeMap<u64, Sender<()>>,
}

impl Arrivals {
    /// Another one; it is waited for until the second of these ends.
    fn wait(&self) -> (Arrival<'_>, Receiver<()>) {
        let (here, overtaken) = channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.bodies.len() >= self.most {
            waiting.bodies.pop_first();
        }
        let id = waiting.next;
        waiting.next += 1;
        waiting.bodies.insert(id, here);
        (Arrival { among: self, id }, overtaken)
    }
}

/// A body that is waited for, until it is dropped.
struct Arrival<'a> {
    among: &'a Arrivals,
    id: u64,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.among.waiting.lock().unwrap_or_else(PoisonError::into_inner).bodies.remove(&self.id);
    }
}

/// What comes of some work, or a refusal where it takes too long.
///
/// # Errors
/// Its own, or the refusal.
pub async fn within<T>(time: Duration, refusal: Refusal, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(time, work).await.unwrap_or(Err(Error::Refused(refusal)))
}
