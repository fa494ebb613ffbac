//! Making a warm sandbox: started, connected, with its services up; and removing one.

use std::sync::Arc;
use std::time::Duration;

use guest::ProcessSpec;
use protocol::SandboxId;
use tokio_util::sync::CancellationToken;

use super::{Ready, Target};
use crate::{Driver, Error, Life, Owner, Sandbox, Spec, egress, service};

/// What is run once in every warm sandbox, under which id, and for how long at most.
const REHEARSAL: [&str; 3] = ["/bin/sh", "-c", "/bin/true"];
const REHEARSAL_ID: &str = "rehearsal";
const REHEARSAL_LIMIT: Duration = Duration::from_secs(10);

/// Makes one; None when it was told to stop meanwhile. Leaves nothing behind unless it succeeds.
pub(super) async fn make(
    driver: Arc<dyn Driver>,
    environment: String,
    target: Arc<Target>,
    cancel: CancellationToken,
) -> Result<Option<Ready>, Error> {
    if cancel.is_cancelled() {
        return Ok(None);
    }
    let spec = Spec {
        id: SandboxId::new(),
        stack: target.image.stack.clone(),
        limits: target.limits.clone(),
        life: Life::Own,
        network: target.network,
        owner: Owner::Pool { environment, image: target.image.key.clone() },
    };
    // Not broken off: a driver owes nothing for a start that nobody waits for. It takes milliseconds, services may take
    // minutes.
    let sandbox = driver.create(&spec).await?;
    let furnished = tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(None),
        furnished = furnish(&*sandbox, &target) => furnished.map(Some),
    };
    match furnished {
        Ok(Some(proxy)) => Ok(Some(Ready { sandbox, proxy, made_for: target })),
        Ok(None) => {
            discard(&*driver, spec.id).await;
            Ok(None)
        }
        Err(error) => {
            discard(&*driver, spec.id).await;
            Err(error)
        }
    }
}

/// All that a sandbox can have before anybody knows whose it will be.
async fn furnish(sandbox: &dyn Sandbox, target: &Target) -> Result<Option<egress::Proxy>, Error> {
    let nobody: egress::Sink = Arc::new(|_| {});
    let proxy = match sandbox.sockets().await? {
        Some(sockets) => {
            let (rules, outside) = (target.rules.clone(), Arc::clone(&target.outside));
            Some(egress::Proxy::start(sockets, rules, outside, nobody)?)
        }
        None => None,
    };
    let guest = sandbox.guest();
    let bundle = proxy.as_ref().and_then(egress::Proxy::ca_bundle);
    if let Some(bundle) = bundle {
        let written = guest.write_file(egress::CA_BUNDLE, bundle.into()).await;
        written.map_err(|error| Error::Start(format!("a warm sandbox takes no certificates: {error}")))?;
    }
    let answer = match &proxy {
        Some(proxy) => guest.set_env(&proxy.variables()).await,
        None => guest.ping().await,
    };
    answer.map_err(|error| Error::Start(format!("a warm sandbox does not answer: {error}")))?;
    service::start(sandbox, &target.services).await?;
    rehearse(guest).await?;
    guest
        .prepare()
        .await
        .map_err(|error| Error::Start(format!("a warm sandbox does not answer: {error}")))?;
    Ok(proxy)
}

/// Runs a command that does nothing, so that the first one that counts finds all that it needs in memory.
async fn rehearse(guest: &guest::Client) -> Result<(), Error> {
    let broken = |error: guest::Error| Error::Start(format!("a warm sandbox runs nothing: {error}"));
    let command = ProcessSpec {
        argv: REHEARSAL.map(str::to_owned).into(),
        timeout_ms: Some(REHEARSAL_LIMIT.as_millis().try_into().unwrap_or(u64::MAX)),
        ..ProcessSpec::default()
    };
    let mut process = match guest.start(REHEARSAL_ID, &command).await {
        // An image need not have a shell.
        Err(guest::Error::Refused(_)) => return Ok(()),
        other => other.map_err(broken)?,
    };
    while process.next().await.map_err(broken)?.is_some() {}
    guest.forget(REHEARSAL_ID).await.map_err(broken)
}

/// Removes one that nobody claimed.
pub(super) async fn remove(driver: &dyn Driver, ready: Ready) {
    let Ready { sandbox, proxy, .. } = ready;
    drop(proxy);
    discard(driver, sandbox.id()).await;
}

async fn discard(driver: &dyn Driver, id: SandboxId) {
    if let Err(error) = driver.remove(id).await {
        // It still says whose it is, so the next start of the server or the collection of garbage finds it.
        tracing::warn!(sandbox = %id, %error, "a warm sandbox could not be removed");
    }
}
