//! What a session needs while it lasts: it is kept alive, its certificate valid, and its posture
//! known.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use tokio::time::sleep;

use super::{Session, error::SessionError, login::LoggedIn, renewal};
use crate::{
    IdentityFile,
    controller::{Controller, RequestError, tls},
};

/// How often posture is looked at.
const POSTURE: Duration = Duration::from_secs(20);
/// The pause after a renewal of the certificate, if it is due still.
const AFTER_RENEWAL: Duration = Duration::from_secs(3_600);

impl Session {
    /// Keeps the API session alive, the certificate valid and the posture known, for as long as
    /// this is awaited.
    pub async fn keep_alive(&self) {
        let keeping = async {
            self.renew_certificate().await;
            loop {
                let life = self.0.login.lock().expiration_seconds;
                sleep(Duration::from_secs((life / 2).clamp(10, 300))).await;
                if let Err(error) = self.refresh().await {
                    tracing::warn!(%error, "the API session could not be renewed");
                }
            }
        };
        let reporting = async {
            loop {
                sleep(POSTURE).await;
                if let Err(error) = self.report_posture().await {
                    tracing::debug!(%error, "the posture could not be reported");
                }
            }
        };
        tokio::join!(keeping, reporting);
    }

    /// Renews the API session, and the certificate of the identity if that is due.
    ///
    /// # Errors
    /// What a request can fail with.
    pub async fn refresh(&self) -> Result<(), SessionError> {
        let login: LoggedIn = self.ask(Method::GET, "/current-api-session", None).await?;
        {
            let mut present = self.0.login.lock();
            if present.token == login.token {
                *present = login;
            }
        }
        self.renew_certificate().await;
        Ok(())
    }

    /// Renews the certificate of the identity if that is due, at most once an hour for one reason.
    async fn renew_certificate(&self) {
        let (identity, login) = (self.0.identity.lock().clone(), self.0.login.lock().clone());
        let Some(leaf) = identity.certificate().and_then(|own| own.leaf()) else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed());
        let is_due = login.is_cert_extend_requested
            || login.is_cert_key_roll_requested
            || login.improper_client_cert_chain
            || renewal::is_due(leaf, now);
        if !is_due {
            *self.0.renewal_pause.lock() = None;
            return;
        }
        let is_paused = self
            .0
            .renewal_pause
            .lock()
            .is_some_and(|end| end > Instant::now());
        if is_paused {
            return;
        }
        *self.0.renewal_pause.lock() = Some(Instant::now() + AFTER_RENEWAL);
        let renewed = match &self.0.options.file {
            _ if login.is_cert_extendable == Some(false) => {
                Err("the controller does not renew certificates of its authority".to_owned())
            }
            None => Err("its file is not known".to_owned()),
            Some(file) => renewal::renew(self, &login, &identity, file)
                .await
                .map_err(|error| error.to_string()),
        };
        match renewed.and_then(|renewed| self.take(&renewed).map_err(|error| error.to_string())) {
            Ok(()) => tracing::info!(identity = %self.identity(), "the certificate is renewed"),
            Err(error) => {
                let (identity, end) = (self.identity(), leaf.not_after());
                tracing::warn!(%identity, %error, end, "the certificate is not renewed");
            }
        }
    }

    /// Uses an identity with another certificate from now on. Open channels stay.
    pub(super) fn take(&self, identity: &IdentityFile) -> Result<(), RequestError> {
        *self.0.controller.lock() = Controller::of(identity)?;
        self.0.routers.set_tls(tls(identity)?);
        *self.0.identity.lock() = identity.clone();
        let mut login = self.0.login.lock();
        login.is_cert_extend_requested = false;
        login.is_cert_key_roll_requested = false;
        login.improper_client_cert_chain = false;
        Ok(())
    }
}
