//! POST /authenticate: credentials for a session.

use schemars::JsonSchema;
use serde::Deserialize;

use super::current::{SessionDetail, current};
use crate::{
    authentication::{
        Caller,
        login::{self, Surroundings},
    },
    entity::{AuthQuery, EnvInfo, FactsExt, SdkInfo},
    error::{Error, Result},
    http::{
        answer::{Shown, WithHeaders},
        argument::{OptionalBody, Query},
        call::Call,
    },
};

/// How somebody proves who they are: a user name and password in the body, the client certificate of the connection, or the bearer
/// token of an external signer.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthMethod {
    Password,
    Cert,
    ExtJwt,
}

/// Which method.
#[derive(Deserialize, JsonSchema)]
pub struct By {
    pub method: AuthMethod,
}

/// What somebody says who logs in.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Authenticate {
    #[schemars(length(min = 4, max = 100))]
    pub username: Option<String>,
    #[schemars(length(min = 5, max = 100))]
    pub password: Option<String>,
    /// The config types that the session wants to see, by id or name; `all` for every one.
    #[schemars(with = "Vec<String>")]
    pub config_types: Vec<String>,
    #[schemars(with = "EnvInfo")]
    pub env_info: Option<EnvInfo>,
    #[schemars(with = "SdkInfo")]
    pub sdk_info: Option<SdkInfo>,
}

/// POST /authenticate
pub async fn authenticate(
    call: Call,
    Query(By { method }): Query<By>,
    OptionalBody(body): OptionalBody<Authenticate>,
) -> Result<WithHeaders<Shown<SessionDetail>>> {
    let body = body.unwrap_or_default();
    let principal = match method {
        AuthMethod::Password => {
            let (Some(username), Some(password)) = (body.username.filter(|u| !u.is_empty()), body.password.filter(|p| !p.is_empty()))
            else {
                return Err(Error::Incomplete("user name and password are required".into()));
            };
            login::password(&call.store, &call.changes, &call.passwords, call.now, &username, password).await?
        }
        AuthMethod::Cert => login::certificate(&call.store, &call.holdings, call.now, &call.peer.certificates)?,
        AuthMethod::ExtJwt => {
            let bearer = call.bearer.as_deref().ok_or(Error::InvalidAuth)?;
            call.tokens.login(&call.store, call.now, bearer).await?
        }
    };
    let address = call.peer.address.map(|address| address.to_string()).unwrap_or_default();
    let surroundings = Surroundings { env_info: body.env_info, sdk_info: body.sdk_info, config_types: body.config_types, address };
    let session = login::open(&call.changes, principal, surroundings).await?;
    let token = session.spec.token.clone();
    let mut caller = call.store.read(|tx| {
        let queries = AuthQuery::outstanding(&session.spec, tx)?;
        Ok(Caller { identity: tx.get(&session.spec.identity_id)?, session, queries })
    })?;
    call.tokens.satisfy(&call.store, call.now, call.bearer.as_deref(), &mut caller).await?;
    let timeout = call.sessions.timeout();
    let headers = vec![
        ("zt-session", token),
        ("expiration-seconds", timeout.as_secs().to_string()),
        ("expires-at", call.now.plus(timeout).to_string()),
    ];
    Ok(WithHeaders(Shown(current(&call, &caller)?), headers))
}
