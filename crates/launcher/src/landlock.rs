//! A second fence around files: even if a mount were left writable by mistake, or a device turned up, the kernel's
//! Landlock would refuse what is not on this list. Best effort: what this kernel does not know is left out.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

use crate::fault::{Context, Fault};
use crate::nested::Nesting;
use crate::spec::Stage;

/// The newest set of rules that is used here.
const NEWEST: ABI = ABI::V6;

/// Restricts this process and everything it will start. Must come after `no_new_privs`.
///
/// The kernel lets nobody mount who has rules about files, in whatever namespace. Where programs may make namespaces to
/// mount in, only what leaves the sandbox by other ways (sockets, signals) is fenced in.
pub(crate) fn restrict(nesting: Nesting) -> Result<(), Fault> {
    let fault = |error: RulesetError| Fault::new(Stage::Landlock, format!("restricting files: {error}"));
    if nesting != Nesting::Refused {
        return Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::from_all(NEWEST))
            .and_then(Ruleset::create)
            .and_then(landlock::RulesetCreated::restrict_self)
            .map(|_| ())
            .map_err(fault);
    }
    let everything = AccessFs::from_all(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(fault)?;
    let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let mut allow = |path: &str, access: BitFlags<AccessFs>| -> Result<(), Fault> {
        let place = PathFd::new(path)
            .map_err(|error| Fault::new(Stage::Landlock, format!("restricting files: {error}")))?;
        (&mut rules).add_rule(PathBeneath::new(place, access)).map(|_| ()).map_err(fault)
    };
    allow("/", read)?;
    let top = std::fs::read_dir("/").at(Stage::Landlock, "listing the root")?;
    for entry in top {
        let entry = entry.at(Stage::Landlock, "listing the root")?;
        // A link leads to something that has a rule under its own name.
        if !entry.file_type().at(Stage::Landlock, "listing the root")?.is_dir() {
            continue;
        }
        let path = entry.path();
        let Some(path) = path.to_str() else { continue };
        match path {
            "/sys" => {}
            // Shells truncate what they write to, also there.
            "/proc" => allow(path, read | AccessFs::WriteFile | AccessFs::Truncate)?,
            "/dev" => allow(path, everything)?,
            _ => allow(path, everything & !BitFlags::from(AccessFs::IoctlDev))?,
        }
    }
    rules.restrict_self().map(|_| ()).map_err(fault)
}
