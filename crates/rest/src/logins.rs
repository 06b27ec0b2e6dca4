//! What logs callers in and recognizes them at their later requests.

use std::{sync::Arc, time::Duration};

use model::{clock::Timestamp, error::Result};
use policy::authentication::{
    ApiTokens, Caller, Codes, LoginLinks, Passwords, Refusals, Sessions, SignerLogins, Tokens,
};
use store::Store;

/// The components that log callers in, and those that recognize callers.
pub struct Logins {
    pub sessions: Sessions,
    pub api_tokens: ApiTokens,
    pub login_links: LoginLinks,
    pub passwords: Passwords,
    /// The codes of second factors.
    pub codes: Codes,
    /// The tokens of external signers.
    pub tokens: Tokens,
    /// Log-ins in a browser at an external signer.
    pub signer_logins: SignerLogins,
    /// What is noted of callers that were refused.
    pub refusals: Refusals,
}

impl Logins {
    /// The caller with an API token, or with a session token and, if given, the bearer token of an
    /// external signer. Counts as activity.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn caller(
        &self,
        store: &Store,
        now: Timestamp,
        token: &str,
        bearer: Option<&str>,
    ) -> Result<Option<Arc<Caller>>> {
        if ApiTokens::is_one(token) {
            return self.api_tokens.resolve(store, token, now);
        }
        let Some(mut caller) = self.sessions.resolve(store, token, now)? else {
            return Ok(None);
        };
        self.tokens.satisfy(store, now, bearer, &mut caller).await?;
        Ok(Some(caller))
    }

    /// When a caller's session ends if it is not used, and how long that is after a request. An API
    /// token ends at its time in any case.
    pub(crate) fn ends(&self, caller: &Caller, now: Timestamp) -> (Timestamp, Duration) {
        match &caller.token {
            Some(token) => {
                let end = token.spec.expires_at.unwrap_or(now);
                (end, end.since(now))
            }
            None => (
                self.sessions
                    .last_activity(&caller.session)
                    .plus(self.sessions.timeout()),
                self.sessions.timeout(),
            ),
        }
    }
}
