//! POST /authenticate/link: opens a session with a one-time link, which the owner of the data file
//! made on the host.

use model::error::{Error, Result};
use policy::authentication::{
    RejectedCaller,
    login::{self, ClientInfo, Principal},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    answer::NewSessionAnswer,
    api::common::{authenticate::login_answer, current_session::SessionDetail},
    call::Call,
    extractor::Body,
};

/// The method, in metrics and in the history.
const METHOD: &str = "link";

/// The link that `overkeep admin link` printed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginLink {
    /// The part of the link after `#/link/`.
    #[schemars(length(min = 1, max = 100))]
    secret: String,
}

/// POST /authenticate/link
pub(crate) async fn redeem(
    call: Call,
    Body(LoginLink { secret }): Body<LoginLink>,
) -> Result<NewSessionAnswer<SessionDetail>> {
    let address = call.peer.shown();
    let Some(identity) = call
        .state
        .logins
        .login_links
        .redeem(&secret, call.peer.address, call.now)
    else {
        call.state
            .logins
            .refusals
            .note(
                &call.state.store,
                RejectedCaller {
                    what: METHOD,
                    address,
                    ..RejectedCaller::default()
                },
                call.now,
            )
            .await;
        return Err(Error::InvalidAuth);
    };
    let place = call.state.logins.sessions.admit(&identity)?;
    let client_info = ClientInfo {
        address: address.unwrap_or_default(),
        ..ClientInfo::default()
    };
    let caller = login::open(
        &call.changes,
        Principal::by_link(identity),
        client_info,
        place,
    )
    .await?;
    login_answer(&call, caller, METHOD).await
}
