//! Routers that send too much, or do not answer.

use std::thread;

use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint},
};
use serde_json::json;
use wire::{
    control::{content, edge, fabric},
    frame::{Builder, Frame, content as common},
};

use super::mock::{Enrolled, run, server};
use crate::harness::Base;

#[test]
fn silent_routers_fail_no_inspection() {
    let server = server();
    let (router, silent) = (Enrolled::new(&server), Enrolled::new(&server));
    let (mut connected, _silent) =
        run(async { (router.online(&server).await, silent.online(&server).await) });
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let question = json!({ "appRegex": ".*", "requestedValues": ["links"] });
            server
                .admin
                .at(Base::Fabric)
                .post("/inspections", question)
                .expect(200)
        });
        run(async {
            let frame = connected.next_of(content::INSPECT_REQUEST).await;
            let values = vec![fabric::InspectValue {
                name: "links".into(),
                value: "[]".into(),
            }];
            let answer = fabric::InspectResponse {
                success: true,
                errors: Vec::new(),
                values,
            };
            connected
                .send(
                    Builder::reply(content::INSPECT_RESPONSE, &frame).body(&answer.encode_to_vec()),
                )
                .await;
        });
        asking.join().unwrap()
    });
    assert_eq!(answer.json["success"], false);
    let values = answer.json["values"].as_array().unwrap();
    assert_eq!(
        (values.len(), &values[0]["appId"]),
        (1, &json!(router.id)),
        "{}",
        answer.json
    );
    assert_eq!(
        answer.json["errors"],
        json!([format!("router {} did not answer in time", silent.id)])
    );
}

/// A report of API sessions that do not exist, which the controller answers with their end, and
/// that is this long in all.
fn report(name: usize, tokens: usize, length: usize) -> Frame {
    let tokens = (0..tokens)
        .map(|number| format!("{name}-{number}"))
        .collect();
    let mut body = edge::ApiSessionHeartbeat { tokens }.encode_to_vec();
    let padding = length.saturating_sub(body.len());
    if padding > 0 {
        // An unknown member of bytes.
        encode_key(100, WireType::LengthDelimited, &mut body);
        encode_varint(padding as u64, &mut body);
        body.resize(body.len() + padding, 0);
    }
    Builder::new(content::API_SESSION_HEARTBEAT).body(&body)
}

/// The reports of which the sessions in an answer are.
fn named(answer: &Frame) -> Vec<usize> {
    let removed = edge::Removed::decode(answer.body()).unwrap();
    removed
        .tokens
        .iter()
        .map(|token| token.split('-').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn reports_of_a_router_take_turns() {
    const REPORTS: usize = 8;
    const TOKENS: usize = 4000;
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        for number in 0..REPORTS {
            // The first ones are the longest.
            connected
                .send(report(number, TOKENS / (number + 1), 0))
                .await;
        }
        let mut order = Vec::new();
        while order.len()
            < (0..REPORTS)
                .map(|number| TOKENS / (number + 1))
                .sum::<usize>()
        {
            order.extend(named(
                &connected.next_of(content::API_SESSION_REMOVED).await,
            ));
        }
        order.dedup();
        assert_eq!(order, (0..REPORTS).collect::<Vec<_>>());
    });
}

#[test]
#[ignore = "endurance"]
fn a_flood_waits_for_itself() {
    const REPORTS: usize = 6;
    // Two of these are within the bound.
    const LENGTH: usize = 4_000_000;
    const TOKENS: usize = 20_000;
    let server = server();
    let (router, other) = (Enrolled::new(&server), Enrolled::new(&server));
    run(async {
        let mut flooding = router.online(&server).await;
        let mut quiet = other.online(&server).await;
        for number in 0..REPORTS {
            flooding.send(report(number, TOKENS, LENGTH)).await;
        }
        // Another router is answered meanwhile.
        quiet
            .ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
        let mut ended = [0; REPORTS];
        for answer in flooding
            .rest()
            .await
            .iter()
            .filter(|answer| answer.content_type() == content::API_SESSION_REMOVED)
        {
            named(answer)
                .into_iter()
                .for_each(|number| ended[number] += 1);
        }
        assert_eq!(ended[..REPORTS - 2], [TOKENS; REPORTS - 2], "{ended:?}");
    });
}

/// Reports are processed, and not dropped, however many a router sends at once.
#[test]
#[ignore = "endurance"]
fn no_report_is_dropped() {
    const REPORTS: usize = 3000;
    const TOKENS: usize = 10;
    let server = server();
    let router = Enrolled::new(&server);
    run(async {
        let mut connected = router.online(&server).await;
        let all: Vec<u8> = (0..REPORTS)
            .flat_map(|number| report(number, TOKENS, 0).as_bytes().to_vec())
            .collect();
        connected.send_bytes(&all).await;
        let mut ended = 0;
        while ended < TOKENS * REPORTS {
            ended += named(&connected.next_of(content::API_SESSION_REMOVED).await).len();
        }
    });
}
