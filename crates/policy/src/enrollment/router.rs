//! Common steps for both kinds of routers: they send two requests, for a client and a server
//! certificate, to enroll and to renew both.

use model::{
    entity::{EdgeRouter, Entity, Id, Record, TransitRouter, TypedLookup, edge_router::State},
    error::{Error, Refusal, Result},
};
use pki::{Certificate, Csr, Validity};

use super::context::{
    EnrollmentContext, EnrollmentRequest, Issued, YEARS, client_certificate, parsed, unissued,
    unprocessable,
};
use crate::change::Change;

/// The two requests of a router.
pub(crate) struct RouterCsrs {
    pub(crate) client: Csr,
    pub(crate) server: Csr,
}

/// The two certificates of a router.
pub(crate) struct Pair {
    client: Certificate,
    server: Certificate,
}

impl RouterCsrs {
    /// Reads the members `certCsr` and `serverCertCsr`.
    ///
    /// # Errors
    /// [`Refusal::MissingOrInvalidCsr`] if one is not a text, [`Refusal::CouldNotProcessCsr`] if
    /// one is not a request.
    pub(crate) fn of(body: &EnrollmentRequest) -> Result<Self> {
        let texts = body.members().and_then(|sent| {
            sent.cert_csr
                .as_ref()?
                .text()
                .zip(sent.server_cert_csr.as_ref()?.text())
        });
        let (client, server) = texts.ok_or(Error::Refused(Refusal::MissingOrInvalidCsr))?;
        Self::parse(client, server)
    }

    fn parse(client: &str, server: &str) -> Result<Self> {
        Ok(Self {
            client: parsed(client)?,
            server: parsed(server)?,
        })
    }

    /// For edge routers: the common name of the client request must be the router's id.
    ///
    /// # Errors
    /// [`Refusal::CouldNotProcessCsr`] if the common name is another one.
    pub(crate) fn of_edge_router(self, id: &str) -> Result<Self> {
        if self.client.subject().common_name().as_deref() == Some(id) {
            Ok(self)
        } else {
            Err(unprocessable())
        }
    }

    /// For transit routers: the common name of the client certificate is set to the router's id,
    /// whatever was requested.
    ///
    /// # Errors
    /// [`Refusal::CouldNotProcessCsr`] if the subject cannot be read.
    pub(crate) fn of_transit_router(self, id: &str) -> Result<Self> {
        let client = self
            .client
            .with_common_name(id)
            .map_err(|_| unprocessable())?;
        Ok(Self { client, ..self })
    }

    /// Issues both certificates, each with the alternative names of its request, because routers
    /// know their own addresses.
    ///
    /// # Errors
    /// [`Refusal::CouldNotProcessCsr`] for names that are not allowed in a certificate,
    /// [`Error::Invalid`] for a name of the controller.
    pub(crate) fn issue(&self, context: &EnrollmentContext<'_>) -> Result<Pair> {
        context.reserved.admits("certCsr", &self.client)?;
        context.reserved.admits("serverCertCsr", &self.server)?;
        let validity = Validity::years(YEARS, context.now.seconds());
        let server = context
            .keystore
            .authority()
            .issue_server(&self.server, self.server.names(), validity)
            .map_err(unissued)?;
        Ok(Pair {
            client: client_certificate(context, &self.client, self.client.names())?,
            server,
        })
    }
}

impl Pair {
    /// The response to the router.
    pub(crate) fn handed_out(&self, context: &EnrollmentContext<'_>) -> Issued {
        let chain = |leaf| Some(context.keystore.chain_pem(leaf));
        Issued {
            ca: Some(context.keystore.bundle_pem(context.now.seconds())),
            cert: chain(&self.client),
            server_cert: chain(&self.server),
            username: None,
        }
    }

    /// Records the new certificates in the state of the router; its previous certificate becomes
    /// invalid. If not `keep`, the certificate itself is not stored, as for transit routers.
    pub(crate) fn enter(&self, state: &mut State, keep: bool) {
        let (fingerprint, cert_pem) = (
            Some(self.client.fingerprint()),
            keep.then(|| self.client.pem()),
        );
        *state = State {
            is_verified: true,
            fingerprint,
            cert_pem,
            ..State::default()
        };
    }
}

/// Renews both certificates of the router that presents its client certificate. The previous one
/// becomes invalid at once.
///
/// # Errors
/// [`Error::Unauthorized`] if the certificate is not a router's, [`Refusal::RouterCsr`],
/// [`Refusal::RouterCommonName`], [`Error::Invalid`] for a name of the controller.
pub async fn extend(
    context: &EnrollmentContext<'_>,
    chain: &[Certificate],
    client: &str,
    server: &str,
) -> Result<Issued> {
    let nobody = Error::Unauthorized { anonymous: false };
    let fingerprint = chain.first().ok_or(nobody.clone())?.fingerprint();
    let found = context.store.read(|tx| {
        let edge = tx
            .find_by::<EdgeRouter>("fingerprint", &fingerprint)?
            .map(|router| router.id);
        let transit = if edge.is_none() {
            tx.find_by::<TransitRouter>("fingerprint", &fingerprint)?
                .map(|router| router.id)
        } else {
            None
        };
        Ok((edge, transit))
    })?;
    let unreadable = |reason| {
        if let Error::Refused(_) = reason {
            Error::Refused(Refusal::RouterCsr)
        } else {
            reason
        }
    };
    let asked = || RouterCsrs::parse(client, server).map_err(unreadable);
    let requests = match &found {
        (Some(id), _) => asked()?
            .of_edge_router(id.as_str())
            .map_err(|_| Error::Refused(Refusal::RouterCommonName))?,
        (_, Some(id)) => asked()?
            .of_transit_router(id.as_str())
            .map_err(unreadable)?,
        (None, None) => return Err(nobody),
    };
    let pair = requests.issue(context).map_err(unreadable)?;
    let given = pair.handed_out(context);
    let work = move |change: &Change<'_, '_>| match found {
        (Some(id), _) => {
            renew::<EdgeRouter>(change, &id, &fingerprint, |state| pair.enter(state, true))
        }
        (_, Some(id)) => {
            renew::<TransitRouter>(change, &id, &fingerprint, |state| pair.enter(state, false))
        }
        (None, None) => Ok(()),
    };
    context.changes.run(work).await?;
    Ok(given)
}

/// Stores the new state of a router, if the presented certificate is still its current one.
fn renew<E: Entity<State = State>>(
    change: &Change<'_, '_>,
    id: &Id<E>,
    shown: &str,
    enter: impl FnOnce(&mut State),
) -> Result<()> {
    let current = change
        .find(id)?
        .filter(|router: &Record<E>| router.state.fingerprint.as_deref() == Some(shown));
    let mut router = current.ok_or(Error::Unauthorized { anonymous: false })?;
    enter(&mut router.state);
    change.act_for_client();
    change.put(router)
}

/// The router that a message comes from.
#[derive(Clone)]
pub enum Renewing {
    Edge(Id<EdgeRouter>),
    Transit(Id<TransitRouter>),
}

/// Issues both certificates again for a connected router. The client certificate becomes the
/// current one with [`confirm`], or at once if `is_confirmed`.
///
/// # Errors
/// As in [`extend`]; [`Error::NotFound`] if the router was deleted.
pub async fn offer(
    context: &EnrollmentContext<'_>,
    router: &Renewing,
    (client, server): (&str, &str),
    is_confirmed: bool,
) -> Result<Issued> {
    let asked = RouterCsrs::parse(client, server)?;
    let requests = match router {
        Renewing::Edge(id) => asked.of_edge_router(id.as_str())?,
        Renewing::Transit(id) => asked.of_transit_router(id.as_str())?,
    };
    let pair = requests.issue(context)?;
    let given = pair.handed_out(context);
    let keep = matches!(router, Renewing::Edge(_));
    let enter = move |state: &mut State| {
        (state.unverified_fingerprint, state.unverified_cert_pem) = (
            Some(pair.client.fingerprint()),
            keep.then(|| pair.client.pem()),
        );
        if is_confirmed {
            swap(state);
        }
        Ok(())
    };
    alter(context, router, enter).await?;
    Ok(given)
}

/// Makes the client certificate that waits the current one. The previous one stays valid until the
/// router connects with the new one, because the router may not know of the change.
///
/// # Errors
/// [`Error::NotFound`] if the router was deleted, [`Refusal::InvalidClientCert`] if `shown` is
/// neither certificate.
pub async fn confirm(
    context: &EnrollmentContext<'_>,
    router: &Renewing,
    shown: &str,
) -> Result<()> {
    let invalid = || Error::Refused(Refusal::InvalidClientCert);
    let shown = Some(
        Certificate::first(shown)
            .map_err(|_| invalid())?
            .fingerprint(),
    );
    let enter = move |state: &mut State| {
        if state.fingerprint != shown {
            (state.unverified_fingerprint == shown)
                .then_some(())
                .ok_or_else(invalid)?;
            swap(state);
        }
        Ok(())
    };
    alter(context, router, enter).await
}

/// Records that a router has connected with this certificate: it becomes the only one.
///
/// # Errors
/// [`Error::NotFound`] if the router was deleted, [`Refusal::InvalidClientCert`] if it has other
/// certificates.
pub async fn note_router_use(
    context: &EnrollmentContext<'_>,
    router: &Renewing,
    fingerprint: String,
) -> Result<()> {
    let enter = move |state: &mut State| {
        if state.unverified_fingerprint.as_ref() == Some(&fingerprint) {
            swap(state);
        }
        if state.fingerprint.as_ref() != Some(&fingerprint) {
            return Err(Error::Refused(Refusal::InvalidClientCert));
        }
        (state.unverified_fingerprint, state.unverified_cert_pem) = (None, None);
        Ok(())
    };
    alter(context, router, enter).await
}

fn swap(state: &mut State) {
    std::mem::swap(&mut state.fingerprint, &mut state.unverified_fingerprint);
    std::mem::swap(&mut state.cert_pem, &mut state.unverified_cert_pem);
}

async fn alter(
    context: &EnrollmentContext<'_>,
    router: &Renewing,
    enter: impl FnOnce(&mut State) -> Result<()> + Send + 'static,
) -> Result<()> {
    let router = router.clone();
    let work = move |change: &Change<'_, '_>| match router {
        Renewing::Edge(id) => enter_into::<EdgeRouter>(change, &id, enter),
        Renewing::Transit(id) => enter_into::<TransitRouter>(change, &id, enter),
    };
    context.changes.run(work).await
}

fn enter_into<E: Entity<State = State>>(
    change: &Change<'_, '_>,
    id: &Id<E>,
    enter: impl FnOnce(&mut State) -> Result<()>,
) -> Result<()> {
    let mut router = change.get(id)?;
    // A router that is to enroll again has no certificate to renew.
    if !router.state.is_verified {
        return Err(Error::Refused(Refusal::InvalidClientCert));
    }
    enter(&mut router.state)?;
    change.act_for_client();
    change.put(router)
}
