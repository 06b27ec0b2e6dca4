//! The messages of the control channel keep every byte.

use prost::Message;
use wire::{
    control::{edge, fabric, metrics, model, tunnel},
    frame::Builder,
};

use super::recordings::{decoded, recorded};

fn again<M: Message + Default>(body: &[u8]) -> Vec<u8> {
    M::decode(body).unwrap().encode_to_vec()
}

/// The body read as its message and written again; none where it is no protobuf.
fn rewritten(content_type: i32, body: &[u8]) -> Option<Vec<u8>> {
    let rewrite: fn(&[u8]) -> Vec<u8> = match content_type {
        0 | 2 | 5 | -33 | 1022 | 20002 | 20210 | 20218 | 20219 | 20404 | 20410 | 20411 | 20506 => {
            return None;
        }
        1004 => again::<fabric::Fault>,
        1005 => again::<fabric::Route>,
        1006 => again::<fabric::Unroute>,
        1007 => again::<metrics::Metrics>,
        1013 => again::<fabric::InspectRequest>,
        1014 => again::<fabric::InspectResponse>,
        1020 => again::<fabric::Settings>,
        1034 => again::<fabric::CircuitConfirmation>,
        1035 => again::<fabric::RouterLinks>,
        1036 => again::<fabric::VerifyRouter>,
        1038 => again::<fabric::RemoveTerminators>,
        1041 => again::<fabric::ValidateTerminators>,
        1042 => again::<fabric::ValidateTerminatorsResponse>,
        1050 => again::<fabric::PeerStateChanges>,
        1052 => again::<fabric::RouterInterfaces>,
        1053 => again::<fabric::LinkStateUpdate>,
        20000 => again::<edge::ServerHello>,
        20001 => again::<edge::ClientHello>,
        20102 | 20202 => again::<edge::Removed>,
        20200 => again::<edge::ApiSessionAdded>,
        20201 => again::<edge::ApiSessionUpdated>,
        20203 => again::<edge::ApiSessionHeartbeat>,
        20204 => again::<edge::RequestResync>,
        20209 => again::<edge::UpdateTerminator>,
        20213 => again::<edge::ValidateSessions>,
        20216 => again::<edge::CreateTerminator>,
        20217 => again::<edge::CreateTerminatorResponse>,
        20301 => again::<edge::EnrollmentCertificates>,
        20302 => again::<edge::ExtendEnrollment>,
        20303 => again::<edge::ExtendEnrollmentVerify>,
        20400 => again::<tunnel::CreateApiSession>,
        20401 => again::<tunnel::CreateApiSessionResponse>,
        20405 => again::<tunnel::ServicesList>,
        20406 => again::<tunnel::CreateTerminator>,
        20407 => again::<tunnel::CreateTerminatorResponse>,
        20413 => again::<tunnel::CreateTerminatorV2>,
        20414 => again::<tunnel::CreateTerminatorV2Response>,
        20415 => again::<edge::ConnectEvents>,
        20500 => again::<model::DataState>,
        20501 => again::<model::ChangeSet>,
        20505 => again::<edge::SubscribeToDataModel>,
        other => panic!("content type {other} is not known"),
    };
    Some(rewrite(body))
}

#[test]
fn recorded_frames_keep_every_byte() {
    let all = recorded();
    assert!(all.len() > 600, "{} frames", all.len());
    for recorded in &all {
        let frame = decoded(recorded);
        let start = Builder::new(frame.content_type());
        let mut built = frame
            .headers()
            .fold(start, |builder, (key, value)| builder.bytes(key, value))
            .body(frame.body());
        built.set_sequence(frame.sequence());
        assert_eq!(built.as_bytes(), recorded.bytes);
    }
}

#[test]
fn recorded_bodies_keep_every_byte() {
    let mut count = 0;
    for recorded in recorded() {
        let frame = decoded(&recorded);
        if let Some(written) = rewritten(frame.content_type(), frame.body()) {
            assert_eq!(
                written,
                frame.body(),
                "content type {} of {}",
                frame.content_type(),
                recorded.is_of_router
            );
            count += 1;
        }
    }
    assert!(count > 300, "{count} bodies");
}

#[test]
fn recorded_listeners_keep_every_byte() {
    let mut count = 0;
    for frame in recorded()
        .iter()
        .map(decoded)
        .filter(|frame| frame.content_type() == 0)
    {
        let key = if frame.header(9).is_some() { 1000 } else { 10 };
        if let Some(listeners) = frame.header(key) {
            assert_eq!(again::<fabric::Listeners>(listeners), listeners);
            count += 1;
        }
        if let Some(metadata) = frame.header(11).filter(|_| frame.header(9).is_none()) {
            assert_eq!(again::<fabric::RouterMetadata>(metadata), metadata);
        }
    }
    assert!(count > 3, "{count} hellos");
}
