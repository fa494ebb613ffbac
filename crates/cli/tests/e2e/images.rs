//! Images: what `slipway env build` makes and says, when steps run again, and what sessions get out of it. Each file looks
//! at one side.

mod base;
mod beside;
mod building;
mod engine;
mod one_off;
mod ready;
mod recipes;
mod registry;
mod schedule;
mod start;

use testkit::model::Server;
use testkit::repo::Repo;

pub(crate) use ready::image;
pub(crate) use start::slow_fetches;

use crate::harness::{CHECK, ENVIRONMENT, World, models};

/// Installs dependencies: what it writes differs each time that it runs.
const INSTALL: &str = "mkdir -p deps && date +%s%N > deps/stamp && echo installed";

/// Fills a cache, which differs each time too.
const FILL: &str = "date +%s%N > cache";

/// [`Repo::plain`] with a lock file, and places for what steps make.
fn repository() -> Repo {
    let repo = Repo::plain();
    repo.commit("main", &[(".gitignore", "/deps\n/cache\n"), ("deps.lock", "one\n")]);
    repo
}

/// `[environments]` with this repository, and more keys.
fn environment(repo: &Repo, keys: &str) -> String {
    format!(
        "[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\", branch = \"main\" }}]\n\
         checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n{keys}\n",
        repo.url()
    )
}

/// The keys that install dependencies and fill a cache.
fn steps() -> String {
    format!(
        "setup = [{{ run = \"{INSTALL}\", inputs = [\"deps.lock\"] }}]\nwarm = [{{ run = \"{FILL}\" }}]\n"
    )
}

/// A world with this environment.
fn world(model: &Server, repo: &Repo, keys: &str) -> World {
    let world = World::new();
    world.configure(&format!("{}{}", models(model), environment(repo, keys)));
    world
}

/// What a command says in a sandbox of the environment.
async fn inside(world: &World, command: &str) -> String {
    let run = ["sandbox", "run", "--env", ENVIRONMENT, "--", "sh", "-c", command];
    world.ok(&run).await.stdout
}
