//! What routers measure and report.

use std::{collections::BTreeSet, net::SocketAddr};

use model::clock::Clock;
use prost::Message;
use serde_json::{Value as Json, json};
use wire::{
    control::{
        Time, content,
        metrics::{
            CountEntry, FloatEntry, Histogram, HistogramEntry, IntEntry, Meter, MeterEntry,
            Metrics, UsageBucket, UsageBucketEntry, UsageCounter,
        },
    },
    frame::{Builder, content as common},
};

use super::{
    circuits::Scene,
    links::report,
    mock::{Enrolled, MockRouter, run, soon},
};
use crate::{
    harness::{Base, TestServer},
    metrics::{text, value},
};

fn scene() -> Scene {
    Scene::on(TestServer::with(Clock::system(), |config| {
        config.metrics.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)))
    }))
}

fn meter(name: &str, count: i64) -> MeterEntry {
    MeterEntry {
        key: Some(name.into()),
        value: Some(Meter {
            count,
            ..Default::default()
        }),
    }
}

fn histogram(name: &str, mean: f64) -> HistogramEntry {
    HistogramEntry {
        key: Some(name.into()),
        value: Some(Histogram {
            mean,
            ..Default::default()
        }),
    }
}

fn usage(circuit: &str, values: &[(&str, u64)]) -> UsageCounter {
    let value = |(name, count): &(&str, u64)| CountEntry {
        key: Some((*name).into()),
        value: Some(*count),
    };
    let bucket = UsageBucket {
        values: values.iter().map(value).collect(),
        tags: Vec::new(),
    };
    UsageCounter {
        // Long ago: the clock of a router may be wrong.
        interval_start_utc: -1,
        interval_length: 60,
        buckets: vec![UsageBucketEntry {
            key: Some(circuit.into()),
            value: Some(bucket),
        }],
    }
}

/// Reports, and waits until the report was processed.
async fn measured(router: &mut MockRouter, metrics: Metrics) {
    router
        .send(Builder::new(content::METRICS).body(&metrics.encode_to_vec()))
        .await;
    router
        .ask(Builder::new(common::PING).empty(), common::RESULT)
        .await;
}

fn traffic(scene: &Scene, router: &Enrolled) -> Json {
    scene
        .server
        .admin
        .at(Base::Overkeep)
        .get(&format!("/online?filter=recordId%3D%22{}%22", router.id))
        .expect(200)
        .data()[0]["traffic"]
        .clone()
}

#[test]
fn reports_of_routers_are_shown() {
    let scene = scene();
    let far = Enrolled::new(&scene.server);
    let extensions = scene.server.admin.at(Base::Overkeep);
    run(async {
        let (mut near, mut other) = (
            scene.router.online(&scene.server).await,
            far.online(&scene.server).await,
        );
        other.verify(&scene.router).await;
        report(&mut near, &["link"], &far.id).await;
        scene.hosted(&mut near, "terminator").await;
        let circuit = near
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        assert_eq!(traffic(&scene, &scene.router), Json::Null);
        let day_ago = Time {
            seconds: scene.server.clock.now().seconds() - 86_400,
            nanos: -1,
        };
        let metrics = Metrics {
            source_id: far.id.clone(),
            timestamp: Some(day_ago),
            meters: vec![
                meter("ingress.rx.bytesrate", 1000),
                meter("egress.rx.bytesrate", 2000),
                meter("fabric.tx.bytesrate", 300),
                meter("fabric.rx.bytesrate", 400),
                meter("link.link.tx.bytesrate", 250),
                meter("link.link.rx.bytesrate", 350),
            ],
            histograms: vec![
                histogram("link.link.latency", 2e6),
                histogram("link.link.queue_time", 1e6),
            ],
            usage_counters: vec![
                usage(
                    &circuit,
                    &[("ingress.rx", 40), ("egress.rx", 5), ("fabric.rx", 7)],
                ),
                usage(&circuit, &[("ingress.rx", 2)]),
            ],
            ..Default::default()
        };
        measured(&mut near, metrics).await;
        let expected = json!({ "clientBytes": 1000, "hostBytes": 2000, "linkSentBytes": 300, "linkReceivedBytes": 400, "circuits": 1 });
        assert_eq!(traffic(&scene, &scene.router), expected);
        measured(&mut near, Metrics::default()).await;
        assert_eq!(
            traffic(&scene, &scene.router),
            expected,
            "a report without meters"
        );
        let shown = extensions.get(&format!("/circuits/{circuit}")).expect(200);
        assert_eq!(
            (
                &shown.data()["client"]["sentBytes"],
                &shown.data()["host"]["sentBytes"]
            ),
            (&json!(42), &json!(5))
        );
        let link = || extensions.get("/links/link").expect(200).data().clone();
        assert_eq!(
            (&link()["sourceSentBytes"], &link()["destinationSentBytes"]),
            (&json!(250), &json!(350))
        );
        assert_eq!(
            (&link()["sourceLatencyMillis"], &link()["cost"]),
            (&json!(3.0), &json!(65_004))
        );
        measured(
            &mut other,
            Metrics {
                meters: vec![meter("link.link.tx.bytesrate", 349)],
                ..Default::default()
            },
        )
        .await;
        assert_eq!(
            (&link()["sourceSentBytes"], &link()["destinationSentBytes"]),
            (&json!(250), &json!(349))
        );
        let text = text(&scene.server);
        for (series, expected) in [
            (
                r#"overkeep_remote_routers_data_bytes_total{kind="from-clients"}"#,
                1000.0,
            ),
            (
                r#"overkeep_remote_routers_data_bytes_total{kind="from-links"}"#,
                400.0,
            ),
            ("overkeep_remote_routers_circuits", 1.0),
            (r#"overkeep_links{kind="usable"}"#, 1.0),
            (r#"overkeep_link_latency_seconds{kind="highest"}"#, 0.003),
        ] {
            assert_eq!(value(&text, series), Some(expected), "{series}");
        }
        let in_hour = || {
            let hour = extensions.get("/last-hour").expect(200);
            hour.data()["steps"].as_array().unwrap().iter().any(|step| {
                let rate = |of: &str| {
                    step[format!("remoteRouters{of}BytesPerSecond")]
                        .as_u64()
                        .unwrap()
                };
                rate("Client") > 0 && rate("Host") > rate("Client")
            })
        };
        assert!(soon(in_hour).await);
    });
}

#[test]
fn lies_in_reports_are_rejected() {
    let scene = scene();
    let (far, liar) = (Enrolled::new(&scene.server), Enrolled::new(&scene.server));
    let extensions = scene.server.admin.at(Base::Overkeep);
    run(async {
        let (mut near, mut lying) = (
            scene.router.online(&scene.server).await,
            liar.online(&scene.server).await,
        );
        let _far = far.online(&scene.server).await;
        report(&mut near, &["link"], &far.id).await;
        scene.hosted(&mut near, "terminator").await;
        let circuit = near
            .circuit(&scene.dial_token(), &scene.client.fingerprint())
            .await;
        let series = || {
            let text = text(&scene.server);
            let of_requests = |line: &&str| line.contains("overkeep_http_");
            text.lines()
                .filter(|line| !of_requests(line))
                .map(|line| line.split(' ').next().unwrap().to_owned())
                .collect::<BTreeSet<_>>()
        };
        text(&scene.server);
        let before = series();
        // Those of others: another router's name, link and circuit.
        let others = Metrics {
            source_id: scene.router.id.clone(),
            meters: vec![
                meter("ingress.rx.bytesrate", 1),
                meter("link.link.tx.bytesrate", 1),
                meter("link.unknown.tx.bytesrate", 1),
            ],
            histograms: vec![histogram("link.link.latency", 1.0)],
            usage_counters: vec![
                usage(&circuit, &[("ingress.rx", 1), ("egress.rx", 1)]),
                usage("unknown", &[("ingress.rx", 1)]),
            ],
            ..Default::default()
        };
        measured(&mut lying, others).await;
        assert_eq!(
            (
                traffic(&scene, &scene.router),
                &traffic(&scene, &liar)["clientBytes"]
            ),
            (Json::Null, &json!(1))
        );
        // What nothing can measure, and unknown names, many times.
        for mean in [f64::NAN, f64::INFINITY, -1.0] {
            let unknown = |number: usize| meter(&format!("unknown.{number}.bytesrate"), 1);
            let wrong = Metrics {
                int_values: vec![IntEntry {
                    key: Some("x".into()),
                    value: Some(1),
                }],
                float_values: vec![FloatEntry {
                    key: Some("x".into()),
                    value: Some(mean),
                }],
                meters: [
                    meter("egress.rx.bytesrate", -1),
                    meter("ingress.rx.bytesrate", i64::MAX),
                ]
                .into_iter()
                .chain((0..1000).map(unknown))
                .collect(),
                histograms: vec![histogram("link.link.latency", mean)],
                ..Default::default()
            };
            measured(&mut near, wrong).await;
        }
        let link = extensions.get("/links/link").expect(200);
        assert_eq!(
            (
                link.data().get("sourceLatencyMillis"),
                link.data().get("sourceSentBytes")
            ),
            (None, None)
        );
        let shown = extensions.get(&format!("/circuits/{circuit}")).expect(200);
        assert_eq!(shown.data()["client"].get("sentBytes"), None);
        assert_eq!(
            traffic(&scene, &scene.router),
            Json::Null,
            "it has reported nothing that is possible"
        );
        assert_eq!(
            value(
                &text(&scene.server),
                r#"overkeep_remote_routers_data_bytes_total{kind="from-clients"}"#
            ),
            Some(1.0)
        );
        assert_eq!(series(), before, "a router adds no series");
        // A report that takes much more memory when it is decoded, and one that ends within a
        // member.
        near.send(Builder::new(content::METRICS).body(&[0x3a, 0].repeat(2 << 20)))
            .await;
        near.send(Builder::new(content::METRICS).body(&[0x3a, 0x7f, 0]))
            .await;
        near.ask(Builder::new(common::PING).empty(), common::RESULT)
            .await;
    });
}
