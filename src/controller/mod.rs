//! The composition root: all parts are created, connected, started and stopped here.
//!
//! Start at [`start`]. Invariant: a controller that is reported as running has its file open, its
//! engine filled and its socket bound.

mod announcement;
mod client_addresses;
mod core;
mod data;
mod drill;
mod followers;
mod metrics;
mod reload;
mod routers;
mod running;
mod service_manager;
mod settings;
mod signals;
mod terminal;

pub(crate) use announcement::password_file;
pub use running::{Controller, NotStarted};

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use actix_web::rt::System;
use listener::{Bound, Listener, Shutdown, Sockets, StreamServers};
use maintenance::{Background, Maintenance, Schedule, Scrub, Trial, TrialError, Trials};
use model::{
    clock::Clock,
    config::{self, Address, Config},
    entity::Author,
    metrics::StoreMetrics,
};
use policy::{
    access::Access,
    authentication::Passwords,
    change::{
        self, Certificates, Changes, KINDS, NewFile, PasswordRules, SealedKeys, addresses,
        certificates,
    },
    expiring::ExpiryNotice,
};
use rest::{ConnectionLimits, Dispatcher, Interfaces, LastHour, MemoryBounds, RestListener};
use store::{Progress, Store};

use crate::{
    admin_socket::{AdminContext, Command, socket},
    jobs,
};

use self::{
    client_addresses::Addresses,
    core::ControllerCore,
    data::{Data, refused, sealed_keys},
    metrics::MetricsServer,
    reload::Reload,
    settings::{context, files, options},
    signals::{Hangup, Signals},
};

/// Starts a controller in this process.
///
/// # Errors
/// The first failure, as one line.
pub fn start(config: &Config, clock: Clock) -> Result<Controller, NotStarted> {
    pki::jwt::install();
    let mut sockets = Sockets::bind(config)?;
    let addresses = Addresses::of(config, &sockets);
    let (job_trigger, inbox) = jobs::job_trigger();
    let mut data = Data::open(config, &clock, &addresses, &job_trigger)?;
    let first_password = data.first_password.take();
    let router_address = addresses.router.clone();
    let core = ControllerCore::of(config, clock, addresses, data)?;
    let tls = pki::tls::server_config(core.keystore.leaf())?;
    let control = core.start_control()?;
    let router = core.start_router()?;
    if let Some(address) = router_address {
        control.join(&address.to_string());
    }
    let interfaces = Interfaces::new()?;
    let last_hour = Arc::new(LastHour::new(
        router.clone(),
        control.clone(),
        core.metrics.clone(),
    ));
    let trials = Trials::new(core.config.clone(), core.clock.clone(), drill);
    let state = Arc::new(core.app_state(&interfaces, &router, &control, &last_hour, &trials)?);
    let (metrics_bound, metrics_server) = serve_metrics(
        sockets.metrics.take(),
        core.metrics_sources(&router, &control),
    )?
    .unzip();
    let reload = Reload::new(config.clone(), state.clone(), core.certificates.clone());
    let dispatcher = Arc::new(Dispatcher::new(state, interfaces));
    let commands = commands(config, core.admin_context(), dispatcher.clone());
    let (bound, control_bound) = (
        sockets.bound(),
        sockets.control.as_ref().map(|(_, bound)| *bound),
    );
    let listener = sockets.listener(tls, &config.http);
    let servers = StreamServers {
        router: routers::stream_server(&router),
        control: routers::control_server(&control),
        link: routers::link_server(&router),
    };
    let (server, thread) = listen(listener, rest(dispatcher, &config.http), servers)?;
    let jobs = core
        .jobs()
        .start(job_trigger, inbox)
        .map_err(|e| NotStarted(format!("periodic jobs: {e}")))?;
    let expiry = core.expiry_notice();
    let background = background(&core, &expiry, last_hour)
        .map_err(|e| NotStarted(format!("maintenance: {e}")))?;
    Ok(Controller {
        bound,
        reload,
        advertised: core.advertised,
        first_password,
        store: core.store,
        maintenance: core.maintenance,
        keystore: core.keystore,
        trials,
        readers: core.followers.readers,
        server,
        thread: Some(thread),
        jobs: Some(jobs),
        background,
        audit: core.audit,
        expiry,
        commands,
        router,
        metrics_bound,
        control_bound,
        metrics_server,
        control,
    })
}

/// A restore drill of a snapshot; the copy is made in a new directory in `parent`, and removed.
///
/// # Errors
/// The drill could not be carried out or was cancelled, as one line.
pub fn drill(
    config: &Config,
    snapshot: &Path,
    parent: &Path,
    progress: &Arc<Progress>,
) -> Result<Trial, TrialError> {
    drill::drill(start, config, snapshot, parent, progress)
}

/// Serves the metrics on a socket of their own, if there is one.
fn serve_metrics(
    socket: Option<Bound>,
    sources: metrics::Sources,
) -> Result<Option<(SocketAddr, MetricsServer)>, NotStarted> {
    let served =
        socket.map(|(socket, bound)| metrics::serve(socket, sources).map(|server| (bound, server)));
    served
        .transpose()
        .map_err(|e| NotStarted(format!("metrics.listen: {e}")))
}

/// The background work: the access audit, what expires soon, the last hour, the scrub, and
/// scheduled snapshots.
fn background(
    core: &ControllerCore,
    expiry: &ExpiryNotice,
    hour: Arc<LastHour>,
) -> std::io::Result<Vec<Background>> {
    let (audit, expiry, config) = (core.audit.clone(), expiry.clone(), &core.config);
    let access_audit = Background::start("access", move |_| audit.run_round())?;
    let expiring = Background::start("expiring", move |progress| expiry.run_once(progress))?;
    let scrub = Scrub::of(
        &config.integrity,
        core.maintenance.clone(),
        core.clock.clone(),
    )
    .start()?;
    let mut running = vec![
        access_audit,
        expiring,
        hour.start(core.clock.clone())?,
        scrub,
    ];
    let schedule = Schedule::of(
        &config.snapshots,
        core.maintenance.clone(),
        core.clock.clone(),
    );
    running.extend(schedule.map(Schedule::start).transpose()?);
    Ok(running)
}

fn rest(dispatcher: Arc<Dispatcher>, http: &config::Http) -> RestListener {
    let limits = ConnectionLimits {
        head: http.client_timeout.duration(),
        unread: http.unread_timeout.duration(),
        keep_alive: http.keep_alive.duration(),
        // Heads up to twice the limit are read, so that they are answered with an error.
        head_bytes: 2 * http.max_head_bytes,
        target_bytes: rest::target_bound(http.max_head_bytes),
        streams: http.max_streams,
    };
    let bounds = MemoryBounds {
        each: http.max_unread_bytes,
        total: http.max_unread_bytes_total,
    };
    RestListener::new(dispatcher, limits, bounds, Shutdown::default())
}

/// The socket for commands on the host. A file system without sockets does not prevent a start.
fn commands(
    config: &Config,
    owner: AdminContext,
    dispatcher: Arc<Dispatcher>,
) -> Option<socket::Listening> {
    let path = socket::beside(&config.data);
    let listening = socket::listen(owner, dispatcher, path.clone());
    listening
        .inspect_err(
            |error| tracing::warn!(%error, path = %path.display(), "no socket: commands on this host cannot reach this controller"),
        )
        .ok()
}

/// The data file of a stopped controller, for an offline command. It is unchanged if the command
/// only reads.
///
/// # Errors
/// The file cannot be opened, or holds no controller.
pub fn host(config: &Config, command: &Command) -> Result<AdminContext, NotStarted> {
    pki::jwt::install();
    let clock = Clock::system();
    let options = options(config, &clock, &StoreMetrics::default());
    let is_read_only = command.is_read_only();
    let opened = if is_read_only {
        Store::open_read_only(&config.data, KINDS, options)
    } else {
        Store::open(&config.data, KINDS, options)
    };
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
    let advertised = addresses::last_advertised(&store)?
        .unwrap_or_else(|| config.advertised(config.listen.addresses()));
    offline_context(config, clock, (store, sealed_keys, access), advertised)
}

/// A new data file without an administrator, for records of another controller. [`complete`] makes
/// it one that a controller starts with.
///
/// # Errors
/// The file exists or cannot be written.
pub(crate) fn new_file(config: &Config, advertised: Address) -> Result<AdminContext, NotStarted> {
    pki::jwt::install();
    let clock = Clock::system();
    let opened = Store::open(
        &config.data,
        KINDS,
        options(config, &clock, &StoreMetrics::default()),
    )
    .map_err(refused)?;
    if !opened.is_new() {
        return Err(NotStarted(format!(
            "{} exists already",
            config.data.display()
        )));
    }
    let sealed_keys = sealed_keys(config, &opened)?;
    drop(maintenance::upgrade(&opened, &config.data)?);
    let access = Access::following(&opened, clock.clone())?;
    let store = opened.start().map_err(refused)?.by(Author::local());
    let hosts = certificates::hosts([&advertised]);
    let passwords = PasswordRules::of(&config.passwords);
    change::first_start(
        &store,
        &sealed_keys,
        NewFile {
            hosts,
            administrator: None,
            router: false,
            passwords,
        },
    )?;
    offline_context(
        config,
        clock,
        (store, sealed_keys, access),
        vec![advertised],
    )
}

/// Completes a file of [`new_file`] and closes it.
///
/// # Errors
/// It cannot be written.
pub(crate) fn complete(context: &AdminContext) -> Result<(), NotStarted> {
    context.certificates.note_advertised(context.clock.now())?;
    maintenance::record_release(&context.store)?;
    // Clients believe that the other controller still knows what they have reported.
    context.store.count_as_restored()?;
    context.store.close();
    Ok(())
}

fn offline_context(
    config: &Config,
    clock: Clock,
    (store, sealed_keys, access): (Store, SealedKeys, Access),
    advertised: Vec<Address>,
) -> Result<AdminContext, NotStarted> {
    let passwords = Passwords::new(&config.passwords)?;
    let open = |files| Certificates::open(&store, &sealed_keys, advertised.clone(), files);
    // Unusable certificate files must not prevent offline commands.
    let certificates = Arc::new(open(files(config)).or_else(|_| open(None))?);
    let address = advertised
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    let changes = Changes::new(
        store.clone(),
        context(config, certificates.keystore().clone(), address),
    );
    let maintenance = Maintenance::new(store.clone(), sealed_keys, clock.clone(), &config.data);
    Ok(AdminContext {
        store,
        changes,
        passwords,
        certificates,
        access,
        maintenance,
        posture: None,
        hosting: None,
        links: None,
        clock,
    })
}

/// Runs the server on a thread of its own; it is listening when this returns.
fn listen(
    listener: Listener,
    rest: RestListener,
    servers: StreamServers,
) -> Result<(listener::RunningListener, JoinHandle<std::io::Result<()>>), NotStarted> {
    let (started, starting) = mpsc::channel();
    let run = move || {
        System::new().block_on(async move {
            let stopping = rest.stopping.clone();
            let (server, running) = listener::serve(
                listener,
                stopping,
                move || rest::connection_handlers(rest.clone()),
                servers,
            )?;
            drop(started.send(running));
            server.await
        })
    };
    let thread = std::thread::Builder::new()
        .name("server".into())
        .spawn(run)
        .map_err(|e| NotStarted(format!("server: {e}")))?;
    match starting.recv() {
        Ok(running) => Ok((running, thread)),
        Err(_) => Err(NotStarted(
            "server: it ended before it was listening".into(),
        )),
    }
}

/// `overkeep run`: starts a controller, prints its addresses, handles signals (`signals.rs`), and
/// stops on SIGTERM or SIGINT, and when the terminal hangs up that it was started on.
///
/// # Errors
/// It does not start.
pub(crate) fn run(config: Config, again: config::Reread) -> Result<(), NotStarted> {
    let system = System::new();
    let hangup = system.block_on(async { Hangup::take() })?;
    let controller = start(&config, Clock::system())?;
    let signals = system.block_on(async { Signals::take(hangup) })?;
    announcement::announce(&config, &controller)?;
    service_manager::ready(controller.advertised());
    system.block_on(signals.handle(&controller, &again));
    service_manager::stopping();
    tracing::info!("stopping");
    controller.stop();
    Ok(())
}
