//! A sandbox of an image that is ready, for finding something out in it: with the network and the services that the steps of
//! its build had. Nothing of it is kept.

use std::sync::Arc;
use std::time::Duration;

use super::build::Build;
use super::log::Log;
use super::step::Held;
use super::way_out::WayOut;
use super::{Image, Images, Recipe};
use crate::{Error, Network, Sandbox, service};

/// A sandbox for finding something out. Dropping it removes it.
pub struct Trial {
    sandbox: Arc<dyn Sandbox>,
    held: Held,
    /// Without it nothing leads out.
    _way_out: Option<WayOut>,
}

impl Trial {
    /// The sandbox.
    pub fn sandbox(&self) -> &dyn Sandbox {
        &*self.sandbox
    }

    /// Removes it now.
    pub async fn end(self) {
        self.held.remove().await;
    }
}

impl Images {
    /// Makes a sandbox on an image; what is found out must not take longer than this.
    pub async fn try_out(&self, recipe: &Recipe, image: &Image, timeout: Duration) -> Result<Trial, Error> {
        let log = Arc::new(Log::nowhere());
        let build = Build { images: self, recipe, log: &log, before: None };
        let network = if recipe.egress.is_some() { Network::Egress } else { Network::None };
        let (sandbox, held) = build.sandbox(image.stack.clone(), timeout, network).await?;
        let set_up = async {
            let way_out = WayOut::open(recipe.egress.as_ref(), &*sandbox, &log).await?;
            service::start(&*sandbox, &recipe.services).await?;
            Ok(way_out)
        };
        match set_up.await {
            Ok(way_out) => Ok(Trial { sandbox, held, _way_out: way_out }),
            Err(error) => {
                held.remove().await;
                Err(error)
            }
        }
    }
}
