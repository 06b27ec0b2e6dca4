//! What is wrong on the way from this machine to a service: each step is made alone, so that the
//! one that fails can be named, with what mends it.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{
    Channel, Connection, IdentityFile, LogInOptions, ReceiveError, RequestError, Right, Service,
    Session, SessionError,
    host::{ECHO, TEST},
    routers::EdgeRouter,
};

/// How long a step may take.
const MOST: Duration = Duration::from_secs(15);
/// How many round trips are measured, of which the median is shown.
const ROUND_TRIPS: usize = 5;
/// What is sent there and back to measure throughput, and how long that may take.
const VOLUME: usize = 8 << 20;
const SENDING: Duration = Duration::from_secs(5);
/// How long a host may take to say that it echoes.
const GREETING: Duration = Duration::from_secs(3);
const NOT_MEASURED: &str = ", throughput not measured: the host is another program";
/// The bytes of one message.
const MESSAGE: usize = 16_000;
/// How many bytes are on their way at most.
const AHEAD: usize = 1 << 20;

/// What one step found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepFinding {
    /// The step, and what it was made with.
    pub check: String,
    /// Whether nothing is wrong.
    pub healthy: bool,
    /// What was found.
    pub detail: String,
    /// What mends it; empty if nothing is wrong.
    pub mend: &'static str,
}

impl StepFinding {
    fn good(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            healthy: true,
            detail: detail.into(),
            mend: "",
        }
    }

    fn bad(check: impl Into<String>, detail: impl ToString, mend: &'static str) -> Self {
        Self {
            check: check.into(),
            healthy: false,
            detail: detail.to_string(),
            mend,
        }
    }
}

/// Tests the way to a service, or to the terminator of it with this identity. Ends with the first
/// step that fails, except that every router is tested.
pub async fn diagnose(
    identity: &IdentityFile,
    options: LogInOptions,
    service: &str,
    terminator: Option<&str>,
) -> Vec<StepFinding> {
    let mut findings = Vec::new();
    // The error is the last finding.
    if let Err(last) = steps(identity, options, service, terminator, &mut findings).await {
        findings.push(last);
    }
    findings
}

async fn steps(
    identity: &IdentityFile,
    options: LogInOptions,
    name: &str,
    terminator: Option<&str>,
    findings: &mut Vec<StepFinding>,
) -> Result<(), StepFinding> {
    findings.extend(controllers(identity).await);
    if findings.iter().all(|finding| !finding.healthy) {
        return Ok(());
    }
    let begin = Instant::now();
    let session = Session::log_in_with(identity, options)
        .await
        .map_err(log_in)?;
    let took = milliseconds(begin.elapsed());
    findings.push(StepFinding::good(
        "log-in",
        format!("as {} in {took}", session.identity()),
    ));
    let tested = of_service(&session, name, terminator, findings).await;
    session.log_out().await;
    tested
}

/// Whether the addresses of the controllers can be reached.
async fn controllers(identity: &IdentityFile) -> Vec<StepFinding> {
    let mut findings = Vec::new();
    for url in identity.controllers() {
        let check = format!("controller {url}");
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default();
        let is_port = |end: &str| end.chars().all(|one| one.is_ascii_digit());
        let address = match host.rsplit_once(':') {
            Some((_, port)) if is_port(port) => host.to_owned(),
            _ => format!("{host}:443"),
        };
        findings.push(match reach(&address).await {
            Ok(took) => StepFinding::good(check, format!("accepts connections, {took}")),
            Err((error, mend)) => StepFinding::bad(check, error, mend),
        });
    }
    findings
}

/// Resolves an address and connects to it. Returns how long that took.
async fn reach(address: &str) -> Result<String, (String, &'static str)> {
    let begin = Instant::now();
    let resolving = timeout(MOST, lookup_host(address)).await;
    match resolving
        .map_err(std::io::Error::from)
        .and_then(|found| found)
    {
        Ok(_) => {}
        Err(error) => return Err((format!("the name is not found: {error}"), NAMES)),
    }
    let connecting = timeout(MOST, TcpStream::connect(address)).await;
    match connecting
        .map_err(std::io::Error::from)
        .and_then(|done| done)
    {
        Ok(_) => Ok(milliseconds(begin.elapsed())),
        Err(error) => Err((error.to_string(), REACH)),
    }
}

const NAMES: &str = "check the name resolution of this machine, and the address in the identity";
const REACH: &str = "check that it runs, and that no firewall is between this machine and it";

fn log_in(error: SessionError) -> StepFinding {
    let mend = match &error {
        SessionError::Request(RequestError::Refused { status: 401, .. }) => {
            "the identity may be deleted or disabled, or its certificate has ended: ask an \
             administrator to enroll it again"
        }
        SessionError::SecondFactor(_) => "give the code, or a command that prints it",
        SessionError::Request(RequestError::NoAnswer { .. }) => {
            "the server may not be a controller of this network, or its certificate is of another \
             authority"
        }
        _ => "read the reason",
    };
    StepFinding::bad("log-in", error, mend)
}

async fn of_service(
    session: &Session,
    name: &str,
    terminator: Option<&str>,
    findings: &mut Vec<StepFinding>,
) -> Result<(), StepFinding> {
    const POLICY: &str = "a policy of an administrator decides that: ask for it; on the \
                          controller, overkeep explain says why";
    let check = format!("service {name}");
    let found = session.service(name).await;
    let service = found.map_err(|error| StepFinding::bad(&check, error, POLICY))?;
    if !service.grants(Right::Dial) {
        let error = "the identity may host it, and may not dial it";
        return Err(StepFinding::bad(check, error, POLICY));
    }
    let kind = match service.encryption_required {
        true => "encrypted from end to end",
        false => "not encrypted from end to end",
    };
    findings.push(StepFinding::good(check, format!("may be dialed, {kind}")));
    let routers = session.routers(&service).await;
    let routers = routers.map_err(|error| StepFinding::bad("session", error, POLICY))?;
    if routers.is_empty() {
        let mend = "a router must be online that policies allow for the identity and the service";
        let error = "no edge router is offered for the service";
        return Err(StepFinding::bad("edge routers", error, mend));
    }
    for router in &routers {
        let check = format!("edge router {}", router.name);
        findings.push(match over(session, &service, router, terminator).await {
            Ok(detail) => StepFinding::good(check, detail),
            Err((error, mend)) => StepFinding::bad(check, error, mend),
        });
    }
    Ok(())
}

/// Dials the service over one router. Returns what was measured.
async fn over(
    session: &Session,
    service: &Service,
    router: &EdgeRouter,
    terminator: Option<&str>,
) -> Result<String, (String, &'static str)> {
    const HOST: &str = "the network works as far as the host: check that a host of the service \
                        runs, and that it reaches its server";
    let address = router.address().unwrap_or_default();
    reach(address).await?;
    let only = std::slice::from_ref(router);
    let opened = session.channel(only).await;
    let (_, channel) = opened.map_err(|error| {
        let mend = "check that the address leads to the router itself, and not to a proxy that \
                      ends TLS";
        (error.to_string(), mend)
    })?;
    let round_trip = round_trip(&channel).await.map_err(|error| (error, REACH))?;
    let begin = Instant::now();
    let dialed = session.dial_over(only, service, terminator, None).await;
    dialed.map_err(|error| (error.to_string(), HOST))?;
    let took = milliseconds(begin.elapsed());
    let mut detail = format!("round trip {round_trip}, the server accepted in {took}");
    let app_data = format!(r#"{{"connType":"{TEST}"}}"#);
    let echo = session
        .dial_over(only, service, terminator, Some(app_data.as_bytes()))
        .await;
    match echo {
        Ok(connection) => match timeout(MOST, echoed(connection))
            .await
            .unwrap_or_else(|_| Err("the host did not send everything back in time".to_owned()))
        {
            Ok(measured) => detail.push_str(&measured),
            Err(error) => return Err((error, "the host ended the connection: read its log")),
        },
        // Hosts of other programs do not know this.
        Err(_) => detail.push_str(NOT_MEASURED),
    }
    Ok(detail)
}

/// The median time until a router answers.
async fn round_trip(channel: &Channel) -> Result<String, String> {
    let mut all = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let begin = Instant::now();
        channel.probe().await.map_err(|error| error.to_string())?;
        all.push(begin.elapsed());
    }
    all.sort();
    Ok(milliseconds(
        all.get(ROUND_TRIPS / 2).copied().unwrap_or_default(),
    ))
}

/// What an echo at the host measures: the time of a byte there and back, and the throughput.
async fn echoed(connection: Connection) -> Result<String, String> {
    let (mut sender, mut receiver) = connection.split();
    let failed = |error: ReceiveError| error.to_string();
    let mut all = Vec::new();
    let first = timeout(GREETING, receiver.receive()).await;
    if !matches!(first, Ok(Ok(Some(greeting))) if greeting == ECHO) {
        return Ok(NOT_MEASURED.to_owned());
    }
    for _ in 0..ROUND_TRIPS {
        let begin = Instant::now();
        sender.send(b"x").await.map_err(|error| error.to_string())?;
        if receiver.receive().await.map_err(failed)?.is_none() {
            return Err("the host ended the test".to_owned());
        }
        all.push(begin.elapsed());
    }
    all.sort();
    let there_and_back = all.get(ROUND_TRIPS / 2).copied().unwrap_or_default();
    let begin = Instant::now();
    let (mut sent, mut received) = (0, 0);
    let message = vec![0; MESSAGE];
    while received < VOLUME && begin.elapsed() < SENDING {
        if sent < VOLUME && sent.saturating_sub(received) < AHEAD {
            sender
                .send(&message)
                .await
                .map_err(|error| error.to_string())?;
            sent += message.len();
            continue;
        }
        match receiver.receive().await.map_err(failed)? {
            Some(message) => received += message.len(),
            None => return Err("the host ended the test".to_owned()),
        }
    }
    let seconds = begin.elapsed().as_secs_f64().max(1e-6);
    // Of a figure for people.
    #[allow(clippy::cast_precision_loss)]
    let rate = received as f64 * 8.0 / seconds / 1e6;
    let took = milliseconds(there_and_back);
    Ok(format!(
        ", a byte to the host and back {took}, {rate:.0} Mbit/s there and back"
    ))
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
