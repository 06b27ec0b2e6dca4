//! Unit tests of `memory_ledger.rs`.

use futures_util::FutureExt;

use super::*;

fn ledger() -> MemoryLedger {
    MemoryLedger::new(MemoryBounds {
        each: 100,
        total: 800,
    })
}

#[test]
fn sums_match_held_bytes() {
    let ledger = ledger();
    let (one, other) = (ledger.open(None), ledger.open(None));
    let holds = [one.hold(10), one.hold(20), other.hold(30)];
    holds[0].answer(50);
    assert_eq!(
        (
            ledger.0.held.load(Relaxed),
            one.0.held.load(Relaxed),
            one.0.unread.load(Relaxed)
        ),
        (110, 80, 50)
    );
    holds[0].answer(5);
    holds[1].keep(1);
    assert_eq!(
        (
            ledger.0.held.load(Relaxed),
            one.0.held.load(Relaxed),
            one.0.unread.load(Relaxed)
        ),
        (46, 16, 5)
    );
    drop(holds);
    assert_eq!(
        (
            ledger.0.held.load(Relaxed),
            one.0.held.load(Relaxed),
            one.0.unread.load(Relaxed)
        ),
        (0, 0, 0)
    );
    drop((one, other));
    assert!(ledger.0.accounts.lock().is_empty());
}

#[test]
fn reading_makes_room() {
    let account = ledger().open(None);
    let holds = [account.hold(500), account.hold(0)];
    assert!(
        account.room().now_or_never().is_some(),
        "bytes that are not an answer must not count"
    );
    holds[1].answer(100);
    let mut waits = Box::pin(account.room());
    assert!((&mut waits).now_or_never().is_none());
    holds[1].answer(99);
    assert!(waits.now_or_never().is_some());
}

#[tokio::test]
async fn requests_wait_for_the_total() {
    let ledger = ledger();
    let accounts: Vec<Account> = (0..3).map(|_| ledger.open(None)).collect();
    let held = accounts[0].hold(700);
    let mut waiting =
        Box::pin(async { tokio::join!(accounts[1].total_room(), accounts[2].total_room()) });
    assert!(!accounts[1].has_total_room() && (&mut waiting).now_or_never().is_none());
    assert!(
        accounts[0].is_cut().now_or_never().is_some()
            && accounts[1].is_cut().now_or_never().is_none()
    );
    held.keep(699);
    // `join!` may poll the second future before the first one wakes it.
    assert!(
        (&mut waiting).now_or_never().is_some() || waiting.now_or_never().is_some(),
        "a woken waiter must wake the next one"
    );
}

#[tokio::test]
async fn readers_have_their_own_part() {
    let ledger = ledger();
    let (greedy, reader, stranger) = (ledger.open(None), ledger.open(None), ledger.open(None));
    reader.hold(1).took_all();
    let held = greedy.hold(799);
    assert!(reader.has_total_room() && !stranger.has_total_room());
    held.keep(800);
    let mut waiting = Box::pin(reader.total_room());
    assert!((&mut waiting).now_or_never().is_none());
    held.keep(799);
    assert!(waiting.now_or_never().is_some() && stranger.total_room().now_or_never().is_none());
}

#[test]
fn longest_stalled_connections_are_cut() {
    let ledger = ledger();
    let accounts: Vec<Account> = (0..8).map(|_| ledger.open(None)).collect();
    let held: Vec<Hold> = accounts.iter().map(|account| account.hold(87)).collect();
    for (account, since) in accounts.iter().zip([5, 1, 6, 2, 7, 8, 9, 10]) {
        account.0.since.store(since, Relaxed);
    }
    let is_cut = |account: &Account| account.is_cut().now_or_never().is_some();
    assert!(!accounts.iter().any(is_cut));
    held[4].answer(9);
    let cut: Vec<usize> = (0..8).filter(|n| is_cut(&accounts[*n])).collect();
    assert_eq!(cut, [1, 3], "705 bytes were held, 531 must stay");
    let idle = ledger.open(None);
    std::thread::sleep(2 * SEARCH_INTERVAL);
    held[4].answer(10);
    assert!(
        !is_cut(&idle) && !accounts.iter().any(is_cut),
        "memory that is being freed must not count"
    );
}
