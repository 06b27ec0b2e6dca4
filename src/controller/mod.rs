//! The composition root: all parts are created, connected, started and stopped here.
//!
//! Start at [`start`]. Invariant: a controller that is reported as running has its file open, its engine filled and its
//! socket bound.

mod announcement;
mod built_in_router;
mod followers;
mod metrics;
mod reload;
mod running;
mod service_manager;
mod settings;

pub(crate) use announcement::password_file;
pub use running::{Controller, NotStarted};

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use actix_web::rt::System;
use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use crate::{
    access::{Access, AccessAudit},
    admin_socket::{AdminContext, Command, LinkMaker, socket},
    authentication::{Codes, LoginLinks, Passwords, Refusals, Tokens},
    change::{self, Administrator, Certificates, Changes, Filling, KINDS, SealedKeys, addresses, certificates},
    clock::Clock,
    config::{self, Address, Config},
    control::{self, Control},
    enrollment::Reserved,
    entity::{Author, EdgeRouter, Id},
    expiring::ExpiryNotice,
    http::{self, AppState, Bounds, Dispatcher, Interfaces, LastHour, NetworkTokens, Patience, RestListener},
    jobs::{self, Jobs},
    listener::{self, Listener, RouterSide, Shutdown},
    maintenance::{self, Background, Maintenance, Schedule, Scrub, closed},
    metrics::{Metrics, StoreMetrics},
    network, pki,
    store::{OpenError, Reader, Store},
};

use self::{
    followers::Followers,
    reload::Reload,
    running::{ADMINISTRATOR, Password},
    settings::{context, files, limits, options},
};

/// Starts a controller in this process.
///
/// # Errors
/// The first failure, as one line.
pub fn start(config: &Config, clock: Clock) -> Result<Controller, NotStarted> {
    pki::jwt::install();
    let (sockets, all_bound) = bind(config)?;
    let bound = all_bound.first().copied().ok_or_else(|| NotStarted("listen: must name at least one address".into()))?;
    let of_router = config.router.listen.filter(|_| config.router.enabled).map(|place| bind_to("router.listen", place)).transpose()?;
    let of_control = config.routers.listen.map(|place| bind_to("routers.listen", place)).transpose()?;
    let of_metrics = config.metrics.listen.map(|place| bind_to("metrics.listen", place)).transpose()?;
    let clients = config.advertised(&all_bound);
    let addresses: Vec<String> = clients.iter().map(ToString::to_string).collect();
    let advertised = addresses.first().cloned().unwrap_or_default();
    let passwords = Passwords::new(&config.passwords)?;
    let router = built_in_router::address(config, bound, of_router.as_ref().map(|(_, bound)| *bound));
    let store_metrics = StoreMetrics::default();
    let opened = Store::open(&config.data, KINDS, options(config, &clock, &store_metrics)).map_err(refused)?;
    let sealed_keys = sealed_keys(config, &opened)?;
    drop(maintenance::upgrade(&opened, &config.data)?);
    let (job_trigger, inbox) = jobs::job_trigger();
    let Followers { access, texts, routers, posture, sessions, api_tokens, watchers, feed, control_feed } =
        Followers::of(&opened, config, &clock, router.as_ref(), &job_trigger)?;
    let store = opened.start().map_err(refused)?;
    let first_password = fill(config, &store, &sealed_keys, &passwords, (&clients, router.as_ref()))?;
    change::renew_config_types(&store)?;
    maintenance::record_release(&store)?;
    router.as_ref().map_or(Ok(()), |_| change::built_in_router::establish(&store))?;
    let certificates = Arc::new(Certificates::open(&store, &sealed_keys, clients, files(config))?.naming(router));
    certificates.renew(clock.now())?;
    certificates.note_advertised(clock.now())?;
    let keystore = certificates.keystore().clone();
    let tls = pki::tls::server_config(keystore.leaf())?;
    let audit = AccessAudit::following(&store)?;
    let changes = Changes::new(store.clone(), context(config, keystore.clone(), advertised.clone()));
    let maintenance = Maintenance::new(store.clone(), sealed_keys.clone(), clock.clone(), &config.data);
    let login_links = LoginLinks::default();
    let owner = AdminContext {
        store: store.by(Author::local()),
        changes: changes.by(Author::local()),
        passwords: passwords.clone(),
        certificates: certificates.clone(),
        access: access.clone(),
        maintenance: maintenance.clone(),
        posture: Some(posture.clone()),
        links: Some(LinkMaker { links: login_links.clone(), address: advertised.clone() }),
        clock: clock.clone(),
    };
    let refusals = Refusals::default();
    let metrics = Metrics::new(store_metrics, maintenance.metrics().clone(), refusals.counter().clone());
    let jobs = Jobs {
        store: store.clone(),
        changes: changes.clone(),
        sessions: sessions.clone(),
        access: access.clone(),
        posture: posture.clone(),
        clock: clock.clone(),
        settings: config.sessions.clone(),
        enrollment: config.enrollment.clone(),
        certificates: certificates.clone(),
        history: config.history.clone(),
        refusals: refusals.clone(),
    };
    let expiry = ExpiryNotice::new(store.clone(), keystore.clone(), clock.clone(), metrics.gauges.clone());
    let reserved = Reserved::of(&config.advertised(&all_bound), config.enrollment.routers_may_name_controller);
    let control = Control::start(
        control::Parts {
            rights: network::Rights {
                store: store.clone(),
                access: access.clone(),
                posture: posture.clone(),
                sessions: sessions.clone(),
                clock: clock.clone(),
            },
            changes: changes.clone(),
            refusals: refusals.clone(),
            keystore: keystore.clone(),
            config: config.router.clone(),
            routers: config.routers.clone(),
            passwords: passwords.clone(),
            reserved: reserved.clone(),
        },
        &control_feed,
    )?;
    let router = built_in_router::start(config, &feed, || network::Parts {
        id: Id::from_text(EdgeRouter::BUILT_IN),
        store: store.clone(),
        changes: changes.clone(),
        access: access.clone(),
        posture: posture.clone(),
        sessions: sessions.clone(),
        refusals: refusals.clone(),
        clock: clock.clone(),
        config: config.router.clone(),
    })?;
    let codes = Codes::new(change::seal(&store, &sealed_keys)?, &config.codes);
    let interfaces = Interfaces::new()?;
    let last_hour = Arc::new(LastHour::new(router.clone(), metrics.clone()));
    let services = Arc::new(AppState {
        store: store.clone(),
        changes,
        access,
        posture,
        keystore,
        router: router.clone(),
        control: control.clone(),
        maintenance: maintenance.clone(),
        descriptions: interfaces.descriptions(),
        sessions,
        api_tokens,
        login_links,
        passwords,
        codes,
        refusals,
        metrics: metrics.clone(),
        watchers: watchers.clone(),
        last_hour: last_hour.clone(),
        config: Arc::new(config.clone()),
        tokens: Tokens::new(&config.tokens, config.key_sets.clone()),
        started: clock.now(),
        clock: clock.clone(),
        instance: Uuid::new_v4().simple().to_string().chars().take(10).collect(),
        address: advertised.clone(),
        addresses,
        reserved,
        limits: ArcSwap::from_pointee(limits(config)),
        texts,
        routers,
        network_tokens: NetworkTokens::default(),
    });
    let metrics_bound = of_metrics.as_ref().map(|(_, bound)| *bound);
    let sources = || metrics::Sources {
        metrics: metrics.clone(),
        store: store.clone(),
        router: router.clone(),
        certificates: certificates.clone(),
        clock: clock.clone(),
    };
    let metrics_server = of_metrics.map(|(socket, _)| metrics::serve(socket, sources())).transpose();
    let metrics_server = metrics_server.map_err(|e| NotStarted(format!("metrics.listen: {e}")))?;
    let reload = Reload::new(config.clone(), services.clone(), certificates);
    let dispatcher = Arc::new(Dispatcher::new(services, interfaces));
    let rest = rest(dispatcher.clone(), &config.http);
    let commands = commands(config, owner, dispatcher);
    let control_bound = of_control.as_ref().map(|(_, bound)| *bound);
    let own = [(listener::Port::Router, of_router), (listener::Port::Control, of_control)];
    let own = own.into_iter().filter_map(|(port, bound)| Some((port, bound?.0)));
    let listener = listener(sockets.into_iter().map(|socket| (listener::Port::All, socket)).chain(own).collect(), tls, &config.http);
    let (server, thread) = listen(listener, rest, built_in_router::side(&router), built_in_router::control_side(&control))?;
    let jobs = Some(jobs.start(job_trigger, inbox).map_err(|e| NotStarted(format!("periodic jobs: {e}")))?);
    let background =
        background(config, &maintenance, &audit, &expiry, last_hour, &clock).map_err(|e| NotStarted(format!("maintenance: {e}")))?;
    let thread = Some(thread);
    Ok(Controller {
        bound: all_bound,
        reload,
        advertised,
        first_password,
        store,
        maintenance,
        watchers,
        server,
        thread,
        jobs,
        background,
        audit,
        expiry,
        commands,
        router,
        metrics_bound,
        control_bound,
        metrics_server,
        control,
    })
}

/// The background work: the access audit, what expires soon, the last hour, the scrub, and scheduled snapshots.
fn background(
    config: &Config,
    maintenance: &Maintenance,
    audit: &AccessAudit,
    expiry: &ExpiryNotice,
    hour: Arc<LastHour>,
    clock: &Clock,
) -> std::io::Result<Vec<Background>> {
    let (audit, expiry) = (audit.clone(), expiry.clone());
    let telling = Background::start("access", move |_| audit.go_on())?;
    let expiring = Background::start("expiring", move |progress| expiry.go_on(progress))?;
    let mut running =
        vec![telling, expiring, hour.start(clock.clone())?, Scrub::of(&config.integrity, maintenance.clone(), clock.clone()).start()?];
    let schedule = Schedule::of(&config.snapshots, maintenance.clone(), clock.clone());
    running.extend(schedule.map(Schedule::start).transpose()?);
    Ok(running)
}

/// Sockets for all addresses to listen on, and their addresses with real ports.
fn bind(config: &Config) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), NotStarted> {
    config.listen.addresses().iter().map(|place| bind_to("listen", *place)).collect()
}

/// A socket for the address of a configuration key, and its address with the real port.
fn bind_to(key: &str, place: SocketAddr) -> Result<(TcpListener, SocketAddr), NotStarted> {
    let bound = TcpListener::bind(place).and_then(|socket| socket.local_addr().map(|bound| (socket, bound)));
    bound.map_err(|e| NotStarted(format!("{key}: {place}: {e}")))
}

fn listener(sockets: Vec<(listener::Port, TcpListener)>, tls: rustls::ServerConfig, http: &config::Http) -> Listener {
    Listener {
        sockets,
        tls,
        workers: http.workers,
        handshake_timeout: http.handshake_timeout.duration(),
        connections: http.max_connections,
        handshakes: http.max_handshakes,
    }
}

fn rest(dispatcher: Arc<Dispatcher>, http: &config::Http) -> RestListener {
    let patience = Patience {
        head: http.client_timeout.duration(),
        unread: http.unread_timeout.duration(),
        keep_alive: http.keep_alive.duration(),
        // Heads up to twice the limit are read, so that they are answered with an error.
        head_bytes: 2 * http.max_head_bytes,
        streams: http.max_streams,
    };
    let bounds = Bounds { each: http.max_unread_bytes, total: http.max_unread_bytes_total };
    RestListener::new(dispatcher, patience, bounds, Shutdown::default())
}

/// The socket for commands on the host. A file system without sockets does not prevent a start.
fn commands(config: &Config, owner: AdminContext, dispatcher: Arc<Dispatcher>) -> Option<socket::Listening> {
    let path = socket::beside(&config.data);
    let listening = socket::listen(owner, dispatcher, path.clone());
    listening
        .inspect_err(
            |error| tracing::warn!(%error, path = %path.display(), "no socket: commands on this host cannot reach this controller"),
        )
        .ok()
}

/// The data file of a stopped controller, for an offline command. It is unchanged if the command only reads.
///
/// # Errors
/// The file cannot be opened, or holds no controller.
pub fn host(config: &Config, command: &Command) -> Result<AdminContext, NotStarted> {
    pki::jwt::install();
    let clock = Clock::system();
    let options = options(config, &clock, &StoreMetrics::default());
    let is_read_only = command.is_read_only();
    let opened = if is_read_only { Store::open_read_only(&config.data, KINDS, options) } else { Store::open(&config.data, KINDS, options) };
    let opened = opened.map_err(refused)?;
    let sealed_keys = sealed_keys(config, &opened)?;
    // A file that is only read is converted in memory.
    if is_read_only {
        opened.upgrade(None)?
    } else {
        drop(maintenance::upgrade(&opened, &config.data)?)
    }
    let access = Access::following(&opened, clock.clone())?;
    let store = opened.start().map_err(refused)?.by(Author::local());
    let passwords = Passwords::new(&config.passwords)?;
    let advertised = addresses::last_advertised(&store)?.unwrap_or_else(|| config.advertised(config.listen.addresses()));
    let open = |files| Certificates::open(&store, &sealed_keys, advertised.clone(), files);
    // Unusable certificate files must not prevent offline commands.
    let certificates = Arc::new(open(files(config)).or_else(|_| open(None))?);
    let changes = Changes::new(store.clone(), context(config, certificates.keystore().clone(), String::new()));
    let maintenance = Maintenance::new(store.clone(), sealed_keys, clock.clone(), &config.data);
    Ok(AdminContext { store, changes, passwords, certificates, access, maintenance, posture: None, links: None, clock })
}

/// Runs the server on a thread of its own; it is listening when this returns.
fn listen(
    listener: Listener,
    rest: RestListener,
    router: Option<RouterSide>,
    control: RouterSide,
) -> Result<(listener::Running, JoinHandle<std::io::Result<()>>), NotStarted> {
    let (started, starting) = mpsc::channel();
    let run = move || {
        System::new().block_on(async move {
            let stopping = rest.stopping.clone();
            let (server, running) = listener::serve(listener, stopping, move || http::connection_handlers(rest.clone()), router, control)?;
            drop(started.send(running));
            server.await
        })
    };
    let thread = std::thread::Builder::new().name("server".into()).spawn(run).map_err(|e| NotStarted(format!("server: {e}")))?;
    match starting.recv() {
        Ok(running) => Ok((running, thread)),
        Err(_) => Err(NotStarted("server: it ended before it was listening".into())),
    }
}

fn refused(error: OpenError) -> NotStarted {
    NotStarted(match &error {
        OpenError::Damaged { path, .. } => format!("data: {error}; {}", closed::remedy(path)),
        _ => format!("data: {error}"),
    })
}

/// The storage of the controller's secrets in the file, existing or new.
fn sealed_keys(config: &Config, store: &Reader) -> Result<SealedKeys, NotStarted> {
    let passphrase = config.passphrase().map_err(|e| NotStarted(e.to_string()))?;
    let sealed_keys = if store.is_new() { SealedKeys::new(passphrase.as_ref()) } else { SealedKeys::open(store, passphrase.as_ref()) };
    Ok(sealed_keys?)
}

/// Fills a new file. In a file whose administrator has a generated password that was never shown, because that start
/// ended too early, sets another one. Returns the password, if one was set.
fn fill(
    config: &Config,
    store: &Store,
    sealed_keys: &SealedKeys,
    passwords: &Passwords,
    (clients, router): (&[Address], Option<&Address>),
) -> Result<Option<Password>, NotStarted> {
    if !store.is_new() && !change::is_unseen(store, ADMINISTRATOR)? {
        return Ok(None);
    }
    let given = config.admin_password().map_err(|e| NotStarted(e.to_string()))?;
    let (text, first) = match (given, &config.admin_password_file) {
        (Some(given), Some(file)) => (given, Password::Given(file.clone())),
        _ => {
            let made_up = Uuid::new_v4().simple().to_string();
            (made_up.clone().into(), Password::MadeUp(made_up))
        }
    };
    let (password, is_unseen) = (passwords.hash_now(&text)?, matches!(first, Password::MadeUp(_)));
    let administrator = Administrator { username: ADMINISTRATOR.into(), password, is_unseen };
    if store.is_new() {
        let hosts = certificates::hosts(clients.iter().chain(router));
        change::first_start(store, sealed_keys, Filling { hosts, administrator, router: router.is_some() })?;
    } else {
        change::replace_unseen(store, administrator)?;
    }
    Ok(Some(first))
}

/// `overkeep run`: starts a controller, prints its addresses, reloads the configuration on SIGHUP, and stops on SIGTERM
/// or SIGINT.
///
/// # Errors
/// It does not start.
pub(crate) fn run(config: Config, again: config::Reread) -> Result<(), NotStarted> {
    let (system, failed) = (System::new(), |e: std::io::Error| NotStarted(format!("signals: {e}")));
    // A SIGHUP during the start is handled after it. The other signals end the process during the start, which is safe
    // at any moment.
    let mut hangup = system.block_on(async { signal(SignalKind::hangup()) }).map_err(failed)?;
    let controller = start(&config, Clock::system())?;
    let ends = || Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
    let (mut term, mut interrupt) = system.block_on(async { ends() }).map_err(failed)?;
    announcement::announce(&config, &controller)?;
    service_manager::ready(controller.advertised());
    system.block_on(async {
        let mut watchdog = tokio::time::interval(service_manager::watchdog_interval());
        loop {
            tokio::select! {
                _ = term.recv() => return,
                _ = interrupt.recv() => return,
                _ = hangup.recv() => {
                    service_manager::reloading();
                    controller.reload.read(&again);
                    service_manager::ready(controller.advertised());
                }
                // A controller that cannot write is not restarted: it goes on by itself when it can.
                _ = watchdog.tick() => service_manager::watchdog(),
            }
        }
    });
    service_manager::stopping();
    tracing::info!("stopping");
    controller.stop();
    Ok(())
}
