//! Removing what was decided on. What cannot be removed stays, and says why.

use super::World;
use super::plan::{Item, LEASE, Thing};
use crate::{Error, LayerId};

/// Removes what is to be removed; the number of things that are gone. A plan has records before the layers they hold, so
/// nobody finds a record whose layers are missing.
pub(super) async fn perform(world: &World<'_>, items: &mut [Item]) -> usize {
    let mut gone = 0;
    for item in items.iter_mut().filter(|item| item.remove) {
        let removed = match &item.thing {
            Thing::Sandbox(id) => world.driver.remove(*id).await,
            Thing::Snapshot(id) => world.snapshots.forget(*id),
            Thing::Image(name) if world.environments.contains(name) => world.images.give_up(name, LEASE),
            Thing::Image(environment) => world.images.forget(environment),
            Thing::Download(name) => world.images.remove_download(name).await,
            Thing::Layer(layer) => match holder(world, layer) {
                Some(by) => Err(Error::InUse { what: layer.to_string(), by }),
                None => {
                    let removed = world.driver.remove_layer(layer).await;
                    removed.inspect(|()| world.images.layer_removed(layer))
                }
            },
        };
        match removed {
            Ok(()) => gone += 1,
            Err(error) => {
                item.remove = false;
                item.reason = format!("could not be removed: {}", error.to_string().replace('\n', " "));
            }
        }
    }
    gone
}

/// Who has a record of this layer now: a build may have begun or a snapshot been taken since it was decided on.
fn holder(world: &World<'_>, layer: &LayerId) -> Option<String> {
    let snapshots = world.snapshots.all();
    match snapshots.iter().find(|snapshot| snapshot.stack.layers.contains(layer)) {
        Some(snapshot) => Some(format!("snapshot {}", snapshot.id)),
        None if world.snapshots.needs(layer) => Some("a snapshot that is being taken".to_owned()),
        None => world.images.layers().contains(layer).then(|| "an image or its build".to_owned()),
    }
}
