//! Limits that are checked before a request is processed, and time limits of its parts.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use actix_web::{HttpRequest, http::Version};
use futures_util::FutureExt;
use listener::Shutdown;
use model::error::{Error, Refusal, Result};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        oneshot::{Receiver, Sender, channel},
    },
    time::sleep,
};

use super::permission::Permission;

/// Seconds in `retry-after` when too many requests are running.
const RETRY: u32 = 1;

/// The most bytes of a target that the types of the HTTP libraries take, less some for the mark
/// that it is longer than the limit.
const MAX_TARGET: usize = 65_500;

/// The maximum bytes of a target, where a head may have `head` bytes.
pub fn target_bound(head: usize) -> usize {
    head.min(MAX_TARGET)
}

/// The time in which a request's body must arrive after the listener began to stop.
const BODY_STOP_GRACE: Duration = Duration::from_secs(2);

/// Limits of requests and of what they create.
#[derive(Debug, Clone)]
pub struct RequestLimits {
    /// Concurrently processed requests; as many again may wait for their bodies.
    pub requests: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body of an operation that needs no session.
    pub open_body: usize,
    /// The time for a body to arrive, and then for the answer.
    pub time: Duration,
    /// Certificates of one session.
    pub certificates: usize,
    /// Allowed origins of web pages; `*` for all.
    pub origins: Vec<String>,
}

impl RequestLimits {
    /// The maximum bytes of a body of an operation with this permission.
    pub(crate) fn body_of(&self, permission: Permission) -> usize {
        if permission == Permission::Open {
            self.open_body.min(self.body)
        } else {
            self.body
        }
    }
}

/// The slot of a running request, released on drop.
pub(crate) type RequestSlot = OwnedSemaphorePermit;

/// Admits or rejects requests. An admitted request waits only for the rest of its body.
pub(crate) struct Admission {
    permits: Arc<Semaphore>,
    head: usize,
    arrivals: Arrivals,
    stopping: OnceLock<Shutdown>,
}

impl Admission {
    /// With these limits.
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        let arrivals = Arrivals {
            limit: limits.requests,
            waiting: Mutex::default(),
        };
        Self {
            permits: Arc::new(Semaphore::new(limits.requests)),
            head: limits.head,
            arrivals,
            stopping: OnceLock::new(),
        }
    }

    /// Sets the shutdown. Requests wait for their bodies until [`BODY_STOP_GRACE`] after it begins.
    pub(crate) fn end_with(&self, stopping: Shutdown) {
        self.stopping.get_or_init(|| stopping);
    }

    /// Admits a request; it counts as running as long as its slot is held.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many requests are running; [`Refusal::TargetTooLong`],
    /// [`Refusal::HeadTooLarge`].
    pub(crate) fn admit(&self, request: &HttpRequest) -> Result<RequestSlot> {
        let slot = self.slot()?;
        let uri = request.uri();
        let target = uri
            .path_and_query()
            .map_or(0, |target| target.as_str().len());
        let origin = uri
            .scheme_str()
            .map_or(0, |scheme| scheme.len() + "://".len())
            + uri.authority().map_or(0, |name| name.as_str().len());
        // The origin counts only if the target names it: every HTTP/2 request does, beside the
        // target.
        let origin = if request.version() == Version::HTTP_2 {
            0
        } else {
            origin
        };
        if origin + target > target_bound(self.head) {
            return Err(Error::Refused(Refusal::TargetTooLong));
        }
        let head = request.headers().iter().fold(target, |sum, (name, value)| {
            sum + name.as_str().len() + value.len()
        });
        if head > self.head {
            Err(Error::Refused(Refusal::HeadTooLarge))
        } else {
            Ok(slot)
        }
    }

    /// Completes [`BODY_STOP_GRACE`] after the listener began to stop.
    async fn left(&self) {
        match self.stopping.get() {
            Some(stopping) => stopping.connection().ends().await,
            None => std::future::pending().await,
        }
        sleep(BODY_STOP_GRACE).await;
    }

    fn slot(&self) -> Result<RequestSlot> {
        self.permits
            .clone()
            .try_acquire_owned()
            .map_err(|_| Error::Busy { retry_after: RETRY })
    }

    /// Waits for the body of an admitted request. While a body is incomplete, its request holds no
    /// slot, so that a client that sends nothing takes no slot. If too many requests wait for their
    /// bodies, the one that has waited longest is rejected.
    ///
    /// # Errors
    /// [`Refusal::TooSlow`], [`Error::Busy`], and those of `body`.
    pub(crate) async fn body<T>(
        &self,
        slot: RequestSlot,
        time: Duration,
        body: impl Future<Output = Result<T>>,
    ) -> Result<(T, RequestSlot)> {
        let mut body = pin!(body);
        if let Some(arrived) = body.as_mut().now_or_never() {
            return arrived.map(|body| (body, slot));
        }
        drop(slot);
        let (_arrival, overtaken) = self.arrivals.wait();
        let arrived = tokio::select! {
            arrived = within(time, Refusal::TooSlow, body) => arrived?,
            _ = overtaken => return Err(Error::Refused(Refusal::TooSlow)),
            () = self.left() => return Err(Error::Refused(Refusal::TooSlow)),
        };
        Ok((arrived, self.slot()?))
    }
}

/// Requests that wait for their bodies, oldest first.
struct Arrivals {
    limit: usize,
    waiting: Mutex<ArrivalTimer>,
}

#[derive(Default)]
struct ArrivalTimer {
    next: u64,
    /// Dropping a sender notifies its request that it is rejected.
    bodies: BTreeMap<u64, Sender<()>>,
}

impl Arrivals {
    /// Registers a request. The receiver resolves when the request must be rejected.
    fn wait(&self) -> (Arrival<'_>, Receiver<()>) {
        let (overtake, overtaken) = channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.bodies.len() >= self.limit {
            waiting.bodies.pop_first();
        }
        let id = waiting.next;
        waiting.next += 1;
        waiting.bodies.insert(id, overtake);
        (Arrival { among: self, id }, overtaken)
    }
}

/// A registered wait, ended on drop.
struct Arrival<'a> {
    among: &'a Arrivals,
    id: u64,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.among
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .bodies
            .remove(&self.id);
    }
}

/// The result of `work`, or the error `refusal` if `work` takes longer than `time`.
///
/// # Errors
/// Those of `work`, or `refusal`.
pub(crate) async fn within<T>(
    time: Duration,
    refusal: Refusal,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(time, work)
        .await
        .unwrap_or(Err(Error::Refused(refusal)))
}
