//! The interfaces of a running controller, and which row of them a request leads to.
//! Not here: the way of a request to its answer (`serve.rs`).
//!
//! Each interface has a radix tree of its paths. The default service of actix-web uses these trees,
//! because actix-web itself would try its resources one after the other.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use listener::Shutdown;
use model::{
    entity::{Id, Identity},
    error::{Error, Refusal, Result},
};

use super::{
    Interfaces, health,
    limits::Admission,
    route::{Interface, RouteMatch},
    row::Row,
    state::AppState,
};

/// First path segments that belong to no interface.
const RESERVED: [&str; 3] = ["docs", "metrics", "oidc"];

/// Where a request leads.
pub(super) struct Route<'d> {
    pub interface: &'static str,
    pub row: &'d Row,
    /// The values of the path parameters.
    pub segments: Vec<String>,
}

/// The interfaces and their state.
pub struct Dispatcher {
    pub state: Arc<AppState>,
    pub interfaces: Interfaces,
    pub(super) admission: Admission,
    requests: AtomicU64,
    /// The default administrator, who is the caller of requests over the admin socket; set by the
    /// first such request.
    pub(super) administrator: OnceLock<Id<Identity>>,
}

impl Dispatcher {
    /// A dispatcher for these interfaces.
    pub fn new(state: Arc<AppState>, interfaces: Interfaces) -> Self {
        let admission = Admission::new(&state.limits.load());
        Self {
            state,
            interfaces,
            admission,
            requests: AtomicU64::new(0),
            administrator: OnceLock::new(),
        }
    }

    /// Sets the shutdown after which requests no longer wait for their bodies.
    pub(crate) fn end_with(&self, stopping: Shutdown) {
        self.admission.end_with(stopping);
    }

    /// The interface of a path, and the path below its base. The path is one of [`normal_path`].
    fn locate(&self, path: &str) -> Option<(&Interface, String)> {
        let Interfaces {
            management,
            client,
            overkeep,
            fabric,
        } = &self.interfaces;
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let below = |parts: &mut dyn Iterator<Item = &str>| {
            parts.fold(String::new(), |path, part| path + "/" + part)
        };
        let whole = |path: String| {
            if path.is_empty() {
                "/".to_owned()
            } else {
                path
            }
        };
        match parts.peek().copied() {
            Some("edge") => {
                parts.next();
                let interface = match (parts.next()?, parts.peek().copied()) {
                    ("v1", _) => client,
                    ("client", Some("v1")) => parts.next().map(|_| client)?,
                    ("management", Some("v1")) => parts.next().map(|_| management)?,
                    _ => return None,
                };
                Some((interface, whole(below(&mut parts))))
            }
            Some(name @ ("overkeep" | "fabric")) => {
                parts.next();
                let interface = if name == "fabric" { fabric } else { overkeep };
                (parts.next()? == "v1").then(|| (interface, whole(below(&mut parts))))
            }
            Some(".well-known") => Some((client, below(&mut parts))),
            Some(first) if RESERVED.contains(&first) || health::PATHS.contains(&first) => None,
            _ => Some((client, whole(below(&mut parts)))),
        }
    }

    /// The route of a request. The path is one of [`normal_path`].
    ///
    /// # Errors
    /// [`Refusal::UnknownPath`] or [`Refusal::MethodNotAllowed`].
    pub(super) fn find(&self, method: &str, path: &str) -> Result<Route<'_>> {
        let (interface, below) = self
            .locate(path)
            .ok_or(Error::Refused(Refusal::UnknownPath))?;
        match interface.find(method, &below) {
            RouteMatch::Row(row, segments) => Ok(Route {
                interface: interface.name,
                row,
                segments,
            }),
            RouteMatch::OtherMethod => Err(Error::Refused(Refusal::MethodNotAllowed)),
            RouteMatch::Nothing => Err(Error::Refused(Refusal::UnknownPath)),
        }
    }

    pub(super) fn request_id(&self) -> String {
        format!(
            "{}-{}",
            self.state.instance.id,
            self.requests.fetch_add(1, Ordering::Relaxed)
        )
    }
}
