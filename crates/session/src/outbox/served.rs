//! Forges that nothing comes to: whoever wrote one down wants pull requests, and is told when none can come of it.

use crate::{Options, environments};

/// Most repositories that are named.
const NAMED: usize = 5;

/// Tells of forges that serve no repository of any environment. Where there is no environment yet, there is nothing to tell.
pub(crate) async fn tell_of_idle_forges(options: &Options) {
    match environments::list(options).await {
        Ok(all) => {
            let urls = all.iter().flat_map(|known| &known.recipe.repos).map(|repo| repo.url.as_str());
            for words in idle(&options.outbox.sites, &urls.collect::<Vec<_>>()) {
                tracing::warn!("{words}");
            }
        }
        Err(problem) => tracing::warn!("the environments cannot be read: {}", problem.title),
    }
}

fn idle(sites: &[forge::Site], urls: &[&str]) -> Vec<String> {
    if urls.is_empty() {
        return Vec::new();
    }
    let mut known: Vec<String> = urls.iter().map(|url| forge::public_url(url)).collect();
    known.sort();
    known.dedup();
    let more = known.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = known.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let idle = sites.iter().filter(|site| !urls.iter().any(|url| site.repository(url).is_some()));
    idle.map(|site| {
        format!(
            "[forges.{}] serves no repository of any environment: its url is {}, and the repositories are {named}{more}",
            site.name,
            forge::public_url(&site.url)
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forge_that_nothing_comes_to_is_told() {
        let site = |name: &str, url: &str| {
            forge::Site::new(name, forge::Kind::GitHub, url, "https://api.github.com").unwrap()
        };
        let sites = [site("all", "https://github.com"), site("acme", "https://github.com/acme")];
        assert_eq!(idle(&sites, &["git@github.com:acme/shop.git"]), Vec::<String>::new());
        assert_eq!(idle(&sites, &[]), Vec::<String>::new(), "nothing is there yet");
        let told = idle(&sites, &["https://ann:secret@github.com/other/shop", "/srv/git/shop.git"]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("[forges.acme]") && told[0].contains("https://github.com/acme"), "{told:?}");
        assert!(told[0].contains("https://github.com/other/shop") && !told[0].contains("secret"), "{told:?}");
    }
}
