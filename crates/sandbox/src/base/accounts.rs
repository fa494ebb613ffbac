//! The user inside has a name: where a base does not know the id that work runs as, a tiny layer on top tells it.

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::progress::Progress;
use super::{Bases, blocking};
use crate::{Archive, Error, LayerId};

/// What one layer says about users and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Accounts {
    pub(super) passwd: Found,
    pub(super) group: Found,
}

/// What one layer says about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Found {
    /// Nothing.
    #[default]
    Nothing,
    /// It is not there, whatever layers below say.
    Removed,
    /// It is there, but it is a link or nothing that can be read.
    Unreadable,
    /// This is in it.
    Text(String),
}

impl Found {
    /// A removal counts for the layers below; what this layer has itself stays.
    pub(super) fn remove(&mut self) {
        if *self == Self::Nothing {
            *self = Self::Removed;
        }
    }
}

const ID: &str = "1000";
const NAMES: [&str; 3] = ["dev", "slipway", "slipway-dev"];

/// The two files with the user in them; None when they know it already, or cannot be known.
fn fitted(layers: &[Accounts]) -> Result<Option<(String, String)>, &'static str> {
    let top = |file: fn(&Accounts) -> &Found| layers.iter().map(file).find(|found| **found != Found::Nothing);
    let text = |found: Option<&Found>| match found {
        Some(Found::Text(text)) => Ok(text.clone()),
        Some(Found::Unreadable) => {
            Err("the base's list of users is a link: the user inside may have no name")
        }
        Some(Found::Nothing | Found::Removed) | None => Ok(String::new()),
    };
    let mut passwd = text(top(|accounts| &accounts.passwd))?;
    let mut group = text(top(|accounts| &accounts.group))?;
    let has = |list: &str, field: usize, value: &str| {
        list.lines().any(|line| line.split(':').nth(field) == Some(value))
    };
    if has(&passwd, 2, ID) {
        return Ok(None);
    }
    let free = |name: &&&str| !has(&passwd, 0, name) && !has(&group, 0, name);
    let name = *NAMES.iter().find(free).ok_or("the base uses every name that the user inside could have")?;
    for list in [&mut passwd, &mut group] {
        if !list.is_empty() && !list.ends_with('\n') {
            list.push('\n');
        }
    }
    if !has(&passwd, 2, "0") {
        passwd.push_str("root:x:0:0:root:/root:/bin/sh\n");
    }
    if !has(&group, 2, "0") {
        group.push_str("root:x:0:\n");
    }
    passwd.push_str(&format!("{name}:x:{ID}:{ID}:{name}:/home/dev:/bin/sh\n"));
    if !has(&group, 2, ID) {
        group.push_str(&format!("{name}:x:{ID}:\n"));
    }
    Ok(Some((passwd, group)))
}

fn archive(passwd: &str, group: &str) -> std::io::Result<Vec<u8>> {
    let mut builder = ::tar::Builder::new(Vec::new());
    // Without an entry for the directory, which the base has: it may be a link.
    for (name, text) in [("etc/passwd", passwd), ("etc/group", group)] {
        let mut header = ::tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, name, text.as_bytes())?;
    }
    builder.into_inner()
}

impl Bases {
    /// The layer that gives the user inside a name over the layers `below`, topmost first, if one is needed; `layers` is
    /// what those say about users.
    pub(super) async fn fit(
        &self,
        layers: &[Accounts],
        below: &[LayerId],
        progress: &Progress<'_>,
    ) -> Result<Option<LayerId>, Error> {
        let (passwd, group) = match fitted(layers) {
            Ok(Some(lists)) => lists,
            Ok(None) => return Ok(None),
            Err(why) => {
                progress.say(why);
                return Ok(None);
            }
        };
        let scratch = self.cache.scratch()?;
        let path = scratch.path().join("fit.tar");
        let bytes = archive(&passwd, &group).map_err(Error::io(&path))?;
        let layer = Digest::of(&bytes).layer_over("fit", below)?;
        let to = path.clone();
        blocking(move || std::fs::write(&to, bytes).map_err(Error::io(&to))).await?;
        self.driver.import(&layer, &Archive { path, whiteouts: false, below: below.to_vec() }).await?;
        Ok(Some(layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Found {
        Found::Text(text.to_owned())
    }

    #[test]
    fn a_base_that_knows_the_id_is_left_alone() {
        let known =
            Accounts { passwd: text("node:x:1000:1000::/home/node:/bin/sh\n"), group: Found::Nothing };
        assert_eq!(fitted(&[Accounts::default(), known]).unwrap(), None);
    }

    #[test]
    fn the_topmost_word_counts() {
        let below = Accounts { passwd: text("dev:x:1000:1000::/:/bin/sh\n"), group: text("dev:x:1000:\n") };
        let above = Accounts { passwd: text("root:x:0:0::/root:/bin/sh"), group: Found::Nothing };
        let (passwd, group) = fitted(&[above, below.clone()]).unwrap().unwrap();
        assert_eq!(passwd, "root:x:0:0::/root:/bin/sh\nslipway:x:1000:1000:slipway:/home/dev:/bin/sh\n");
        assert_eq!(group, "dev:x:1000:\nroot:x:0:\n");
        let removed = Accounts { passwd: Found::Removed, group: Found::Removed };
        let (passwd, group) = fitted(&[removed, below]).unwrap().unwrap();
        assert_eq!(passwd, "root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\n");
        assert_eq!(group, "root:x:0:\ndev:x:1000:\n");
    }

    #[test]
    fn a_list_that_is_a_link_is_said_and_not_guessed() {
        let link = Accounts { passwd: Found::Unreadable, group: Found::Nothing };
        assert!(fitted(&[link]).is_err());
    }
}
