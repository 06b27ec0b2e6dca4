//! Logging in with the certificate of the identity, and a second factor.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value as Json, json};

use super::{
    Session,
    error::SessionError,
    login::{AuthQuery, LoggedIn, RefusedLogIn, environment},
};
use crate::{
    IdentityFile,
    controller::RequestError,
    jittered,
    renewed_file::{Lock, adopt, pending},
};

/// The first pause after a log-in that was refused; it doubles up to the last one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LAST_PAUSE: Duration = Duration::from_secs(160);

impl Session {
    /// Logs in again, unless somebody else has done so since `former` was the token. For a while
    /// after a refusal nothing is asked, and that refusal is returned.
    pub(super) async fn renew(&self, former: &str) -> Result<(), SessionError> {
        let _one = self.0.logging_in.lock().await;
        if self.token() != former {
            return Ok(());
        }
        let pause = match &*self.0.refusal.lock() {
            Some(refused) if refused.until > Instant::now() => return Err(refused.error.clone()),
            Some(refused) => (refused.pause * 2).min(LAST_PAUSE),
            None => FIRST_PAUSE,
        };
        match self.authenticate().await {
            Ok(login) => {
                *self.0.refusal.lock() = None;
                *self.0.login.lock() = login;
                self.0.posture.lock().reported = None;
                self.0.routers.forget();
                Ok(())
            }
            // A controller that does not answer may be there in a moment.
            Err(error @ SessionError::Request(RequestError::NoAnswer { .. })) => Err(error),
            Err(error) => {
                *self.0.refusal.lock() = Some(RefusedLogIn {
                    error: error.clone(),
                    pause,
                    until: Instant::now() + jittered(pause),
                });
                Err(error)
            }
        }
    }

    /// Logs in with the present certificate; if the controller does not know it, with the one in
    /// the file of the identity, which another process may have renewed, or whose renewal was cut
    /// off.
    async fn authenticate(&self) -> Result<LoggedIn, SessionError> {
        let first = self.authenticate_once().await;
        let Some(file) = self.0.options.file.clone() else {
            return first;
        };
        let renewed = pending(&file);
        match first {
            Ok(login) => {
                // The former certificate counts, unless another process is about to change that.
                if renewed.exists() && Lock::try_take(&file).is_some() {
                    drop(std::fs::remove_file(renewed));
                }
                Ok(login)
            }
            Err(SessionError::Request(RequestError::Refused { status: 401, .. })) => {
                let own = self.0.identity.lock().clone();
                for path in [&renewed, &file] {
                    let Ok(identity) = IdentityFile::read(path) else {
                        continue;
                    };
                    if identity.fingerprint() == own.fingerprint() {
                        continue;
                    }
                    self.take(&identity)?;
                    match self.authenticate_once().await {
                        Ok(login) => {
                            if path == &renewed
                                && let Err(error) = adopt(&file)
                            {
                                tracing::warn!(%error, "the renewed certificate has no place");
                            }
                            return Ok(login);
                        }
                        Err(_) => self.take(&own)?,
                    }
                }
                first
            }
            Err(_) => first,
        }
    }

    async fn authenticate_once(&self) -> Result<LoggedIn, SessionError> {
        if self.0.identity.lock().certificate().is_none() {
            return Err(SessionError::NoCertificate);
        }
        let about = json!({
            "sdkInfo": {
                "type": "overkeep",
                "version": env!("CARGO_PKG_VERSION"),
                "appId": "overkeep",
                "appVersion": env!("CARGO_PKG_VERSION"),
            },
            "envInfo": environment(),
            "configTypes": ["all"],
        });
        let path = "/authenticate?method=cert";
        let controller = self.controller();
        let login: LoggedIn = controller
            .ask(Method::POST, path, None, Some(about))
            .await?;
        if !login.auth_queries.is_empty()
            && let Err(error) = self.give_code(&login).await
        {
            self.end(&login.token).await;
            return Err(error);
        }
        Ok(login)
    }

    /// Gives the code of a second factor.
    async fn give_code(&self, login: &LoggedIn) -> Result<(), SessionError> {
        let is_code = |query: &AuthQuery| ["MFA", "TOTP"].contains(&query.type_id.as_str());
        if let Some(other) = login.auth_queries.iter().find(|query| !is_code(query)) {
            let text = format!("one of the type {} is not supported yet", other.type_id);
            return Err(SessionError::SecondFactor(text));
        }
        let ask_code = self.0.options.ask_code.clone();
        let ask_code = ask_code.ok_or_else(|| {
            SessionError::SecondFactor("there is nobody to ask for a code".to_owned())
        })?;
        let code = tokio::task::spawn_blocking(move || ask_code()).await;
        let code = code.map_err(|_| RequestError::GivenUp)?;
        let code = code.map_err(SessionError::SecondFactor)?;
        let (controller, token) = (self.controller(), login.token.as_str());
        let body = json!({ "code": code.trim() });
        let path = "/authenticate/mfa";
        let asked = controller.ask::<Json>(Method::POST, path, Some(token), Some(body));
        match asked.await {
            Ok(_) => Ok(()),
            Err(RequestError::Refused { reason, .. }) => Err(SessionError::SecondFactor(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the API session.
    pub async fn log_out(&self) {
        self.end(&self.token()).await;
    }

    async fn end(&self, token: &str) {
        let controller = self.controller();
        let path = "/current-api-session";
        let ended = controller.ask::<Json>(Method::DELETE, path, Some(token), None);
        if let Err(error) = ended.await {
            tracing::debug!(%error, "the API session could not be ended");
        }
    }
}
