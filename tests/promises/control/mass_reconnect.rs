//! Many routers connect at once after a restart of the controller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use wire::frame::{Builder, content as common};

use super::mock::{Enrolled, MockRouter, run, server, soon};
use crate::harness::{Caller, TestServer};

/// The number of routers without the variable.
const ROUTERS: usize = 100;
const VARIABLE: &str = "OVERKEEP_TEST_ROUTERS";
/// How often a router tries to connect.
const ATTEMPTS: usize = 100;
/// How many times as long as before and after a log-in may take in the middle. Both ends of all
/// connections are in this process.
const MAX_RATIO: f64 = 10.0;

fn count() -> usize {
    std::env::var(VARIABLE).map_or(ROUTERS, |count| count.parse().unwrap())
}

/// Enrolls routers from several threads.
fn enrolled(server: &TestServer) -> Vec<Arc<Enrolled>> {
    thread::scope(|scope| {
        let enroll = || {
            (0..count() / 4)
                .map(|_| Arc::new(Enrolled::new(server)))
                .collect::<Vec<_>>()
        };
        let parts: Vec<_> = (0..4).map(|_| scope.spawn(enroll)).collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap())
            .collect()
    })
}

/// Connects all routers at once; those that are turned away try again.
async fn connect_all(server: &TestServer, routers: &[Arc<Enrolled>]) -> Vec<MockRouter> {
    let connect = |router: &Arc<Enrolled>| {
        let (router, at) = (router.clone(), server.bound());
        tokio::spawn(async move {
            for _ in 0..ATTEMPTS {
                if let Ok(mut connected) = router.try_connect_at(at, router.hello(Some("1"))).await
                {
                    connected.introduce().await;
                    return connected;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("a router is turned away")
        })
    };
    join_all(routers.iter().map(connect))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// How long log-ins take while `goes_on`, in ascending order; at least ten.
fn log_ins(caller: &Caller, goes_on: impl Fn() -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while times.len() < 10 || goes_on() {
        let began = Instant::now();
        caller.log_in_by_certificate();
        times.push(began.elapsed());
    }
    times.sort();
    times
}

#[test]
#[ignore = "endurance"]
fn routers_reconnect_beside_log_ins() {
    let first = server();
    let routers = enrolled(&first);
    let server = first.killed(|_| ());
    drop(first);
    let (_, user) = server.enrolled("user");
    let online = || {
        let page = |offset: usize| {
            server
                .admin
                .get(&format!("/edge-routers?limit=500&offset={offset}"))
                .expect(200)
        };
        let of_page = |offset| {
            page(offset)
                .data()
                .as_array()
                .unwrap()
                .iter()
                .filter(|router| router["isOnline"] == true)
                .count()
        };
        (0..=routers.len()).step_by(500).map(of_page).sum::<usize>()
    };
    let before = log_ins(&user, || false);
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let (beside, connected) = thread::scope(|scope| {
        let log_in = scope.spawn(|| log_ins(&user, || !is_over.load(Ordering::SeqCst)));
        let connected = run(async {
            let earlier = connect_all(&server, &routers).await;
            assert_eq!(online(), routers.len(), "all came back");
            let (count, took) = (routers.len(), began.elapsed());
            eprintln!("{count} routers are online after {took:.1?}");
            // Once more, while the connections that they had still look alive: these end, so that
            // nothing is left of them.
            let connected = connect_all(&server, &routers).await;
            for mut left in earlier {
                assert!(left.ends().await);
            }
            connected
        });
        is_over.store(true, Ordering::SeqCst);
        (log_in.join().unwrap(), connected)
    });
    let took = began.elapsed();
    let median = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    let quiet = median(&before).max(median(&log_ins(&user, || false)));
    let (count, ratio) = (beside.len(), median(&beside) / quiet);
    eprintln!(
        "{count} log-ins while {} routers connect twice in {took:.1?} take {ratio:.1} times as long as otherwise",
        routers.len()
    );
    assert!(
        ratio < MAX_RATIO,
        "log-ins take {ratio:.0} times as long as otherwise"
    );
    run(async {
        assert_eq!(online(), routers.len());
        for mut router in connected {
            router
                .ask(Builder::new(common::PING).empty(), common::RESULT)
                .await;
        }
        assert!(soon(|| online() == 0).await, "{} are left", online());
    });
}
