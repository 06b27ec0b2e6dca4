//! The handles that the parts of a controller share, and the functions that make those parts.

use std::sync::Arc;

use arc_swap::ArcSwap;
use fabric::{
    built_in_router,
    control_channel::{self, Control},
    network::{Network, SessionAuthorizer},
};
use maintenance::{Maintenance, Trials};
use model::{
    clock::Clock,
    config::Config,
    entity::{Author, EdgeRouter, Id},
    metrics::Metrics,
};
use pki::Keystore;
use policy::{
    access::AccessAudit,
    authentication::{Codes, LoginLinks, Passwords, Refusals, SignerLogins, Tokens},
    change::{self, Certificates, Changes, SealedKeys},
    enrollment::Reserved,
    expiring::ExpiryNotice,
};
use rest::{
    AppState, Build, Caches, Instance, Interfaces, LastHour, Logins, NetworkTokens, RouterNetwork,
    Upkeep,
};
use store::Store;
use uuid::Uuid;

use super::{
    client_addresses::Addresses,
    data::Data,
    followers::Followers,
    metrics::Sources,
    routers,
    running::NotStarted,
    settings::{context, files, limits},
};
use crate::{
    admin_socket::{AdminContext, LinkMaker},
    jobs::Jobs,
};

/// Handles that are cloned into the context.
pub(super) struct ControllerCore {
    pub config: Arc<Config>,
    pub clock: Clock,
    pub store: Store,
    pub followers: Followers,
    /// The address of the controller that new enrollments get.
    pub advertised: String,
    pub certificates: Arc<Certificates>,
    pub keystore: Arc<Keystore>,
    pub maintenance: Maintenance,
    pub metrics: Metrics,
    pub audit: AccessAudit,
    sealed_keys: SealedKeys,
    passwords: Passwords,
    addresses: Vec<String>,
    changes: Changes,
    refusals: Refusals,
    login_links: LoginLinks,
    reserved: Reserved,
    network: Arc<Network>,
}

impl ControllerCore {
    /// The core of a controller whose file is open. Renews certificates that end soon.
    ///
    /// # Errors
    /// The file cannot be read or written, or the certificates cannot be used.
    pub(super) fn of(
        config: &Config,
        clock: Clock,
        addresses: Addresses,
        data: Data,
    ) -> Result<Self, NotStarted> {
        let Data {
            store,
            sealed_keys,
            followers,
            passwords,
            metrics,
            ..
        } = data;
        let (advertised, names) = (
            addresses.first(),
            addresses.clients.iter().map(ToString::to_string).collect(),
        );
        let reserved = Reserved::of(
            &addresses.clients,
            config.enrollment.routers_may_name_controller,
        );
        let certificates =
            Certificates::open(&store, &sealed_keys, addresses.clients, files(config))?
                .naming(addresses.router);
        certificates.renew(clock.now())?;
        certificates.note_advertised(clock.now())?;
        let keystore = certificates.keystore().clone();
        let maintenance = Maintenance::new(
            store.clone(),
            sealed_keys.clone(),
            clock.clone(),
            &config.data,
        );
        let refusals = Refusals::default();
        let changes = Changes::new(
            store.clone(),
            context(config, keystore.clone(), advertised.clone()),
        );
        let authorizer = SessionAuthorizer {
            store: store.clone(),
            access: followers.access.clone(),
            posture: followers.posture.clone(),
            sessions: followers.sessions.clone(),
            clock: clock.clone(),
        };
        let network = Network::new(
            keystore.clone(),
            authorizer,
            changes.clone(),
            refusals.clone(),
            followers.hosting.clone(),
            &config.router,
            &config.routers,
        );
        Ok(Self {
            audit: AccessAudit::following(&store)?,
            metrics: Metrics::new(
                metrics,
                maintenance.metrics().clone(),
                refusals.counter().clone(),
                followers.hosting.failure_counter(),
            ),
            network: Arc::new(network),
            changes,
            config: Arc::new(config.clone()),
            certificates: Arc::new(certificates),
            login_links: LoginLinks::default(),
            addresses: names,
            clock,
            store,
            followers,
            advertised,
            keystore,
            maintenance,
            sealed_keys,
            passwords,
            refusals,
            reserved,
        })
    }

    /// The components that commands on this host work with.
    pub(super) fn admin_context(&self) -> AdminContext {
        AdminContext {
            store: self.store.by(Author::local()),
            changes: self.changes.by(Author::local()),
            passwords: self.passwords.clone(),
            certificates: self.certificates.clone(),
            access: self.followers.access.clone(),
            maintenance: self.maintenance.clone(),
            posture: Some(self.followers.posture.clone()),
            hosting: Some(self.followers.hosting.clone()),
            links: Some(LinkMaker {
                links: self.login_links.clone(),
                address: self.advertised.clone(),
            }),
            clock: self.clock.clone(),
        }
    }

    /// The periodic jobs, not started.
    pub(super) fn jobs(&self) -> Jobs {
        Jobs {
            store: self.store.clone(),
            changes: self.changes.clone(),
            sessions: self.followers.sessions.clone(),
            access: self.followers.access.clone(),
            posture: self.followers.posture.clone(),
            hosting: self.followers.hosting.clone(),
            clock: self.clock.clone(),
            settings: self.config.sessions.clone(),
            report_interval: self.config.posture.write_interval,
            enrollment: self.config.enrollment.clone(),
            certificates: self.certificates.clone(),
            history: self.config.history.clone(),
            refusals: self.refusals.clone(),
        }
    }

    /// The notice of what expires soon.
    pub(super) fn expiry_notice(&self) -> ExpiryNotice {
        let (gauges, snapshots) = (self.metrics.gauges.clone(), self.config.snapshots.clone());
        ExpiryNotice::new(
            self.store.clone(),
            self.keystore.clone(),
            self.clock.clone(),
            gauges,
            snapshots,
        )
    }

    /// Starts the control channel of remote routers.
    ///
    /// # Errors
    /// The file cannot be read, or no thread can be started.
    pub(super) fn start_control(&self) -> Result<Control, NotStarted> {
        let context = control_channel::ControlContext {
            changes: self.changes.clone(),
            keystore: self.keystore.clone(),
            routers: self.config.routers.clone(),
            passwords: self.passwords.clone(),
            reserved: self.reserved.clone(),
        };
        Ok(Control::start(
            self.network.clone(),
            context,
            &self.followers.control_feed,
        )?)
    }

    /// Starts the built-in router, if it is enabled.
    ///
    /// # Errors
    /// The file cannot be read or written, or no thread can be started.
    pub(super) fn start_router(&self) -> Result<built_in_router::Router, NotStarted> {
        let context = || built_in_router::RouterContext {
            id: Id::from_text(EdgeRouter::BUILT_IN),
            config: self.config.router.clone(),
        };
        Ok(routers::start(
            &self.config,
            &self.followers.feed,
            &self.network,
            context,
        )?)
    }

    /// The components that the gauges of the metrics are read from.
    pub(super) fn metrics_sources(
        &self,
        router: &built_in_router::Router,
        control: &Control,
    ) -> Sources {
        Sources {
            metrics: self.metrics.clone(),
            store: self.store.clone(),
            router: router.clone(),
            control: control.clone(),
            hosting: self.followers.hosting.clone(),
            certificates: self.certificates.clone(),
            clock: self.clock.clone(),
        }
    }

    /// The components that the handlers of the interfaces work with.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn app_state(
        &self,
        interfaces: &Interfaces,
        router: &built_in_router::Router,
        control: &Control,
        last_hour: &Arc<LastHour>,
        trials: &Trials,
    ) -> Result<AppState, NotStarted> {
        Ok(AppState {
            store: self.store.clone(),
            changes: self.changes.clone(),
            access: self.followers.access.clone(),
            posture: self.followers.posture.clone(),
            keystore: self.keystore.clone(),
            clock: self.clock.clone(),
            config: self.config.clone(),
            limits: ArcSwap::from_pointee(limits(&self.config)),
            metrics: self.metrics.clone(),
            readers: self.followers.readers.clone(),
            descriptions: interfaces.descriptions(),
            logins: self.logins()?,
            network: RouterNetwork {
                router: router.clone(),
                control: control.clone(),
                hosting: self.followers.hosting.clone(),
                last_hour: last_hour.clone(),
            },
            instance: self.instance(),
            upkeep: Upkeep {
                maintenance: self.maintenance.clone(),
                trials: trials.clone(),
                network_checks: Arc::new(tokio::sync::Semaphore::new(1)),
            },
            caches: Caches {
                json: self.followers.json_cache.clone(),
                routers: self.followers.routers.clone(),
                network_tokens: NetworkTokens::default(),
            },
        })
    }

    /// The components that log callers in and recognize them.
    ///
    /// # Errors
    /// The file cannot be written.
    fn logins(&self) -> Result<Logins, NotStarted> {
        Ok(Logins {
            sessions: self.followers.sessions.clone(),
            api_tokens: self.followers.api_tokens.clone(),
            login_links: self.login_links.clone(),
            passwords: self.passwords.clone(),
            codes: Codes::new(
                change::seal(&self.store, &self.sealed_keys)?,
                &self.config.codes,
            ),
            tokens: Tokens::new(&self.config.tokens, self.config.key_sets.clone()),
            signer_logins: SignerLogins::new(self.config.key_sets.clone()),
            refusals: self.refusals.clone(),
        })
    }

    /// What is known of this controller, with a new instance id.
    fn instance(&self) -> Instance {
        Instance {
            build: Build {
                revision: env!("OVERKEEP_REVISION"),
                date: env!("OVERKEEP_BUILD_DATE"),
            },
            id: Uuid::new_v4()
                .simple()
                .to_string()
                .chars()
                .take(10)
                .collect(),
            started: self.clock.now(),
            address: self.advertised.clone(),
            addresses: self.addresses.clone(),
            reserved: self.reserved.clone(),
        }
    }
}
