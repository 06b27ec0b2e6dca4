//! Enrollment: one-time tokens and certificates of third-party authorities are redeemed for
//! credentials, and certificates of the controller are renewed.
//!
//! Not here: issuing the tokens (`change/enrollment.rs`), the content of certificates (the crate
//! `pki`), trust (`authentication/trust.rs`). Start at [`redeem`]; each method has a file of its name.
//! Invariant: an error leaves the enrollment unchanged, success deletes it, in the same transaction
//! that stores the credential. Slow steps (requests, signatures, passwords) run before the
//! transaction, which checks their preconditions again.

mod ca;
mod context;
mod erott;
pub mod extension;
mod ott;
mod ottca;
mod reserved;
mod router;
mod trott;
mod updb;

pub use ca::enroll as enroll_by_certificate;
pub use context::{
    EnrollmentContext, EnrollmentMembers, EnrollmentRequest, Issued, Member, Request, unissued,
};
pub use reserved::Reserved;
pub use router::{
    Renewing, confirm as confirm_router, extend as extend_router, note_router_use,
    offer as offer_router,
};

use model::{entity::enrollment::Method, error::Result};

use self::context::{outstanding, unknown};

/// Redeems a token.
///
/// # Errors
/// The token is unknown or has expired, or what the method needs is missing or invalid.
pub async fn redeem(context: &EnrollmentContext<'_>, request: Request) -> Result<Issued> {
    let enrollment = context.store.read(|tx| outstanding(tx, &request.token))?;
    let method = enrollment.spec.method;
    if request.method.is_some_and(|meant| meant != method) {
        return Err(unknown());
    }
    let known = enrollment
        .spec
        .identity_id
        .as_ref()
        .map(|identity| context.changes.known_as(identity));
    let context = &EnrollmentContext {
        changes: known.as_ref().unwrap_or(context.changes),
        ..*context
    };
    match method {
        Method::Ott => ott::redeem(context, enrollment, &request.body).await,
        Method::OttCa => ottca::redeem(context, enrollment, &request.chain).await,
        Method::Updb => updb::redeem(context, enrollment, &request.body).await,
        Method::ErOtt => erott::redeem(context, enrollment, &request.body).await,
        Method::TrOtt => trott::redeem(context, enrollment, &request.body).await,
    }
}
