//! A repository, a driver and the images of both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use guest::{Output, ProcessSpec};
use protocol::{StepKind, StepState};
use sandbox::image::{Image, Images, Recipe, Repo, Step};
use sandbox::native::Native;
use sandbox::{Driver, LayerId, Life, Limits, Owner, Spec, base};

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) driver: Arc<Native>,
    pub(crate) images: Arc<Images>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = Arc::new(Native::open(&dir.path().join("driver")).unwrap());
        let world = Self { images: open(dir.path(), &driver), dir, driver };
        std::fs::create_dir(world.repo()).unwrap();
        world.git(&["init", "-q", "-b", "main"]);
        world.commit(&[(".gitignore", "/deps\n"), ("lock", "left-pad 1\n"), ("main", "one\n")]);
        world
    }

    /// The images as a restarted server finds them.
    pub(crate) fn reopened(&self) -> Arc<Images> {
        open(self.dir.path(), &self.driver)
    }

    pub(crate) fn images_dir(&self) -> PathBuf {
        self.dir.path().join("images")
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.hooksPath=/dev/null"])
            .args(args)
            .current_dir(self.repo())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits these files, whatever is ignored.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (name, content) in files {
            let path = self.repo().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
            self.git(&["add", "-f", name]);
        }
        self.git(&["commit", "-q", "-m", &format!("changed {}", files[0].0)]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The environment `app` at the tip, without steps.
    pub(crate) fn recipe(&self) -> Recipe {
        let commit = self.git(&["rev-parse", "HEAD"]);
        let bundle = self.dir.path().join(format!("{commit}.bundle"));
        self.git(&["bundle", "create", "-q", bundle.to_str().unwrap(), "refs/heads/main"]);
        Recipe {
            environment: "app".to_owned(),
            base: base::Source::Host,
            checkout: None,
            repo: Repo {
                url: "https://git.example.com/app.git".to_owned(),
                branch: "main".to_owned(),
                commit,
                bundle,
                extras: sandbox::image::Extras::default(),
            },
            clones: Vec::new(),
            setup: Vec::new(),
            warm: Vec::new(),
            services: Vec::new(),
            limits: Limits::default(),
            egress: None,
            notes: Vec::new(),
        }
    }

    /// The same with one set-up step that depends on the lock file.
    pub(crate) fn recipe_with_lock(&self, run: &str) -> Recipe {
        let digest = self.git(&["rev-parse", "HEAD:lock"]);
        let inputs = vec![("lock".to_owned(), Some(digest))];
        Recipe { setup: vec![Step { inputs, ..step(run) }], ..self.recipe() }
    }

    /// What a command prints in a sandbox that stands on the image.
    pub(crate) async fn show(&self, image: &Image, script: &str) -> String {
        let spec = Spec::new(image.stack.clone(), Life::Tied, Owner::OneOff);
        let sandbox = self.driver.create(&spec).await.unwrap();
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
        let spec = ProcessSpec { argv, cwd: Some("/workspace".to_owned()), ..ProcessSpec::default() };
        let mut process = sandbox.guest().start("show", &spec).await.unwrap();
        let mut text = Vec::new();
        loop {
            match process.next().await.unwrap() {
                Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => {
                    text.extend_from_slice(&data)
                }
                Some(Output::Exit(_)) => break,
                None => panic!("the output broke off"),
            }
        }
        self.driver.remove(sandbox.id()).await.unwrap();
        String::from_utf8(text).unwrap().trim().to_owned()
    }

    /// How each step of the last build of `app` went.
    pub(crate) fn states(&self) -> Vec<(StepKind, StepState)> {
        self.images.status("app").steps.iter().map(|step| (step.kind, step.state)).collect()
    }

    /// Where the native driver keeps what a layer holds.
    pub(crate) fn layer_root(&self, layer: &LayerId) -> PathBuf {
        self.dir.path().join("driver/layers").join(layer.as_str()).join("root")
    }

    /// The directories of all sandboxes that are there.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let dir = self.dir.path().join("driver/sandboxes");
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.images.log("app")).unwrap()
    }
}

impl Drop for World {
    /// No build leaves a sandbox behind; those that tests look through are on their way out by now.
    fn drop(&mut self) {
        for _ in 0..500 {
            if self.left().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(std::thread::panicking(), "sandboxes were left behind: {:?}", self.left());
    }
}

fn open(dir: &Path, driver: &Arc<Native>) -> Arc<Images> {
    let driver: Arc<dyn Driver> = Arc::clone(driver) as Arc<dyn Driver>;
    Arc::new(Images::open(&dir.join("images"), driver).unwrap().with_pause(Duration::from_millis(1)))
}

/// A step that depends on everything.
pub(crate) fn step(run: &str) -> Step {
    let run = run.to_owned();
    Step { run, inputs: Vec::new(), notes: Vec::new(), attempts: 1, timeout: Duration::from_secs(60) }
}
