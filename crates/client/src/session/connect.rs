//! Dialing services, and offering terminators of them.

use std::{collections::HashSet, time::Duration};

use super::{
    Session,
    error::SessionError,
    service::{Offer, Right, Service},
};
use crate::{
    Binding, Channel, Connection,
    binding::Bind,
    connection::Dial,
    routers::{EdgeRouter, RouterError},
};

/// How long a host may take until it accepts.
const PATIENCE: Duration = Duration::from_secs(15);

impl Session {
    /// Dials a service, or one of its terminators by its identity. A session that has ended is
    /// replaced once.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn dial(
        &self,
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        let routers = &session.edge_routers;
        match self.dial_over(routers, service, terminator, app_data).await {
            Err(error) if error.may_be_outdated() => {
                session.outdate();
                let session = self.service_session(service, Right::Dial).await?;
                let routers = &session.edge_routers;
                self.dial_over(routers, service, terminator, app_data).await
            }
            other => other,
        }
    }

    /// The edge routers over which a service can be dialed, as far as they are online.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn routers(&self, service: &Service) -> Result<Vec<EdgeRouter>, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        let online = session
            .edge_routers
            .iter()
            .filter(|one| one.address().is_some());
        Ok(online.cloned().collect())
    }

    /// Dials a service over one of these routers.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn dial_over(
        &self,
        routers: &[EdgeRouter],
        service: &Service,
        terminator: Option<&str>,
        app_data: Option<&[u8]>,
    ) -> Result<Connection, SessionError> {
        let session = self.service_session(service, Right::Dial).await?;
        let (_, channel) = self.channel(routers).await?;
        let caller = self.identity();
        let dial = Dial {
            session: &session.token,
            caller: &caller,
            is_encrypted: service.encryption_required,
            terminator,
            app_data,
            patience: PATIENCE,
        };
        let dialed = Connection::dial(&channel, &dial).await;
        dialed.map_err(|error| SessionError::Dial {
            service: service.name.clone(),
            error,
        })
    }

    /// A channel to a router at which a service can be hosted, and which is none of those in
    /// `taken`; with its address.
    ///
    /// # Errors
    /// [`SessionError`]. [`RouterError::AllTaken`] if every router of the service is taken.
    pub(crate) async fn hosting_channel(
        &self,
        service: &Service,
        taken: &HashSet<String>,
    ) -> Result<(String, Channel), SessionError> {
        let session = self.service_session(service, Right::Bind).await?;
        let free: Vec<EdgeRouter> = session
            .edge_routers
            .iter()
            .filter(|router| router.address().is_some_and(|one| !taken.contains(one)))
            .cloned()
            .collect();
        if free.is_empty() && !taken.is_empty() {
            return Err(RouterError::AllTaken.into());
        }
        self.channel(&free).await
    }

    /// Offers a terminator of a service over a channel.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) async fn bind_over(
        &self,
        channel: &Channel,
        service: &Service,
        offer: &Offer,
    ) -> Result<Binding, SessionError> {
        let session = self.service_session(service, Right::Bind).await?;
        let bind = Bind {
            session: &session.token,
            is_encrypted: service.encryption_required,
            terminator: offer.terminator.as_deref(),
            cost: offer.cost,
            precedence: offer.precedence,
            listener: &offer.listener,
        };
        let bound = Binding::bind(channel, &bind).await;
        bound.map_err(|error| SessionError::Dial {
            service: service.name.clone(),
            error,
        })
    }

    /// Offers a terminator of a service at one router.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn bind(&self, service: &Service, offer: &Offer) -> Result<Binding, SessionError> {
        let (_, channel) = self.hosting_channel(service, &HashSet::new()).await?;
        self.bind_over(&channel, service, offer).await
    }

    /// An open channel to one of these routers, or a new one to the first that answers; with the
    /// address of the router.
    pub(crate) async fn channel(
        &self,
        routers: &[EdgeRouter],
    ) -> Result<(String, Channel), SessionError> {
        Ok(self.0.routers.channel(routers, &self.token()).await?)
    }
}
