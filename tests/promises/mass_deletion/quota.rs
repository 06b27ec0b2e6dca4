//! How many sessions an identity may have.

use super::*;

#[test]
fn concurrent_logins_obey_the_quota() {
    const CALLERS: usize = 12;
    let server = TestServer::with(Clock::system(), |config| config.sessions.per_identity = 3);
    let (id, client) = server.enrolled("hydra");
    let at_once = || {
        let together = Barrier::new(CALLERS);
        let enter = || {
            // A connection per caller, open before all of them log in at once.
            let caller = client.clone();
            caller.get("//version").expect(200);
            together.wait();
            caller.ask("POST", "/authenticate?method=cert").send()
        };
        let answers = thread::scope(|scope| {
            let logins: Vec<_> = (0..CALLERS).map(|_| scope.spawn(enter)).collect();
            logins
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        let (open, full): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 200);
        full.into_iter()
            .for_each(|answer| _ = answer.refused(429, "SERVER_TOO_MANY_REQUESTS", ""));
        open.iter()
            .map(|answer| answer.data()["token"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let open = at_once();
    assert_eq!(open.len(), 3);
    assert_eq!(
        server
            .admin
            .list("/api-sessions", &format!("identity = \"{id}\""), "")
            .expect(200)
            .total(),
        3
    );
    // A rejected log-in took no place.
    server
        .anonymous()
        .with_token(&open[0])
        .delete("/current-api-session")
        .expect(200);
    assert_eq!(at_once().len(), 1);
}
