//! A whole build: which layers an image is made of, and which of them are there already.

use std::sync::Arc;

use protocol::StepState;

use super::log::Log;
use super::progress::{Place, Progress};
use super::record::Record;
use super::step::Names;
use super::{Images, Recipe, key};
use crate::{Error, Layer, LayerId, Stack, base};

/// More layers than this are put together: each costs a little at every look-up of a name.
const MOST_LAYERS: usize = 10;

/// A build under way.
pub(super) struct Build<'a> {
    pub(super) images: &'a Images,
    pub(super) recipe: &'a Recipe,
    pub(super) log: &'a Arc<Log>,
    /// The image that is there, if there is one.
    pub(super) before: Option<&'a Record>,
}

/// What came of it.
pub(super) struct Built {
    /// What a sandbox stands on.
    pub(super) stack: Stack,
    /// Its layers before some were put together, topmost first.
    pub(super) parts: Vec<LayerId>,
    /// Bytes of all layers of the stack.
    pub(super) bytes: u64,
}

/// How set-up layers are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    /// By their inputs, whatever the commit.
    AnyCommit,
    /// By everything below them.
    SameCommit,
}

impl Build<'_> {
    pub(super) async fn run(&self) -> Result<Built, Error> {
        let base = self.base().await?;
        let bottom = base.stack.with(self.repo().await?);
        let set_up = match self.set_up(&base, &bottom, Reuse::AnyCommit).await? {
            Some(stack) => stack,
            // With this commit the layers that were there do not go together.
            None => self.set_up(&base, &bottom, Reuse::SameCommit).await?.ok_or_else(|| Error::Build {
                message: "the layers of the set-up steps do not go together".to_owned(),
                hint: "this is a mistake of ours; the build's log says which files differ".to_owned(),
            })?,
        };
        let whole = self.warm(&base, set_up).await?;
        let stack = self.squash(&bottom, &whole).await?;
        let mut bytes = 0;
        for layer in &stack.layers {
            bytes += self.layer(layer).await?.bytes;
        }
        Ok(Built { stack, parts: whole.layers, bytes })
    }

    async fn base(&self) -> Result<base::Resolved, Error> {
        self.begin(Place::Base, &[]);
        let tell = |line: String| {
            self.log.line(&line);
            self.progress(|progress| progress.output(Place::Base, format!("{line}\n").as_bytes()));
        };
        let there = self.images.driver.layers().await?;
        let base =
            self.images.bases.resolve(&self.recipe.base, self.recipe.checkout.as_deref(), &tell).await?;
        let mut layers = Vec::new();
        for layer in &base.stack.layers {
            self.images.hold(&self.recipe.environment, layer);
            layers.push(self.layer(layer).await?);
        }
        self.probe(&base).await?;
        let cached = base.stack.layers.iter().all(|layer| there.iter().any(|known| known.id == *layer));
        self.done(Place::Base, if cached { StepState::Cached } else { StepState::Built }, &layers);
        Ok(base)
    }

    async fn repo(&self) -> Result<LayerId, Error> {
        let id = key::repo(&self.recipe.repo)?;
        let _one = self.claim(&id).await;
        self.begin(Place::Clone, &self.recipe.notes);
        let (state, layer) = match self.images.driver.layer(&id).await? {
            Some(layer) => (StepState::Cached, layer),
            None => (StepState::Built, self.clone_repo(&id).await?),
        };
        self.done(Place::Clone, state, &[layer]);
        Ok(id)
    }

    /// Stacks the layers of the set-up steps. None if layers that were made on another commit hide something of this one;
    /// that is noted, so that the next build knows.
    async fn set_up(
        &self,
        base: &base::Resolved,
        bottom: &Stack,
        reuse: Reuse,
    ) -> Result<Option<Stack>, Error> {
        let mut stack = bottom.clone();
        let mut portable = reuse == Reuse::AnyCommit;
        // Whether a layer of another commit is in the stack that was not yet looked at together with this one.
        let mut unseen = false;
        let mut before = Vec::new();
        let surroundings = key::surroundings(self.recipe);
        for (number, step) in self.recipe.setup.iter().enumerate() {
            let place = Place::Setup(number);
            self.begin(place, &step.notes);
            let key = key::portable(&self.recipe.repo.url, &base.key, &surroundings, step, &before);
            let any = key::portable_layer(&key)?;
            let full = key::full_layer("setup", &base.key, &surroundings, step, &stack, &[])?;
            let _one = self.claim(&any).await;
            self.images.hold(&self.recipe.environment, &full);
            portable = portable && !step.inputs.is_empty() && !self.images.files.has_note(&key);
            let wanted = if portable { &any } else { &full };
            let layer = match self.images.driver.layer(wanted).await? {
                Some(layer) => {
                    unseen |= portable;
                    self.done(place, StepState::Cached, std::slice::from_ref(&layer));
                    layer
                }
                None => {
                    if unseen && !self.goes_together(&stack).await? {
                        return Ok(None);
                    }
                    unseen = false;
                    let names = Names { portable: portable.then_some(any), full };
                    let made = self.run_step(place, step, &stack, &names, &[]).await?;
                    if let Some(changed) = made.changed {
                        self.log
                            .line(&format!("=== it is for this commit only, because it changed:\n{changed}"));
                        self.images.files.note(&key, &changed)?;
                        portable = false;
                    }
                    self.done(place, StepState::Built, std::slice::from_ref(&made.layer));
                    made.layer
                }
            };
            stack = stack.with(layer.id);
            before.push(key);
        }
        if unseen && !self.goes_together(&stack).await? {
            return Ok(None);
        }
        Ok(Some(stack))
    }

    /// Whether layers that were made on different commits show the files of this one.
    async fn goes_together(&self, stack: &Stack) -> Result<bool, Error> {
        if self.before.is_some_and(|record| record.parts.ends_with(&stack.layers)) {
            return Ok(true);
        }
        let key = key::combination(stack);
        if self.images.files.has_note(&key) {
            return Ok(false);
        }
        let Some(conflict) = self.conflict(stack).await? else { return Ok(true) };
        self.log.line(&format!("=== layers of another commit hide files of this one:\n{conflict}"));
        self.images.files.note(&key, &conflict)?;
        Ok(false)
    }

    async fn warm(&self, base: &base::Resolved, mut stack: Stack) -> Result<Stack, Error> {
        let surroundings = key::surroundings(self.recipe);
        for (number, step) in self.recipe.warm.iter().enumerate() {
            let place = Place::Warm(number);
            self.begin(place, &step.notes);
            let services = &self.recipe.services;
            let full = key::full_layer("warm", &base.key, &surroundings, step, &stack, services)?;
            let _one = self.claim(&full).await;
            let (state, layer) = match self.images.driver.layer(&full).await? {
                Some(layer) => (StepState::Cached, layer),
                None => {
                    let names = Names { portable: None, full };
                    (StepState::Built, self.run_step(place, step, &stack, &names, services).await?.layer)
                }
            };
            self.done(place, state, std::slice::from_ref(&layer));
            stack = stack.with(layer.id);
        }
        Ok(stack)
    }

    /// Puts the lowest steps' layers together where there are too many.
    async fn squash(&self, bottom: &Stack, whole: &Stack) -> Result<Stack, Error> {
        let steps = whole.layers.len() - bottom.layers.len();
        let Some((keep, fold)) = fold(whole.layers.len(), steps) else { return Ok(whole.clone()) };
        let lowest = &whole.layers[keep..keep + fold];
        let id = key::squashed(lowest)?;
        let _one = self.claim(&id).await;
        if self.images.driver.layer(&id).await?.is_none() {
            self.log.line(&format!("=== {fold} layers are put together"));
            self.images.driver.squash(lowest, &id).await?;
        }
        let mut stack = whole.clone();
        stack.layers.splice(keep..keep + fold, [id]);
        Ok(stack)
    }

    /// Only this build makes the layer as long as the value is held, and nobody removes it before the build is done. Must
    /// come before it is looked for.
    async fn claim(&self, id: &LayerId) -> tokio::sync::OwnedMutexGuard<()> {
        self.images.hold(&self.recipe.environment, id);
        self.images.layer_lock(id).await
    }

    async fn layer(&self, id: &LayerId) -> Result<Layer, Error> {
        self.images.driver.layer(id).await?.ok_or_else(|| Error::NoLayer(id.clone()))
    }

    pub(super) fn progress<T: Default>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        self.images.progress(&self.recipe.environment, change)
    }
}

/// Of so many layers, the steps' on top: how many of the steps' stay, and how many below those are put together. None if
/// there are not too many, or nothing would be won.
fn fold(layers: usize, steps: usize) -> Option<(usize, usize)> {
    let excess = layers.checked_sub(MOST_LAYERS).filter(|excess| *excess > 0)?;
    let fold = (excess + 1).min(steps);
    (fold > 1).then_some((steps - fold, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_layers_as_must_be_are_put_together() {
        assert_eq!(fold(10, 9), None);
        assert_eq!(fold(11, 10), Some((8, 2)), "eight stay, two become one: ten in all");
        assert_eq!(fold(14, 13), Some((8, 5)));
        assert_eq!(fold(30, 3), Some((0, 3)), "a deep base leaves nothing else to do");
        assert_eq!(fold(30, 1), None);
    }
}
