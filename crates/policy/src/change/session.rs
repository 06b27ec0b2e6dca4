//! Sessions and their tokens. `authentication/session_end.rs` lists what ends one.

use std::time::Duration;

use model::{
    clock::Timestamp,
    entity::{Id, Record, Session},
    error::{Error, Result},
};
use pki::jwt::Claimed;
use serde::Serialize;
use uuid::Uuid;

use super::{ChangeContext, Changes, Lifecycle, ids::session_id};

/// The validity of a token. Routers check the validity with their own clocks. The controller
/// informs them when a session ends.
const VALID: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// A token older than this is replaced when a client requests its session.
const RENEWED_AFTER: Duration = Duration::from_secs(180 * 24 * 60 * 60);

impl Lifecycle for Session {
    fn new_id() -> String {
        session_id()
    }
}

/// The claims of a session's token (RFC 7519). Routers from version 1.7 on read every one of them.
#[derive(Serialize)]
struct Claims<'c> {
    iss: &'c str,
    sub: &'c str,
    aud: [&'c str; 1],
    iat: i64,
    exp: i64,
    /// The session.
    jti: &'c str,
    #[serde(rename = "z_asid")]
    api_session: &'c str,
    #[serde(rename = "z_iid")]
    identity: &'c str,
    /// The type of token: `s`, a session of a service.
    #[serde(rename = "z_t")]
    kind: &'c str,
    /// `Dial` or `Bind`.
    #[serde(rename = "z_st")]
    right: &'c str,
    /// Whether the session is stored as a record.
    #[serde(rename = "z_leg")]
    is_stored: bool,
}

impl ChangeContext {
    fn session_token(&self, id: &Id<Session>, session: &Session, now: Timestamp) -> Result<String> {
        let claims = Claims {
            iss: &self.issuer(),
            sub: session.service_id.as_str(),
            aud: ["openziti"],
            iat: now.seconds(),
            exp: now.plus(VALID).seconds(),
            jti: id.as_str(),
            api_session: session.api_session_id.as_str(),
            identity: session.identity_id.as_str(),
            kind: "s",
            right: session.policy_type.as_str(),
            is_stored: true,
        };
        let signed = self.keystore.session_signer().sign(&claims);
        signed.map_err(|error| Error::Internal(format!("signing the token of a session: {error}")))
    }
}

impl Changes {
    /// The token of a session: signed, or opaque.
    ///
    /// # Errors
    /// Signing fails.
    pub fn session_token(
        &self,
        id: &Id<Session>,
        session: &Session,
        is_signed: bool,
        now: Timestamp,
    ) -> Result<String> {
        if is_signed {
            self.context.session_token(id, session, now)
        } else {
            Ok(format!("{id}.{}", Uuid::new_v4()))
        }
    }

    /// Whether routers accept the token of a session for some time: it is opaque and none needs a
    /// signed one, or it is signed with the present key and is not old.
    pub fn is_session_token_current(
        &self,
        session: &Record<Session>,
        needs_signed: bool,
        now: Timestamp,
    ) -> bool {
        let token = &session.spec.token;
        if !Session::is_signed(token) {
            return !needs_signed && Session::named_by(token).is_some();
        }
        let keystore = &self.context.keystore;
        // Earlier versions signed with the key of the listener.
        let is_known = |kid: &str| {
            keystore.session_signer().kid() == kid || keystore.signer().is_known_as(kid)
        };
        Claimed::read(token).is_ok_and(|token| is_known(&token.key))
            && now < session.updated_at.plus(RENEWED_AFTER)
    }
}
