//! The paths below /enroll: one per enrollment method, each with its own body, and the renewal of
//! router certificates.

use model::{
    entity::enrollment::Method,
    error::{Error, Refusal, Result},
};
use policy::enrollment::{self, EnrollmentMembers, EnrollmentRequest, Issued, Member, Request};
use schemars::JsonSchema;
use serde::Deserialize;

use super::enroll::well_formed;
use crate::{
    answer::{Data, NoData},
    call::Call,
    extractor::{Body, Query},
};

/// A token, and a certificate request if the method needs one.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OttEnrollmentRequest {
    #[serde(default)]
    token: String,
    /// PEM.
    #[serde(default)]
    client_csr: String,
}

/// A token, and the certificate requests of an edge router.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErOttEnrollmentRequest {
    #[serde(default)]
    token: String,
    /// PEM.
    #[serde(default)]
    client_csr: String,
    /// PEM.
    #[serde(default)]
    server_csr: String,
}

/// A password, and a user name, which is ignored: the enrollment has its own.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UpdbCredentials {
    #[serde(default)]
    #[schemars(length(min = 5, max = 100))]
    password: String,
    #[serde(default)]
    #[schemars(length(min = 4, max = 100))]
    #[allow(
        dead_code,
        reason = "part of the interface, and decided by the enrollment"
    )]
    username: String,
}

/// The token of an enrollment.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct OneTime {
    token: String,
}

/// The certificate requests of a router's renewal.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouterExtendEnrollmentRequest {
    /// PEM.
    cert_csr: String,
    /// PEM.
    server_cert_csr: String,
}

async fn redeem(
    call: &Call,
    text: String,
    method: Method,
    offer: EnrollmentRequest,
) -> Result<Issued> {
    let token = well_formed(Some(text))?.ok_or(Error::Refused(Refusal::InvalidEnrollmentToken))?;
    let request = Request {
        token,
        method: Some(method),
        body: offer,
        chain: call.chain(),
    };
    enrollment::redeem(&call.context(), request).await
}

/// POST /enroll/ott
pub(crate) async fn ott(
    call: Call,
    Body(sent): Body<OttEnrollmentRequest>,
) -> Result<Data<Issued>> {
    redeem(
        &call,
        sent.token,
        Method::Ott,
        EnrollmentRequest::Text(sent.client_csr),
    )
    .await
    .map(Data)
}

/// POST /enroll/ottca
pub(crate) async fn ottca(call: Call, Body(sent): Body<OttEnrollmentRequest>) -> Result<NoData> {
    redeem(&call, sent.token, Method::OttCa, EnrollmentRequest::Nothing)
        .await
        .map(|_| NoData)
}

/// POST /enroll/erott
pub(crate) async fn erott(
    call: Call,
    Body(sent): Body<ErOttEnrollmentRequest>,
) -> Result<Data<Issued>> {
    let (cert_csr, server_cert_csr) = (
        Some(Member::Text(sent.client_csr)),
        Some(Member::Text(sent.server_csr)),
    );
    let offer = EnrollmentMembers {
        cert_csr,
        server_cert_csr,
        ..EnrollmentMembers::default()
    };
    redeem(
        &call,
        sent.token,
        Method::ErOtt,
        EnrollmentRequest::Members(offer),
    )
    .await
    .map(Data)
}

/// POST /enroll/updb
pub(crate) async fn updb(
    call: Call,
    Query(of): Query<OneTime>,
    Body(sent): Body<UpdbCredentials>,
) -> Result<Data<Issued>> {
    let offer = EnrollmentMembers {
        password: Some(Member::Text(sent.password)),
        ..EnrollmentMembers::default()
    };
    redeem(
        &call,
        of.token,
        Method::Updb,
        EnrollmentRequest::Members(offer),
    )
    .await
    .map(Data)
}

/// POST /enroll/ca
pub(crate) async fn ca(call: Call) -> Result<NoData> {
    enrollment::enroll_by_certificate(&call.context(), &call.chain(), &EnrollmentRequest::Nothing)
        .await
        .map(|()| NoData)
}

/// POST /enroll/extend/router
pub(crate) async fn extend_router(
    call: Call,
    Body(sent): Body<RouterExtendEnrollmentRequest>,
) -> Result<Data<Issued>> {
    enrollment::extend_router(
        &call.context(),
        &call.chain(),
        &sent.cert_csr,
        &sent.server_cert_csr,
    )
    .await
    .map(Data)
}
