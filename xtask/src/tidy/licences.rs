//! The licence of every package that ends up in a build. The list of those we accept is in `deny.toml`, which
//! cargo-deny reads too, so that there is one list.

use spdx::{Expression, Licensee, ParseMode};

use super::{Finding, line_of};
use crate::project::{Package, Project};

const FILE: &str = "deny.toml";

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let Some(text) = project.text(FILE) else {
        return vec![Finding::error(FILE, 1, "it is missing: list the licences we accept as licenses.allow")];
    };
    let line = line_of(text, "allow = ");
    let accepted = match accepted(text) {
        Ok(accepted) => accepted,
        Err(message) => return vec![Finding::error(FILE, line, message)],
    };
    project
        .packages
        .iter()
        .filter_map(|package| refusal(package, &accepted))
        .map(|message| Finding::error(FILE, line, message))
        .collect()
}

fn accepted(text: &str) -> Result<Vec<Licensee>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let names =
        table.get("licenses").and_then(|licenses| licenses.get("allow")).and_then(toml::Value::as_array);
    let names = names.ok_or("licenses.allow is missing: list the licences we accept")?;
    names
        .iter()
        .map(|name| {
            let name = name.as_str().ok_or("licenses.allow has something that is not text")?;
            Licensee::parse(name)
                .map_err(|error| format!("\"{name}\" is not an SPDX licence: {}", error.reason))
        })
        .collect()
}

/// Why a package cannot be used.
fn refusal(package: &Package, accepted: &[Licensee]) -> Option<String> {
    let Package { name, version, license } = package;
    let Some(license) = license else {
        return Some(format!("{name} {version} names no licence: do without it"));
    };
    // Old packages write "MIT/Apache-2.0".
    let expression = match Expression::parse_mode(license, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => {
            return Some(format!(
                "{name} {version} has an unreadable licence \"{license}\": {}",
                error.reason
            ));
        }
    };
    let fine = expression.evaluate(|wanted| accepted.iter().any(|have| have.satisfies(wanted)));
    (!fine).then(|| {
        format!("{name} {version} is under {license}: do without it, or argue for accepting that licence")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(license: Option<&str>) -> usize {
        let mut project = Project::of_files(&[(FILE, "[licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n")]);
        let license = license.map(str::to_owned);
        project.packages.push(Package { name: "a".to_owned(), version: "1.0.0".to_owned(), license });
        check(&project).len()
    }

    #[test]
    fn expressions_are_understood() {
        for fine in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "MIT AND Apache-2.0"] {
            assert_eq!(found(Some(fine)), 0, "{fine}");
        }
        for refused in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0 WITH LLVM-exception", "free", ""]
        {
            assert_eq!(found(Some(refused)), 1, "{refused}");
        }
        assert_eq!(found(None), 1);
    }

    #[test]
    fn the_list_itself_is_checked() {
        for text in ["", "[licenses]\nallow = [\"My Own\"]\n", "[licenses]\nallow = [1]\n", "licenses ="] {
            assert_eq!(check(&Project::of_files(&[(FILE, text)])).len(), 1, "{text}");
        }
        assert_eq!(check(&Project::default()).len(), 1);
    }
}
