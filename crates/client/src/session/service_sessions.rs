//! The sessions for services that an API session has: the rights to dial or to host them.
//!
//! Who asks a controller 1.7.2 for a session that the API session has already gets its id, and a
//! token that no router accepts. So each is asked for by one at a time, and one with the same id
//! keeps the token that came first.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::{error::SessionError, service::Right};
use crate::{controller::or_default, routers::EdgeRouter};

/// The right to dial or to host one service.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSession {
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    pub(super) token: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) edge_routers: Vec<EdgeRouter>,
    #[serde(skip)]
    is_outdated: AtomicBool,
}

/// The sessions, by the right and the id of the service.
#[derive(Default)]
pub(super) struct ServiceSessions(Mutex<HashMap<(Right, String), Arc<Place>>>);

/// The place of the session for one service.
#[derive(Default)]
struct Place {
    /// The session, and the token of the API session that it belongs to.
    known: Mutex<Option<(Arc<ServiceSession>, String)>>,
    /// Held while it is asked for. When and why that failed last.
    asking: AsyncMutex<Option<(Instant, SessionError)>>,
}

impl ServiceSession {
    /// It may have ended, and is asked for anew the next time.
    pub(super) fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
    }
}

impl Place {
    /// The session of this API session.
    fn of(&self, login: &str) -> Option<Arc<ServiceSession>> {
        let known = self.known.lock();
        let (session, of) = known.as_ref()?;
        (of == login).then(|| Arc::clone(session))
    }

    /// The same, unless it may have ended.
    fn present(&self, login: &str) -> Option<Arc<ServiceSession>> {
        self.of(login)
            .filter(|session| !session.is_outdated.load(Ordering::Relaxed))
    }
}

impl ServiceSessions {
    fn place(&self, right: Right, service: &str) -> Arc<Place> {
        let mut places = self.0.lock();
        Arc::clone(places.entry((right, service.to_owned())).or_default())
    }

    /// The session for a service, by its id: the one that is known, or else the one that `ask` asks
    /// for. `login` is the token of the API session, which asking may replace.
    ///
    /// # Errors
    /// Those of `ask`. Who waited for another one to ask gets the same.
    pub(super) async fn get(
        &self,
        right: Right,
        service: &str,
        login: impl Fn() -> String,
        ask: impl Future<Output = Result<ServiceSession, SessionError>>,
    ) -> Result<Arc<ServiceSession>, SessionError> {
        let place = self.place(right, service);
        if let Some(session) = place.present(&login()) {
            return Ok(session);
        }
        let begin = Instant::now();
        let mut failed = place.asking.lock().await;
        if let Some(session) = place.present(&login()) {
            return Ok(session);
        }
        if let Some((at, error)) = &*failed
            && *at > begin
        {
            return Err(error.clone());
        }
        let mut session = match ask.await {
            Ok(session) => session,
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                return Err(error);
            }
        };
        let login = login();
        if let Some(former) = place.of(&login)
            && former.id == session.id
        {
            session.token.clone_from(&former.token);
        }
        let session = Arc::new(session);
        *place.known.lock() = Some((Arc::clone(&session), login));
        Ok(session)
    }

    /// Forgets the sessions for a service.
    pub(super) fn forget(&self, service: &str) {
        self.0.lock().retain(|(_, id), _| id != service);
    }

    /// Asks for the session anew the next time.
    pub(super) fn outdate(&self, right: Right, service: &str) {
        if let Some((session, _)) = &*self.place(right, service).known.lock() {
            session.outdate();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, time::Duration};

    use tokio::time::sleep;

    use super::*;

    fn session(id: &str, token: &str) -> ServiceSession {
        ServiceSession {
            id: id.to_owned(),
            token: token.to_owned(),
            edge_routers: Vec::new(),
            is_outdated: AtomicBool::new(false),
        }
    }

    /// The token of the session for a service, when the controller would answer `answer`.
    async fn token(sessions: &ServiceSessions, login: &str, answer: ServiceSession) -> String {
        let login = || login.to_owned();
        let got = sessions.get(Right::Dial, "service", login, async { Ok(answer) });
        got.await.unwrap().token.clone()
    }

    #[tokio::test]
    async fn a_session_that_is_asked_for_again_keeps_its_token() {
        let sessions = ServiceSessions::default();
        assert_eq!(token(&sessions, "login", session("1", "a")).await, "a");
        assert_eq!(token(&sessions, "login", session("2", "b")).await, "a");
        sessions.outdate(Right::Dial, "service");
        assert_eq!(token(&sessions, "login", session("1", "b")).await, "a");
        sessions.outdate(Right::Dial, "service");
        assert_eq!(token(&sessions, "login", session("2", "c")).await, "c");
        assert_eq!(token(&sessions, "other", session("2", "d")).await, "d");
        // One that was forgotten has no token to keep.
        sessions.forget("service");
        assert_eq!(token(&sessions, "other", session("2", "e")).await, "e");
    }

    #[tokio::test]
    async fn many_who_need_a_session_ask_once() {
        let (sessions, asked) = (ServiceSessions::default(), AtomicUsize::new(0));
        let get = |is_there: bool| {
            let asked = &asked;
            let ask = async move {
                sleep(Duration::from_millis(20)).await;
                let before = asked.fetch_add(1, Ordering::Relaxed);
                if is_there {
                    Ok(session("1", &before.to_string()))
                } else {
                    Err(SessionError::NoCertificate)
                }
            };
            sessions.get(Right::Bind, "service", String::new, ask)
        };
        let (one, two, three) = tokio::join!(get(false), get(false), get(false));
        assert!(one.is_err() && two.is_err() && three.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let (one, two, three) = tokio::join!(get(true), get(true), get(true));
        for one in [one, two, three] {
            assert_eq!(one.unwrap().token, "1");
        }
    }
}
